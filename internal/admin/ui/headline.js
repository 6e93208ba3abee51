// The state of the cluster in one sentence. Pure: the same status gives the same sentence.

import { CAUSES, NOT_POLLED, isEjected, isLeftOut, stateOf } from "./words.js";
import { count, median, millis, natural, span } from "./format.js";

// headline returns {level, text, steady}: level is "good", "warn", "bad" or "none";
// steady is the text without what changes every second, for screen readers.
export function headline(status) {
  const at = Date.parse(status.at);
  const nodes = (status.nodes || []).filter((n) => n.state !== NOT_POLLED).sort((a, b) => stateOf(a.state).order - stateOf(b.state).order || natural(a.name, b.name));
  if (!status.ready.ok) return plain("warn", `Searches are not steered yet: ${status.ready.missing}.`);
  const prefix = { observe: "Observing only. ", off: "Routing is off. " }[status.mode] || "";
  const out = nodes.filter((n) => isEjected(n.state));
  const busy = nodes.filter((n) => n.state === "busy");
  const silent = nodes.filter((n) => n.state === "unresponsive");
  const back = nodes.filter((n) => n.state === "ramping");
  if (out.length === 1) return one(status, nodes, out[0], prefix, at);
  if (out.length > 1) {
    const verbs = { route: "are ejected", observe: "would be ejected", off: "are in trouble" };
    return several(out, `${prefix}${out.length} of ${nodes.length} nodes ${verbs[status.mode]}`, at);
  }
  if (silent.length === 1) return unanswered(status, silent[0], prefix, at);
  if (silent.length > 1) return several(silent, `${prefix}${silent.length} of ${nodes.length} nodes do not answer polls`, at);
  if (busy.length === 1) return { ...one(status, nodes, busy[0], prefix, at), level: "warn" };
  if (busy.length > 1) return plain("warn", `${prefix}${list(upToFour(busy, (n) => n.name))} are busy: ${status.mode === "route" ? "searches go" : "searches would go"} to other nodes.`);
  if (back.length > 0) {
    const names = list(upToFour(back, (n) => n.name));
    const verb = back.length === 1 ? "is" : "are";
    return plain("warn", `${prefix}${names} ${verb} in slow start: ${back.length === 1 ? "its" : "their"} share grows.`);
  }
  if (nodes.length === 0) return plain("none", "No node is known.");
  const fine = nodes.filter((n) => n.state === "fine").length;
  const polls = "not polled yet, or their last polls were answered with an error";
  if (fine === 0) return plain("none", `${count(nodes.length, "node")} found, all unknown: ${polls}.`);
  if (fine < nodes.length) return plain("warn", `${prefix}${fine} of ${count(nodes.length, "node")} fine, ${nodes.length - fine} unknown: ${polls}.`);
  return plain("good", `${prefix}${nodes.length === 1 ? "The only node is" : `All ${nodes.length} nodes`} fine.`);
}

function plain(level, text) {
  return { level, text, steady: text };
}

// verb says what happens to a node in trouble in a mode.
function verb(mode, state) {
  if (state === "busy") return { route: "has been avoided", observe: "would have been avoided", off: "has been busy" }[mode];
  return { route: "has been ejected", observe: "would have been ejected", off: "has been in trouble" }[mode];
}

function one(status, nodes, node, prefix, at) {
  const begin = `${prefix}${node.name} ${verb(status.mode, node.state)}`;
  const cause = causeOf(status, node);
  const end = `${detail(node, nodes)}${cause ? `. Cause: ${cause}` : ""}.`;
  return { level: "bad", text: `${begin} for ${lasting(node, at)}: ${end}`, steady: `${begin}: ${stateOf(node.state).word}.` };
}

// unanswered says that a node does not answer polls, which ejects no node.
function unanswered(status, node, prefix, at) {
  const begin = `${prefix}${node.name} does not answer polls`;
  const cause = causeOf(status, node);
  return { level: "bad", text: `${begin}, for ${lasting(node, at)} now: it coordinates nothing.${cause ? ` Cause: ${cause}.` : ""}`, steady: `${begin}.` };
}

// several names the first of the nodes of which so much is said.
function several(out, begin, at) {
  const shown = upToFour(out, (n) => `${n.name} (${stateOf(n.state).word}, ${lasting(n, at)})`);
  const steady = list(out.slice(0, 4).map((n) => `${n.name} ${stateOf(n.state).word}`));
  return { level: "bad", text: `${begin}: ${list(shown)}.`, steady: `${begin}: ${steady}.` };
}

// upToFour shows the first nodes, and says how many more there are.
function upToFour(nodes, show) {
  const shown = nodes.slice(0, 4).map(show);
  return nodes.length > 4 ? [...shown, `${nodes.length - 4} more`] : shown;
}

// lasting is for how long a node has been in its state.
export function lasting(node, at) {
  return node.since ? span((at - Date.parse(node.since)) / 1000) : "an unknown time";
}

// detail says what is wrong with a node, in figures where they say it.
function detail(node, nodes) {
  const word = stateOf(node.state).word;
  const own = node.rank === null ? null : node.parts.response_time_ms;
  const others = median(nodes.filter((n) => n.id !== node.id && n.rank !== null && !isLeftOut(n.state)).map((n) => n.parts.response_time_ms));
  if (node.state === "slow" && own !== null && others !== null && own > 2 * others) {
    return `${word}, ${millis(own)} a search (others ${millis(others)})`;
  }
  return node.why ? `${word}, ${node.why}` : word;
}

// causeOf is the cause that a spike in progress names for a node.
function causeOf(status, node) {
  const spike = (status.spikes || []).find((s) => s.node_id === node.id && !s.ended);
  return spike && spike.cause !== "unknown" && CAUSES[spike.cause] ? CAUSES[spike.cause].word : "";
}

function list(words) {
  if (words.length < 2) return words.join("");
  return `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;
}
