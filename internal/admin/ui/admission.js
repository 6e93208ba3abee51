// Searches and writes that wait before the cluster, by class, and the limits of the nodes; nothing
// while admission is off.

import { byID, figure, put, row, rowHead } from "./dom.js";
import { number, thousands } from "./format.js";

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

function classRow(k) {
  return row(rowHead(k.class),
    figure("wait now", thousands(k.waiting)), figure("admitted", thousands(k.admitted)), figure("refused", thousands(k.refused)),
    figure("dropped", thousands(k.dropped)), figure("would wait", thousands(k.would_wait)), figure("would be refused", thousands(k.would_refuse)));
}

function nodeRow(n) {
  return row(rowHead(n.name),
    figure("limit", number(n.limit)), figure("admitted", number(n.admitted)),
    figure("waiting", number(n.waiting)), figure("other clients", number(n.other_clients)));
}
