// Strips: small charts below each other on one time axis, drawn by uPlot.

import { h, put } from "./dom.js";
import { clock, number } from "./format.js";
import { figures } from "./timeline.js";

const HEIGHT = 86;
const AXIS = 24; // more, of the last strip, for the times

let charts = [];

// drawStrips fills box with the strips of a timeline.
export function drawStrips(box, line) {
  for (const chart of charts) chart.destroy();
  charts = [];
  box.replaceChildren();
  const colors = readColors();
  line.strips.forEach((strip, i) => {
    const last = i === line.strips.length - 1;
    const keys = strip.lines.map((l) => ({ line: l, value: h("span", { class: "now-value" }) }));
    const legend = keys.map((k) => h("span", { class: `key tone-${k.line.tone}` }, k.line.label, " ", k.value));
    const plot = h("div", { class: "plot", role: "img", "aria-label": describe(strip, line) });
    box.append(h("figure", { class: "strip" }, h("figcaption", {}, h("b", {}, strip.title), " ", h("span", { class: "unit" }, strip.unit), " ", legend), plot));
    charts.push(chart(plot, strip, line, colors, last, keys));
  });
}

// resizeStrips makes the strips as wide as their boxes are now.
export function resizeStrips() {
  for (const chart of charts) {
    const width = chart.root.parentElement.clientWidth;
    if (width > 0 && width !== chart.width) chart.setSize({ width, height: chart.height });
  }
}

function chart(plot, strip, line, colors, last, keys) {
  const axis = { stroke: colors.dim, grid: { stroke: colors.line, width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
  const options = {
    width: plot.clientWidth || 600,
    height: HEIGHT + (last ? AXIS : 0),
    padding: [6, 8, last ? 0 : 4, 0],
    legend: { show: false },
    cursor: { sync: { key: "spike", scales: ["x", null] }, y: false, drag: { x: false, y: false }, points: { size: 6 } },
    scales: { x: { time: true, range: () => [line.from, line.to] }, y: { range: (_, min, max) => [0, max > 0 ? max * 1.08 : 1] } },
    axes: [
      { ...axis, show: last, size: AXIS, space: 80, values: (_, ticks) => ticks.map((t) => clock(t * 1000, t * 1000)) },
      { ...axis, size: 52, space: 26, gap: 6, values: (_, ticks) => ticks.map((v) => number(v)) },
    ],
    series: [{}, ...strip.lines.map((l) => ({ label: l.label, stroke: colors[l.tone], width: 1.5, points: { show: false }, dash: l.tone === 2 ? [5, 3] : undefined, spanGaps: false }))],
    hooks: {
      drawClear: [(u) => shade(u, line, colors)],
      setCursor: [(u) => keys.forEach((k, i) => put(k.value, u.cursor.idx === null || u.cursor.idx === undefined ? "" : number(u.data[i + 1][u.cursor.idx] ?? NaN)))],
    },
  };
  return new window.uPlot(options, [strip.at, ...strip.lines.map((l) => l.values.map((v) => v ?? null))], plot);
}

// shade marks the time of the spike.
function shade(u, line, colors) {
  const from = u.valToPos(line.began, "x", true);
  const to = u.valToPos(Math.min(line.ended, line.to), "x", true);
  u.ctx.save();
  u.ctx.fillStyle = colors.shade;
  u.ctx.fillRect(from, u.bbox.top, Math.max(1, to - from), u.bbox.height);
  u.ctx.restore();
}

function readColors() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(name).trim();
  return { 1: of("--series-1"), 2: of("--series-2"), 3: of("--series-3"), dim: of("--dim"), line: of("--line"), shade: of("--bad-ground") };
}

// describe says what a strip shows to who cannot see it.
function describe(strip, line) {
  const parts = strip.lines.map((l) => {
    const f = figures(l, strip.at, line.began, line.ended);
    return `${l.label}: before ${number(f.before)}, during ${number(f.during)}, at most ${number(f.peak)}`;
  });
  return `${strip.title}, ${strip.unit}. ${parts.join("; ")}`;
}

// fillFigures fills a table with the same.
export function fillFigures(table, line) {
  const head = ["", "Before", "During", "Peak"].map((t, i) => (i ? h("th", { scope: "col", class: "figure" }, t) : h("td", {})));
  const cell = (v) => h("td", { class: "figure" }, number(v));
  const rows = line.strips.flatMap((s) => s.lines.map((l) => {
    const f = figures(l, s.at, line.began, line.ended);
    return h("tr", {}, h("th", { scope: "row" }, `${s.title}: ${l.label} `, h("span", { class: "unit" }, s.unit)), cell(f.before), cell(f.during), cell(f.peak));
  }));
  table.replaceChildren(h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows));
}
