// The list of slow requests, read while the page is looked at.

import { byID, getJSON, h, put, terms, wide } from "./dom.js";
import { bytes, clock, millis, GAP, NONE } from "./format.js";
import { reasonOf } from "./words.js";

const EVERY = 5000; // ms
const SHOWN = 20;

// watchSlow keeps the list up to date.
export function watchSlow() {
  let reading = false;
  const read = async () => {
    if (document.hidden || reading) return;
    reading = true;
    try {
      const { slow } = await getJSON(`/slow?limit=${SHOWN}`);
      draw(slow || []);
      note("");
    } catch (failure) {
      note(`Slow requests cannot be read: ${failure.message}`);
    } finally {
      reading = false;
    }
  };
  read();
  setInterval(read, EVERY);
  document.addEventListener("visibilitychange", read);
}

function note(text) {
  put(byID("slow-note"), text);
  byID("slow-note").hidden = text === "";
  if (text) byID("slow-empty").hidden = true;
}

const entries = new Map(); // what is in the list, by record

// draw changes only what is new or gone: moving an entry would take the focus from it, and one that
// is open is being read, so it stays below the newest.
function draw(records) {
  const list = byID("slow-list");
  const wanted = records.map((r) => [JSON.stringify(r), r]);
  const keys = new Set(wanted.map(([key]) => key));
  for (const [key, element] of entries) {
    if (keys.has(key) || element.open) continue;
    element.remove();
    entries.delete(key);
  }
  wanted.forEach(([key, record], i) => {
    if (!entries.has(key)) entries.set(key, entry(record));
    const element = entries.get(key);
    if (list.children[i] !== element) list.insertBefore(element, list.children[i] ?? null);
  });
  byID("slow-empty").hidden = list.children.length > 0;
}

// entry is one request: a line, and what is behind it.
function entry(r) {
  const attempts = r.attempts || [];
  const kept = (r.kept || []).filter((k) => k !== "slow");
  const line = h("summary", {},
    h("span", { class: "figure when" }, clock(r.at)),
    h("span", { class: "figure took" }, millis(r.duration_ms)),
    h("span", { class: "op" }, r.operation || r.method),
    h("span", { class: "target" }, r.target || r.path || ""),
    h("span", { class: `dim outcome ${r.outcome === "ok" ? "" : "bad"}` }, [r.status || "no status", r.outcome, ...kept, `${attempts.length} ${attempts.length === 1 ? "attempt" : "attempts"}`].join(" · ")));
  return h("details", { class: "slow" }, line, facts(r), attempts.length ? attemptTable(attempts) : null, decision(r.decision));
}

function facts(r) {
  const pairs = [
    ["Decision", [r.reason, reasonOf(r.reason).means].filter(Boolean).join(": ")],
    ["Waited for admission", r.waited_ms && `${millis(r.waited_ms)}, class ${r.class}`],
    ["In upstreams", millis(r.upstream_ms)],
    ["The engine's took", millis(r.took_ms)],
    ["Request, answer", `${bytes(r.request_bytes)}, ${bytes(r.response_bytes)}`],
    ["Nodes listed", (r.nodes || []).join(", ") || NONE],
    ["Answered through", r.coordinator || NONE],
    ["X-Opaque-Id", r.x_opaque_id],
    ["Trace", r.trace_id],
    ["Client", r.client],
  ];
  return h("dl", { class: "facts small" }, terms(pairs));
}

function attemptTable(attempts) {
  const head = ["Attempt", "Through", "Nodes", "Began ms", "Took ms", "Outcome"];
  return wide("Attempts", h("table", {},
    h("thead", {}, h("tr", {}, head.map((t) => h("th", { scope: "col" }, t)))),
    h("tbody", {}, attempts.map((a) => h("tr", {},
      h("th", { scope: "row" }, a.kind),
      h("td", {}, a.node || NONE),
      h("td", {}, (a.nodes || []).join(", ") || "left to the engine"),
      h("td", { class: "figure" }, millis(a.start_ms).replace(`${GAP}ms`, "")),
      h("td", { class: "figure" }, millis(a.duration_ms).replace(`${GAP}ms`, "")),
      h("td", {}, [a.outcome, a.error].filter(Boolean).join(": ")))))));
}

function decision(account) {
  if (!account) return null;
  const candidates = account.candidates || [];
  return h("div", { class: "account" },
    h("p", {}, account.summary || ""),
    candidates.length ? h("ul", {}, candidates.map((c) =>
      h("li", {}, `${c.node}: ${c.listed ? "listed" : "not listed"}, rank ${millis(c.rank)}, response ${millis(c.parts?.response_time_ms)}${c.why ? `; ${c.why}` : ""}`))) : null);
}
