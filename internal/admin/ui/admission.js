// Searches and writes that wait before the cluster, by class, and the limits of the nodes; nothing
// while admission is off.

import { byID, h, put } from "./dom.js";
import { number, thousands, NONE } from "./format.js";

// showAdmission takes in what the status says of admission, if it does, and of the nodes.
export function showAdmission(admission, nodes) {
  const on = Boolean(admission);
  byID("admission").hidden = byID("admission-link").hidden = !on;
  if (!on) return;
  byID("admission-observed").hidden = admission.mode !== "observe";
  const writes = admission.writes && admission.writes !== "off" ? `; of writes, mode ${admission.writes}` : "";
  put(byID("admission-mode"), admission.mode + writes);
  put(byID("admission-waiting"), thousands(admission.waiting));
  put(byID("admission-refused"), thousands(admission.refused));
  put(byID("admission-dropped"), thousands(admission.dropped));
  byID("admission-classes").replaceChildren(...(admission.classes || []).map(classRow));
  const limited = (nodes || []).filter((n) => n.limit !== undefined);
  byID("admission-nodes-table").hidden = limited.length === 0;
  byID("admission-nodes").replaceChildren(...limited.map(nodeRow));
}

const cell = (title, text) => h("td", { role: "cell", class: "figure", "data-title": title }, text);

const head = (text) => h("th", { role: "rowheader", scope: "row" }, text);

function classRow(k) {
  return h("tr", { role: "row" }, head(k.class),
    cell("wait now", thousands(k.waiting)), cell("admitted", thousands(k.admitted)), cell("refused", thousands(k.refused)),
    cell("dropped", thousands(k.dropped)), cell("would wait", thousands(k.would_wait)), cell("would be refused", thousands(k.would_refuse)));
}

function nodeRow(n) {
  return h("tr", { role: "row" }, head(n.name),
    cell("limit", n.limit === null ? NONE : number(n.limit)), cell("admitted", number(n.admitted)),
    cell("waiting", number(n.waiting)), cell("other clients", number(n.other_clients)));
}
