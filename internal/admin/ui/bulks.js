// Bulks that are kept on one shard, by index; nothing while they are not.

import { byID, h, put } from "./dom.js";
import { number, thousands, NONE } from "./format.js";

let shown = "";

// showBulks takes in what the status says of bulks, if it does.
export function showBulks(bulks) {
  const on = Boolean(bulks) && bulks.mode !== "off";
  byID("bulks").hidden = byID("bulks-link").hidden = !on;
  if (!on) return;
  const results = bulks.results || {};
  byID("bulks-observed").hidden = bulks.mode !== "observe";
  put(byID("bulks-one"), thousands(results.one_shard || 0));
  put(byID("bulks-mixed"), thousands(results.mixed || 0));
  put(byID("bulks-passed"), thousands(results.passed || 0));
  showOperations(bulks.operations || {});
  const indices = bulks.indices || [];
  const state = JSON.stringify(indices);
  if (state === shown) return;
  shown = state;
  byID("bulks-table").hidden = indices.length === 0;
  byID("bulks-body").replaceChildren(...indices.map(row));
}

// row is an index. A bulk goes to one of its shards, whatever their number.
function row(index) {
  return h("tr", { role: "row" },
    h("th", { role: "rowheader", scope: "row" }, index.index),
    h("td", { role: "cell", "data-title": "shards avoided now" }, index.avoided.join(", ") || "none"),
    h("td", { role: "cell", class: "figure", "data-title": "bulks" }, thousands(index.bulks)),
    h("td", { role: "cell", class: "figure", "data-title": "shards per bulk" }, `1 of ${index.shards}`),
    h("td", { role: "cell", class: "figure", "data-title": "skew" }, index.skew === null ? NONE : number(index.skew)));
}

// showOperations says how many operations were given a shard, and why others were not.
function showOperations(operations) {
  const { planned = 0, ...passed } = operations;
  const reasons = Object.keys(passed).filter((why) => passed[why] > 0).sort((a, b) => passed[b] - passed[a]);
  const list = reasons.map((why) => `${why} ${thousands(passed[why])}`).join(", ");
  put(byID("bulks-operations"), `Operations kept on one shard: ${thousands(planned)}${list ? `; passed: ${list}` : ""}.`);
}
