// Spikes: nodes that got into trouble, on a time axis and as a list.

import { byID, cell, h, mark, place, put, row, rowHead, set, svg } from "./dom.js";
import { clock, natural, span, thousands } from "./format.js";
import { causeOf, stateOf } from "./words.js";

const WIDTH = 1000;
const LANE = 20;
const LETTERS = 18; // of a name
const LEAST = 15 * 60000; // ms that the axis spans at least
const REDRAWN = 5000; // ms after which the axis is drawn anew
const MOST = 50; // shown: all nodes of a large cluster may be in trouble at once

export const address = (spike) => `/spikes/${encodeURIComponent(spike.id)}`;

// tail is the end of a name that is too long for a lane: names of nodes differ there.
const tail = (name) => (name.length > LETTERS ? `…${name.slice(1 - LETTERS)}` : name);

// SpikeList keeps both.
export class SpikeList {
  #rows = new Map();
  #drawn = "";

  show(status) {
    const all = status.spikes || [];
    const spikes = all.slice(0, MOST);
    const now = Date.parse(status.at);
    byID("spikes-empty").hidden = spikes.length > 0 || status.spikes_off;
    byID("spikes-off").hidden = !status.spikes_off;
    byID("spikes-some").hidden = spikes.length === 0;
    byID("spikes-more").hidden = all.length <= MOST;
    put(byID("spikes-count"), thousands(all.length - MOST));
    this.#list(spikes, now);
    // Not while a bar is pressed: its link would not be followed.
    const state = JSON.stringify(spikes.map((s) => [s.id, s.ended, s.cause])) + Math.floor(now / REDRAWN);
    if (spikes.length === 0 || state === this.#drawn || byID("spikes-chart").matches(":active")) return;
    this.#drawn = state;
    this.#axis(spikes, now);
  }

  #axis(spikes, now) {
    const oldest = Math.min(...spikes.map((s) => Date.parse(s.began)));
    const from = Math.min(now - LEAST, oldest - (now - oldest) * 0.05);
    const nodes = [...new Set(spikes.map((s) => s.node))].sort(natural);
    const height = nodes.length * LANE;
    const x = (t) => (WIDTH * (t - from)) / (now - from);
    const lanes = nodes.map((node, i) => svg("line", { class: "lane", x1: 0, x2: WIDTH, y1: i * LANE + LANE / 2, y2: i * LANE + LANE / 2 }));
    const bars = spikes.map((s) => {
      const began = x(Date.parse(s.began));
      const width = Math.max(6, x(s.ended ? Date.parse(s.ended) : now) - began);
      const y = nodes.indexOf(s.node) * LANE + 3;
      const title = `${s.node} ${clock(s.began, now)}: ${s.state}, ${causeOf(s.cause).word}`;
      return svg("a", { href: address(s), tabindex: "-1" },
        svg("rect", { class: s.ended ? "over" : "lasting", x: Math.min(began, WIDTH - width), y, width, height: LANE - 6, rx: 2 }, svg("title", {}, title)));
    });
    const chart = svg("svg", { class: "axis", viewBox: `0 0 ${WIDTH} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" }, lanes, bars);
    chart.style.height = `${height}px`;
    byID("spikes-lanes").replaceChildren(...nodes.map((n) => h("span", { title: n }, tail(n))));
    byID("spikes-chart").replaceChildren(chart);
    put(byID("spikes-from"), `${span((now - from) / 1000)} ago`);
  }

  #list(spikes, now) {
    const rows = new Map(spikes.map((s) => [s.id, this.#rows.get(s.id) || new Row(s)]));
    this.#rows = rows;
    for (const s of spikes) rows.get(s.id).show(s, now);
    place(byID("spikes-body"), [...rows.values()].map((row) => row.element));
  }
}

// Row is one spike.
class Row {
  #link;
  #lasted = cell("Lasted");
  #cause = cell("Cause");
  #summary = h("td", { role: "cell", "data-title": "Summary", class: "summary" });
  element;

  constructor(spike) {
    const { kind, word } = stateOf(spike.state);
    this.#link = h("a", { href: address(spike), "data-spike": spike.id });
    const state = h("span", { class: `state ${kind}` }, mark(kind), word);
    this.element = row(rowHead(this.#link), this.#lasted, cell("State", state), this.#cause, this.#summary);
  }

  show(spike, now) {
    const end = spike.ended ? Date.parse(spike.ended) : now;
    const length = span((end - Date.parse(spike.began)) / 1000);
    set(this.element, "class", spike.ended ? null : "out");
    put(this.#link, `${spike.node}, ${clock(spike.began, now)}`);
    put(this.#lasted, spike.ended ? length : `${length}, lasting`);
    put(this.#cause, causeOf(spike.cause).word);
    put(this.#summary, spike.summary || spike.why || "");
  }
}
