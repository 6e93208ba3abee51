// The page of one spike: cause and evidence, time axis, hot threads, what was asked.

import { byID, getJSON, getText, h, isSelected, mark, printable, put, set, sidestepNow, terms, wide } from "./dom.js";
import { clock, count, millis, number, percent, span, GAP, NONE } from "./format.js";
import { Flame } from "./flame.js";
import { drawStrips, fillFigures, resizeStrips } from "./strips.js";
import { timeline } from "./timeline.js";
import { causeOf, stateOf } from "./words.js";

const AGAIN = 3000; // ms between readings of a record that may change
// CLOSED is when, in ms after its end, a record is closed for sure: after 15 s, in which its node may get into trouble again,
// and what its last questions take. The cause may be named anew until then.
const CLOSED = 60000;
const path = location.pathname;

let shown = "";
let line = null;
let flame = null;
let folded = "";

// read draws what is new, but what is shown stays while somebody has selected some of it.
async function read() {
  let more = true;
  try {
    const record = await getJSON(path);
    showTitle(record); // for how long it lasts is news
    const state = JSON.stringify(record);
    if (state === shown || !isSelected(byID("record"))) {
      if (state !== shown) show(record);
      shown = state;
      if (record.hot_threads?.length) showStacks(await getText(`${path}/folded`));
      more = !record.ended || sidestepNow() - Date.parse(record.ended) < CLOSED;
    }
    problem("");
  } catch (failure) {
    more = failure.status !== 404;
    if (!more) put(byID("title"), "No such spike");
    problem(more
      ? `The record cannot be read: ${failure.message}`
      : "There is no record of this spike: only the newest are kept. The list of spikes has those there are.");
  }
  if (more) setTimeout(read, AGAIN);
}

function problem(text) {
  put(byID("problem"), text);
  byID("problem").hidden = text === "";
}

function showTitle(record) {
  const end = record.ended ? Date.parse(record.ended) : sidestepNow();
  const lasted = span((end - Date.parse(record.began)) / 1000);
  const { word } = stateOf(record.state);
  put(byID("title"), `${record.node} ${record.ended ? "was" : "has been"} ${word} for ${lasted}: ${causeOf(record.cause).word}`);
  document.title = printable(`${record.node} ${word}, ${clock(record.began)} – sidestep`);
}

function show(record) {
  const { kind, word } = stateOf(record.state);
  put(byID("summary"), record.summary || "");
  put(byID("why"), record.why ? `Seen as ${word}: ${record.why}` : "");
  set(byID("headline"), "class", `headline ${record.ended ? "warn" : "bad"}`);
  byID("facts").replaceChildren(...terms([
    ["Began", clock(record.began)],
    ["Ended", record.ended ? clock(record.ended) : "lasts"],
    ["State", h("span", { class: `state ${kind}` }, mark(kind), word)],
    ["Again within 15 s", record.again && count(record.again, "time")],
  ]));
  byID("record").hidden = false;
  showCause(record);
  line = timeline(record, sidestepNow());
  drawStrips(byID("strips"), line);
  put(byID("axis-note"), line.strips.length ? "All on one time axis; the spike is shaded. Point at a moment to read its figures." : "Nothing was measured at the time.");
  fillFigures(byID("figures"), line);
  showThreads(record.hot_threads || []);
  showTasks(record);
  showCaptures(record.captures || []);
}

// isOpen reports whether somebody reads what is folded away in a part of the page, which is drawn again.
const isOpen = (part) => byID(part).querySelector("details")?.open ?? false;

function evidence(list) {
  if (!list?.length) return null;
  return h("ul", { class: "evidence" }, list.map((e) => h("li", {}, e.text, e.unit || e.value ? h("span", { class: "figure" }, `${number(e.value)}${GAP}${e.unit || ""}`.trim()) : null)));
}

function showCause(record) {
  const cause = causeOf(record.cause);
  const others = (record.causes || []).filter((c) => c.cause !== record.cause).sort((a, b) => b.score - a.score);
  const own = (record.causes || []).find((c) => c.cause === record.cause);
  byID("cause").replaceChildren(
    h("p", { class: "cause" }, h("b", {}, cause.word), own ? h("span", { class: "dim" }, ` score ${number(own.score)}`) : null),
    cause.act ? h("p", {}, cause.act) : "",
    evidence(record.evidence) || h("p", { class: "empty" }, "Nothing that was captured speaks for a cause."),
    others.length ? h("details", { open: isOpen("cause") }, h("summary", {}, `${count(others.length, "other cause")} thought of`),
      others.map((c) => h("div", { class: "other" }, h("p", {}, h("b", {}, causeOf(c.cause).word), h("span", { class: "dim" }, ` score ${number(c.score)}`)), evidence(c.evidence)))) : "");
}

function showThreads(captures) {
  if (!captures.length) {
    byID("threads").replaceChildren(h("p", { class: "empty" }, "No hot threads were captured: below is what was asked, and what was answered."));
    return;
  }
  byID("threads").replaceChildren(h("div", { class: "threads" }, captures.map((c) => h("table", {},
    h("caption", {}, clock(c.at), c.via ? `, asked through ${c.via}` : ""),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Thread"), h("th", { scope: "col", class: "figure" }, "CPU ", h("span", { class: "unit" }, "%")))),
    h("tbody", {}, (c.threads || []).slice(0, 8).map((t) => h("tr", {}, h("th", { scope: "row", class: "thread" }, t.name), h("td", { class: "figure" }, number(t.cpu_percent)))))))));
}

function showStacks(text) {
  if (text === folded) return;
  folded = text;
  flame = text.trim() ? new Flame(byID("flame"), text) : null;
  if (!flame) byID("flame").replaceChildren();
}

function showTasks(record) {
  const tasks = record.tasks || [];
  const pending = record.pending_tasks;
  const about = pending ? h("p", { class: "dim" }, `${count(pending.tasks, "task")} of the cluster's manager were pending, the longest for ${millis(pending.longest_ms)}.`) : "";
  if (!tasks.length) {
    byID("tasks").replaceChildren(h("p", { class: "empty" }, "No running search was captured."), about);
    return;
  }
  const head = ["Action", "Indices", "Running"].map((t, i) => h("th", { scope: "col", class: i === 2 ? "figure" : null }, t));
  byID("tasks").replaceChildren(wide("Search tasks", h("table", {}, h("thead", {}, h("tr", {}, head)),
    h("tbody", {}, tasks.map((t) => h("tr", {}, h("th", { scope: "row" }, t.action), h("td", {}, t.indices || NONE), h("td", { class: "figure" }, millis(t.running_ms))))))), about);
}

function showCaptures(captures) {
  // A capture that asked nobody is a note why.
  const asked = captures.filter((c) => typeof c.took_ms === "number" || c.error || c.via);
  if (!asked.length) {
    const notes = [...new Set(captures.flatMap((c) => c.notes || []))];
    byID("captures").replaceChildren(h("p", { class: "empty" }, notes.length ? notes.join("; ") : "Nothing was asked yet."));
    return;
  }
  const answered = (took, error) => (error ? h("span", { class: "error" }, error) : millis(took));
  const head = ["At", "The node itself", "Through another", ""].map((t) => h("th", { scope: "col" }, t || "Notes"));
  const rows = captures.map((c) => h("tr", {},
    h("th", { scope: "row", class: "figure left" }, clock(c.at)),
    h("td", {}, typeof c.took_ms !== "number" && !c.error ? "not asked" : answered(c.took_ms, c.error)),
    h("td", {}, c.via ? [`${c.via}: `, answered(c.via_took_ms, c.via_error)] : NONE),
    h("td", { class: "dim" }, (c.notes || []).join("; "))));
  const failed = asked.filter((c) => c.error || (typeof c.took_ms !== "number" && c.via_error)).length;
  byID("captures").replaceChildren(
    h("p", {}, `The node was asked ${count(asked.length, "time")}; ${failed ? `${percent(failed / asked.length)} of that brought nothing.` : "it answered each time."}`),
    h("details", { open: isOpen("captures") }, h("summary", {}, "Each time"), wide("What was asked", h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows)))));
}

set(byID("as-json"), "href", `${path}?format=json`);
set(byID("as-folded"), "href", `${path}/folded`);
new ResizeObserver(() => {
  resizeStrips();
  flame?.resize();
}).observe(byID("main"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => line && drawStrips(byID("strips"), line));
read();
