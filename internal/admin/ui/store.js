// What the page remembers: the last statuses, for rates, and the last minutes of
// every node, for lines.

import { getJSON } from "./dom.js";

export const MINUTES = 5;
const POINTS = MINUTES * 60;
const WINDOW = 10; // seconds that rates are of

// Store holds it. One is made for the page.
export class Store {
  #frames = []; // {at, requests, decisions, observed, outcomes}, the oldest first
  #series = new Map(); // by node id: [{at, response, share}]

  // load fills the lines with what sidestep remembers itself.
  async load() {
    const history = await getJSON(`/history?seconds=${POINTS}`);
    const at = (history.at || []).map((t) => Date.parse(t));
    for (const node of history.nodes || []) {
      const known = this.#series.get(node.node_id) || [];
      const first = known.length ? known[0].at : Infinity;
      const before = at
        .map((t, i) => ({ at: t, response: node.response_ms?.[i] ?? null, share: node.share?.[i] ?? null }))
        .filter((p) => p.at < first);
      this.#series.set(node.node_id, before.concat(known));
    }
  }

  // add takes in a status.
  add(status) {
    const at = Date.parse(status.at);
    const last = this.#frames.at(-1);
    const behind = last ? last.at - at : -1;
    if (behind >= 0 && behind < 2000) return; // the stream tells of the second, /status of the moment
    const back = behind > 0; // the clock was set back
    if (back || (last && status.requests < last.requests)) this.#frames = []; // or counters began anew
    const { requests, decisions, observed, outcomes } = status;
    this.#frames.push({ at, requests, decisions: decisions || {}, observed: observed || {}, outcomes: outcomes || {} });
    while (at - this.#frames[0].at > WINDOW * 1000 + 500 && this.#frames.length > 2) this.#frames.shift();
    const present = new Set();
    for (const node of status.nodes || []) {
      present.add(node.id);
      const line = (back ? [] : this.#series.get(node.id)) || [];
      line.push({ at, response: node.rank === null ? null : node.parts.response_time_ms, share: node.share_last_minute });
      while (line.length && at - line[0].at > MINUTES * 60000) line.shift();
      this.#series.set(node.id, line);
    }
    for (const id of this.#series.keys()) if (!present.has(id)) this.#series.delete(id);
  }

  // line returns the last minutes of a node.
  line(id) {
    return this.#series.get(id) || [];
  }

  // rates returns requests per second over the last seconds, in all and by reason,
  // observed reason and outcome; null until there are two statuses.
  rates() {
    const first = this.#frames[0];
    const last = this.#frames.at(-1);
    if (!first || last.at === first.at) return null;
    const seconds = (last.at - first.at) / 1000;
    const per = (field) =>
      Object.fromEntries(Object.entries(last[field]).map(([k, v]) => [k, Math.max(0, v - (first[field][k] || 0)) / seconds]));
    return {
      all: (last.requests - first.requests) / seconds,
      decisions: per("decisions"),
      observed: per("observed"),
      outcomes: per("outcomes"),
    };
  }
}
