// Explain: where a search on a target would go now, and why.

import { byID, getJSON, h, isSelected, mark, put, terms, wide } from "./dom.js";
import { count, short, NONE } from "./format.js";
import { GROUPS, reasonOf, stateOf } from "./words.js";

const AGAIN = 2000; // ms after which the question is asked again
const SHARDS = 40; // groups shown before somebody asks for all

// PARTS of a rank, as columns.
const PARTS = [
  ["Response ms", "response_time_ms"],
  ["Service ms", "service_time_ms"],
  ["Queue", "queue"],
  ["Owed", "outstanding"],
];

// question is what is asked: number counts, and all says that every set is shown.
const question = { target: "", routing: "", number: 0, all: false };

// startExplain makes the form work; a question in the address is asked at once. The
// answer is kept up to date while the page is looked at.
export function startExplain() {
  const submit = () => {
    question.target = byID("explain-target").value.trim();
    question.routing = byID("explain-routing").value;
    question.number++;
    question.all = false;
    history.replaceState(null, "", `/?${new URLSearchParams({ explain: question.target, routing: question.routing })}#explain`);
    ask();
  };
  byID("explain-form").addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  setInterval(() => {
    const answer = byID("explain-answer");
    if (question.number && !document.hidden && !isSelected(answer) && !answer.contains(document.activeElement)) ask();
  }, AGAIN);
  const given = new URLSearchParams(location.search);
  if (given.get("explain")) {
    byID("explain-target").value = given.get("explain");
    byID("explain-routing").value = given.get("routing") || "";
    submit();
  }
}

let asking = 0; // the number of the question under way

async function ask() {
  const { number } = question;
  if (asking === number) return; // it waits for its answer
  asking = number;
  const query = new URLSearchParams({ target: question.target });
  if (question.routing) query.set("routing", question.routing);
  try {
    const answer = await getJSON(`/explain?${query}`);
    if (number !== question.number) return;
    show(answer);
    put(byID("explain-spoken"), verdict(answer));
  } catch (failure) {
    if (number !== question.number) return;
    const text = `Cannot explain: ${failure.message}`;
    byID("explain-answer").replaceChildren(h("p", { class: "error" }, text));
    put(byID("explain-spoken"), text);
  } finally {
    if (asking === number) asking = 0;
  }
}

// verdict is the answer in one sentence.
function verdict(e) {
  const { group, means } = reasonOf(e.reason);
  const why = means ? `${e.reason}: ${means}` : e.reason;
  if (e.steered) return `Steered (${why}).`;
  if (e.mode !== "route" && e.shards?.length) return `Passed, as the mode is ${e.mode}; it would be ${GROUPS[group].toLowerCase()} (${why}).`;
  return `${GROUPS[group]} (${why}).`;
}

function show(e) {
  const chosen = e.nodes || [];
  const facts = [
    ["Nodes that may serve it", chosen.length ? chosen.join(", ") : null],
    ["Sent through", e.mode === "route" ? e.coordinator || turns(e.coordinators) : null],
    ["Added to the request", e.preference ? h("code", {}, decoded(e.preference)) : null],
    ["Admission", e.admission ? `${e.admission.class}: ${e.admission.summary}` : null],
  ];
  const groups = sameCopies(e.shards || []);
  const scrolled = byID("explain-answer").querySelector(".scroll")?.scrollLeft ?? 0;
  byID("explain-answer").replaceChildren(
    h("p", { class: "verdict" }, verdict(e)),
    e.summary ? h("p", {}, e.summary) : "",
    e.shards?.length && e.exact === false ? h("p", { class: "dim" }, "The routing is not resolved yet: more shards are shown than the search will touch. Ask again in a moment.") : "",
    h("dl", { class: "facts small" }, terms(facts)),
    groups.length ? copies(e, groups) : "",
    e.shards_omitted ? h("p", { class: "dim" }, `… and ${count(e.shards_omitted, "more shard", "more shards")}`) : "");
  if (scrolled) byID("explain-answer").querySelector(".scroll")?.scrollTo({ left: scrolled, behavior: "instant" });
}

function turns(nodes) {
  return nodes?.length ? `${nodes.join(", ")}, in turn` : null;
}

function decoded(query) {
  try {
    return decodeURIComponent(query);
  } catch {
    return query;
  }
}

// sameCopies puts shards together whose copies are on the same nodes.
function sameCopies(shards) {
  const groups = new Map();
  for (const s of shards) {
    const key = JSON.stringify([s.copies.map((c) => c.node_id), s.not_serving]);
    if (!groups.has(key)) groups.set(key, { copies: s.copies, idle: s.not_serving || [], names: [] });
    groups.get(key).names.push([s.index, s.shard]);
  }
  return [...groups.values()];
}

// shardNames is "logs-1 [0], [3]; logs-2 [1]".
function shardNames(names) {
  const byIndex = new Map();
  for (const [index, shard] of names) byIndex.set(index, [...(byIndex.get(index) || []), shard]);
  const parts = [...byIndex].slice(0, 6).map(([index, shards]) => {
    const shown = shards.slice(0, 12).map((n) => `[${n}]`).join(" ");
    return `${index} ${shown}${shards.length > 12 ? ` and ${shards.length - 12} more` : ""}`;
  });
  if (byIndex.size > 6) parts.push(`and ${count(byIndex.size - 6, "more index", "more indices")}`);
  return parts.join("; ");
}

function copies(e, groups) {
  const why = new Map((e.decision?.candidates || []).map((c) => [c.node_id, c.why]));
  const head = h("tr", {}, ["Copy on", "Chosen", "Rank ms", ...PARTS.map(([t]) => t)].map((t, i) => h("th", { scope: "col", class: i > 1 ? "figure" : null }, t)));
  const bodies = groups.map((g) => body(e, g, why));
  const rest = question.all ? [] : bodies.splice(SHARDS);
  const table = h("table", { class: "copies" }, h("caption", { class: "hidden" }, "Copies of each shard with their ranks"), h("thead", {}, head), bodies);
  const more = rest.length ? h("button", { type: "button", onclick: () => { question.all = true; show(e); } }, `Show ${count(rest.length, "more set", "more sets")} of copies`) : null;
  return h("div", {}, wide("Copies of each shard", table), more);
}

// choice says whether a copy is chosen. Where no list is made the engine chooses for each shard.
function choice(e, copy) {
  if (!e.steered && reasonOf(e.reason).group !== "steered") return "by the engine";
  return copy.listed ? "chosen" : "not chosen";
}

function body(e, group, why) {
  const title = h("tr", { class: "shard" }, h("th", { scope: "rowgroup", colspan: 3 + PARTS.length }, `${count(group.names.length, "shard")}: ${shardNames(group.names)}`));
  return h("tbody", {}, title, group.copies.map((c) => {
    const { kind, word } = stateOf(c.state);
    const chosen = choice(e, c);
    return h("tr", { class: chosen === "chosen" ? "listed" : null },
      h("th", { scope: "row" }, h("span", { class: `state ${kind}`, title: word }, mark(kind), c.node), c.state === "fine" ? null : h("span", { class: "dim" }, ` ${word}`)),
      h("td", {}, h("span", { class: "verdict-word" }, chosen), h("span", { class: "why" }, why.get(c.node_id))),
      h("td", { class: "figure" }, short(c.rank)),
      PARTS.map(([, key]) => h("td", { class: "figure" }, c.rank === null ? NONE : short(c.parts[key]))));
  }), group.idle.map((c) => h("tr", {},
    h("th", { scope: "row" }, h("span", { class: "state none" }, mark("none"), c.node || "no node")),
    h("td", { colspan: 2 + PARTS.length }, h("span", { class: "verdict-word" }, `does not serve: ${c.state}`), h("span", { class: "why" }, c.why)))));
}
