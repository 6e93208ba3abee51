// The table of nodes: those in trouble first, then by name, or by a column.

import { byID, h, mark, place, put, set } from "./dom.js";
import { count, natural, percent, short, thousands, GAP } from "./format.js";
import { lasting } from "./headline.js";
import { MINUTES } from "./store.js";
import { Spark } from "./spark.js";
import { isEjected, leaving, stateOf } from "./words.js";

const FIRST = 60; // rows shown before somebody asks for all

const known = (node, v) => (node.rank === null ? null : v);

// COLUMNS: value is what is shown and, but for the state, sorted by.
const COLUMNS = [
  { key: "name", title: "Node" },
  { key: "state", title: "State" },
  { key: "rank", title: "Rank", unit: "ms", hint: "service time times all that the node has to do; lower is better", value: (n) => n.rank, show: short },
  { key: "response", title: "Response", unit: "ms", hint: `of a shard search, from outside; the line: up to ${MINUTES} min, one scale for all nodes`, value: (n) => known(n, n.parts.response_time_ms), show: short, spark: true },
  { key: "service", title: "Service", unit: "ms", hint: "of a shard query, on the node itself", value: (n) => known(n, n.parts.service_time_ms), show: short },
  { key: "queue", title: "Queue", hint: "searches waiting for a thread on the node", value: (n) => known(n, n.parts.queue), show: short },
  { key: "outstanding", title: "Out\u00adstanding", hint: "searches sent and not answered yet", value: (n) => n.outstanding, show: thousands },
  { key: "share", title: "Share", unit: "%", hint: `of the shard queries of the last minute; the line: up to ${MINUTES} min`, value: (n) => n.share_last_minute, show: (v) => percent(v).replace(`${GAP}%`, ""), spark: true },
  { key: "coordinates", title: "Coordi\u00adnates", unit: "%", hint: "of the requests of the last ten seconds, steered or not, that were sent through the node", value: (n) => n.coordinated_share_last_10s, show: (v) => percent(v).replace(`${GAP}%`, "") },
  { key: "overhead", title: "Over\u00adhead", unit: "ms", hint: "of HTTP and coordination, of what is sent through the node", value: (n) => known(n, n.http_overhead_ms), show: short },
  { key: "failures", title: "Failures", hint: "blamed on the node", value: (n) => n.failures, show: thousands },
  { key: "polled", title: "Polled", unit: "s ago", hint: "its last answer to a poll of its statistics", value: (n) => n.poll_age_s, show: short },
];

// NodeTable keeps the table with the rows of nodes that stay.
export class NodeTable {
  #rows = new Map();
  #sort = { key: null, down: false };
  #all = false;
  #last = null;
  #store;

  constructor(store) {
    this.#store = store;
    byID("nodes-head").replaceChildren(...COLUMNS.map((c) => this.#head(c)));
    byID("nodes-all").addEventListener("click", () => {
      this.#all = !this.#all;
      this.#draw();
    });
  }

  #head(column) {
    const label = [column.title, column.unit ? h("span", { class: "unit" }, ` ${column.unit}`) : null];
    const button = h("button", { type: "button", class: "sort", title: column.hint || null, onclick: () => this.#sortBy(column.key) }, label, h("span", { class: "arrow", "aria-hidden": "true" }));
    return h("th", { role: "columnheader", scope: "col", "data-key": column.key, class: column.value ? "figure" : null }, button);
  }

  #sortBy(key) {
    // The third click goes back to the nodes in trouble first.
    if (this.#sort.key !== key) this.#sort = { key, down: key !== "name" };
    else if (this.#sort.down === (key !== "name")) this.#sort = { key, down: key === "name" };
    else this.#sort = { key: null, down: false };
    this.#draw();
  }

  // show takes in a status.
  show(status) {
    this.#last = status;
    this.#draw();
  }

  #draw() {
    if (!this.#last) return;
    const at = Date.parse(this.#last.at);
    const nodes = this.#sorted(this.#last.nodes || []);
    const shown = this.#all ? nodes : nodes.slice(0, FIRST);
    const scale = this.#scale(shown, at);
    const rows = shown.map((n) => {
      if (!this.#rows.has(n.id)) this.#rows.set(n.id, new Row());
      const row = this.#rows.get(n.id);
      row.show(n, at, this.#store.line(n.id), scale);
      return row.element;
    });
    place(byID("nodes-body"), rows);
    const present = new Set(nodes.map((n) => n.id));
    for (const id of this.#rows.keys()) if (!present.has(id)) this.#rows.delete(id);
    byID("nodes-empty").hidden = nodes.length > 0;
    byID("nodes-table").hidden = nodes.length === 0;
    const more = byID("nodes-all");
    more.hidden = nodes.length <= FIRST;
    put(more, this.#all ? `Show the first ${FIRST}` : `Show all ${count(nodes.length, "node")}`);
    for (const th of byID("nodes-head").children) {
      const chosen = th.dataset.key === this.#sort.key;
      set(th, "aria-sort", chosen ? (this.#sort.down ? "descending" : "ascending") : null);
    }
  }

  #sorted(nodes) {
    const column = COLUMNS.find((c) => c.key === this.#sort.key);
    const sign = this.#sort.down ? -1 : 1;
    const trouble = (a, b) => stateOf(a.state).order - stateOf(b.state).order;
    return [...nodes].sort((a, b) => {
      let order = 0;
      if (!column) order = trouble(a, b);
      else if (column.key === "state") order = -sign * trouble(a, b);
      else if (column.value) order = sign * ((column.value(a) ?? -1) - (column.value(b) ?? -1));
      return order || (column?.key === "name" ? sign : 1) * natural(a.name, b.name);
    });
  }

  // scale is that of the lines: one for all nodes, so that they can be compared.
  #scale(nodes, at) {
    let response = 10;
    let share = 0.05;
    let from = at - 60000;
    for (const n of nodes) {
      for (const p of this.#store.line(n.id)) {
        if (p.response > response) response = p.response;
        if (p.share > share) share = p.share;
        if (p.at < from) from = p.at;
      }
    }
    return { from, to: at, response, share };
  }
}

// Row is one node.
class Row {
  #name = h("span", { class: "name" });
  #place = h("span", { class: "dim" });
  #state = h("span", { class: "state" });
  #for = h("span", { class: "dim" });
  #why = h("span", { class: "why" });
  #cells = new Map();
  #kind = null;
  element;

  constructor() {
    const head = h("th", { role: "rowheader", scope: "row", class: "node" }, this.#name, this.#place);
    const state = h("td", { role: "cell", "data-title": "State", class: "states" }, h("span", { class: "line1" }, this.#state, this.#for), this.#why);
    const figures = COLUMNS.filter((c) => c.value).map((c) => {
      const text = h("span", { class: "value" });
      const spark = c.spark ? new Spark() : null;
      this.#cells.set(c.key, { text, spark });
      return h("td", { role: "cell", class: `figure ${c.key}`, "data-title": c.title + (c.unit ? ` ${c.unit}` : "") }, spark ? spark.element : null, text);
    });
    this.element = h("tr", { role: "row" }, head, state, figures);
  }

  show(node, at, line, scale) {
    const { kind, word, means } = stateOf(node.state);
    put(this.#name, node.name);
    set(this.#name, "title", [node.address, node.id].filter(Boolean).join(" · "));
    put(this.#place, node.zone || "");
    if (this.#kind !== node.state) {
      this.#kind = node.state;
      this.#state.replaceChildren(mark(kind), word);
      set(this.#state, "class", `state ${kind}`);
      set(this.#state, "title", means || null);
      set(this.element, "class", isEjected(node.state) ? "out" : null);
      set(this.element, "data-state", node.state);
    }
    put(this.#for, node.since ? ` ${lasting(node, at)}` : "");
    put(this.#why, [node.why, leaving(node)].filter(Boolean).join("; "));
    for (const column of COLUMNS) {
      const cell = this.#cells.get(column.key);
      if (!cell) continue;
      put(cell.text, column.show(column.value(node)));
      if (cell.spark) {
        cell.spark.draw(line.map((p) => ({ at: p.at, value: p[column.key] })), scale.from, scale.to, scale[column.key]);
      }
    }
  }
}

