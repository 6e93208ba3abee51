// Sparklines: the last minutes of one figure, in the space of a word.

import { set, svg } from "./dom.js";

const WIDTH = 108;
const HEIGHT = 22;
const PAD = 2;

// Spark is one line. Values that are null leave a gap.
export class Spark {
  #line = svg("path", { class: "line" });
  #now = svg("circle", { r: 2, class: "now" });
  element = svg("svg", { class: "spark", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, "aria-hidden": "true" }, this.#line, this.#now);

  // draw draws points {at, value} of the time from..to (ms) on a scale from 0 to top.
  draw(points, from, to, top) {
    const x = (at) => PAD + ((WIDTH - 2 * PAD) * (at - from)) / (to - from);
    const y = (v) => HEIGHT - PAD - ((HEIGHT - 2 * PAD) * Math.min(v, top)) / (top || 1);
    let path = "";
    let pen = false;
    let last = null;
    for (const { at, value } of points) {
      if (value === null || value === undefined || at < from) {
        pen = false;
        continue;
      }
      last = [x(at).toFixed(1), y(value).toFixed(1)];
      path += `${pen ? "L" : "M"}${last[0]} ${last[1]}`;
      pen = true;
    }
    set(this.#line, "d", path || null);
    set(this.#now, "class", last ? "now" : "now absent");
    if (last) {
      set(this.#now, "cx", last[0]);
      set(this.#now, "cy", last[1]);
    }
  }
}
