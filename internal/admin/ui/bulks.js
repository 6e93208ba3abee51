// Bulks that are kept on one shard, by index; nothing while they are not.

import { byID, cell, figure, put, row, rowHead } from "./dom.js";
import { number, thousands } from "./format.js";

let shown = "";

// showBulks takes in what the status says of bulks, if it does.
export function showBulks(bulks) {
  const on = Boolean(bulks) && bulks.mode !== "off";
  byID("bulks").hidden = byID("bulks-link").hidden = !on;
  if (!on) return;
  const results = bulks.results || {};
  byID("bulks-observed").hidden = bulks.mode !== "observe";
  put(byID("bulks-one"), thousands((results.one_shard || 0) + (results.one_slot || 0)));
  put(byID("bulks-mixed"), thousands(results.mixed || 0));
  put(byID("bulks-passed"), thousands(results.passed || 0));
  showOperations(bulks.operations || {});
  const indices = bulks.indices || [];
  const state = JSON.stringify(indices);
  if (state === shown) return;
  shown = state;
  byID("bulks-table").hidden = indices.length === 0;
  byID("bulks-body").replaceChildren(...indices.map(indexRow));
}

// indexRow is an index. A bulk goes to one of its shards, whatever their number, or to one of
// its slots of so many shards, where clients route their documents.
function indexRow(index) {
  const size = index.slot_size || 1;
  const part = index.slot_size ? "slot " : "";
  return row(rowHead(index.index), cell("shards avoided now", index.avoided.map((at) => part + at).join(", ") || "none"),
    figure("bulks", thousands(index.bulks)), figure("shards per bulk", `${size} of ${size * index.shards}`), figure("skew", number(index.skew)));
}

// showOperations says how many operations were given a shard, and why others were not.
function showOperations(operations) {
  const { planned = 0, ...passed } = operations;
  const reasons = Object.keys(passed).filter((why) => passed[why] > 0).sort((a, b) => passed[b] - passed[a]);
  const list = reasons.map((why) => `${why} ${thousands(passed[why])}`).join(", ");
  put(byID("bulks-operations"), `Operations kept on one shard: ${thousands(planned)}${list ? `; passed: ${list}` : ""}.`);
}
