// Spikes: nodes that got into trouble, on a time axis and as a list.

import { byID, h, mark, put, svg } from "./dom.js";
import { clock, natural, span, thousands } from "./format.js";
import { causeOf, stateOf } from "./words.js";

const WIDTH = 1000;
const LANE = 20;
const LETTERS = 18; // of a name
const LEAST = 15 * 60000; // ms that the axis spans at least
const MOST = 50; // shown: all nodes of a large cluster may be in trouble at once

export const address = (spike) => `/spikes/${encodeURIComponent(spike.id)}`;

// tail is the end of a name that is too long for a lane: names of nodes differ there.
const tail = (name) => (name.length > LETTERS ? `…${name.slice(1 - LETTERS)}` : name);

// SpikeList keeps both.
export class SpikeList {
  #shown = "";

  show(status) {
    const all = status.spikes || [];
    const spikes = all.slice(0, MOST);
    const now = Date.parse(status.at);
    byID("spikes-empty").hidden = spikes.length > 0 || status.spikes_off;
    byID("spikes-off").hidden = !status.spikes_off;
    byID("spikes-some").hidden = spikes.length === 0;
    byID("spikes-more").hidden = all.length <= MOST;
    put(byID("spikes-count"), thousands(all.length - MOST));
    if (spikes.length === 0) return;
    // Drawn again when something changed; while a spike lasts, each second.
    const lasting = spikes.some((s) => !s.ended);
    const state = JSON.stringify(spikes) + (lasting ? Math.floor(now / 1000) : Math.floor(now / 15000));
    if (state === this.#shown) return;
    this.#shown = state;
    this.#axis(spikes, now);
    this.#list(spikes, now);
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
    const focused = document.activeElement?.dataset?.spike;
    byID("spikes-body").replaceChildren(...spikes.map((s) => row(s, now)));
    // A list that is drawn again must not take the place of who walks it by keyboard.
    if (focused) byID("spikes-body").querySelector(`[data-spike="${CSS.escape(focused)}"]`)?.focus();
  }
}

function row(spike, now) {
  const { kind, word } = stateOf(spike.state);
  const end = spike.ended ? Date.parse(spike.ended) : now;
  const length = span((end - Date.parse(spike.began)) / 1000);
  return h("tr", { role: "row", class: spike.ended ? null : "out" },
    h("th", { role: "rowheader", scope: "row" }, h("a", { href: address(spike), "data-spike": spike.id }, `${spike.node}, ${clock(spike.began, now)}`)),
    h("td", { role: "cell", "data-title": "Lasted" }, spike.ended ? length : `${length}, lasting`),
    h("td", { role: "cell", "data-title": "State" }, h("span", { class: `state ${kind}` }, mark(kind), word)),
    h("td", { role: "cell", "data-title": "Cause" }, causeOf(spike.cause).word),
    h("td", { role: "cell", "data-title": "Summary", class: "summary" }, spike.summary || spike.why || ""));
}
