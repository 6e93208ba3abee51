// A flame graph of folded stacks ("root;frame;leaf count" a line), the root above.
// Arrow keys walk it, Enter zooms in, Escape out.

import { count, percent } from "./format.js";
import { h, put, set, svg } from "./dom.js";

const ROW = 18;
const LETTER = 6.4; // px
const LEAST = 1.5; // px: what is narrower is not drawn
const CHAIN = 3; // frames from which on a run of only children is drawn as one

// parseFolded makes a tree {name, value, children} of folded stacks.
function parseFolded(text) {
  const root = { name: "all", value: 0, children: [] };
  for (const line of text.split("\n")) {
    const cut = line.lastIndexOf(" ");
    const value = Number(line.slice(cut + 1));
    if (cut <= 0 || !Number.isFinite(value) || value <= 0) continue;
    let node = root;
    root.value += value;
    for (const name of line.slice(0, cut).split(";")) {
      let child = node.children.find((c) => c.name === name);
      if (!child) {
        child = { name, value: 0, children: [] };
        node.children.push(child);
      }
      child.value += value;
      node = child;
    }
  }
  sort(root);
  return root;
}

function sort(node) {
  node.children.sort((a, b) => b.value - a.value);
  node.children.forEach(sort);
}

// shorten draws together what runs through the same frames: the first and the last of
// them tell enough.
function shorten(node) {
  const run = [];
  let last = node;
  while (last.children.length === 1 && last.children[0].value === last.value) {
    last = last.children[0];
    run.push(last);
  }
  if (run.length > CHAIN) {
    const hidden = run.slice(0, -1);
    const middle = { name: `… ${count(hidden.length, "frame")}`, frames: hidden.map((n) => n.name), value: node.value, children: [last] };
    return { ...node, children: [{ ...middle, children: [{ ...last, children: last.children.map(shorten) }] }] };
  }
  return { ...node, children: node.children.map(shorten) };
}

// kind is whose code a frame is.
function kind(name) {
  if (name.startsWith("…")) return "more";
  if (/org\.apache\.lucene/.test(name)) return "lucene";
  if (/org\.(elasticsearch|opensearch)/.test(name)) return "engine";
  if (/^(app\/\/|java\.base|platform\/\/)?.*\b(java|jdk|sun)\./.test(name)) return "jdk";
  return "other";
}

// shortName leaves out packages: "java.util.Foo.bar" is "Foo.bar".
function shortName(name) {
  const plain = name.replace(/^.*\/+/, "");
  const parts = plain.split(".");
  const first = parts.findIndex((p) => /^[A-Z]/.test(p));
  return first > 0 ? parts.slice(first).join(".") : plain;
}

// Flame is one graph in a box.
export class Flame {
  #tree;
  #focus; // the frame that is as wide as the box
  #box;
  #width; // of the box, as the graph is drawn
  #told;
  #whole = false;
  #full;

  constructor(box, folded) {
    this.#box = h("div", { class: "flame" });
    this.#told = h("p", { class: "frame-told", role: "status" });
    this.#full = parseFolded(folded);
    const toggle = h("button", { type: "button", "aria-pressed": "false", onclick: () => {
      this.#whole = !this.#whole;
      set(toggle, "aria-pressed", this.#whole ? "true" : "false");
      this.#rebuild();
    } }, "All frames");
    const legend = [["lucene", "Lucene"], ["engine", "the engine"], ["jdk", "JDK"], ["other", "other"]].map(([k, t]) => h("span", { class: `key frame-${k}` }, t));
    box.replaceChildren(h("div", { class: "flame-bar" }, toggle, h("span", {}, legend), h("span", { class: "dim" }, `${count(this.#full.value, "sample")}; wider is more often`)), this.#box, this.#told);
    this.#rebuild();
  }

  #rebuild() {
    this.#tree = this.#whole ? this.#full : shorten(this.#full);
    link(this.#tree, null);
    this.#focus = this.#tree;
    this.#draw();
  }

  // resize draws the graph anew if the box is not as wide as it was: what has the focus, or is pressed, stays else.
  resize() {
    if (this.#box.clientWidth !== this.#width) this.#draw();
  }

  #draw(active = this.#focus) {
    const width = (this.#width = this.#box.clientWidth);
    if (!width || !this.#tree.value) return;
    const frames = [];
    const path = ancestors(this.#focus);
    path.forEach((n, depth) => frames.push({ n, x: 0, w: width, depth }));
    const lay = (n, x, w, depth) => {
      frames.push({ n, x, w, depth });
      let at = x;
      for (const child of n.children) {
        const wide = (w * child.value) / n.value;
        if (wide >= LEAST) lay(child, at, wide, depth + 1);
        at += wide;
      }
    };
    lay(this.#focus, 0, width, path.length);
    const height = (Math.max(...frames.map((f) => f.depth)) + 1) * ROW;
    const groups = frames.map((f) => this.#frame(f, f.n === active));
    const graph = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Flame graph of the hot threads" }, groups);
    graph.addEventListener("keydown", (event) => this.#key(event));
    this.#box.replaceChildren(graph);
  }

  #frame({ n, x, w, depth }, active) {
    const label = shortName(n.name);
    const fits = Math.floor((w - 6) / LETTER);
    const shown = fits >= 3 ? (label.length > fits ? `${label.slice(0, fits - 1)}…` : label) : "";
    const told = `${n.frames ? n.frames.map(shortName).join(" → ") : n.name}: ${percent(n.value / this.#tree.value)}, ${count(n.value, "sample")}`;
    const g = svg("g", { class: `frame frame-${kind(n.name)}`, role: "button", tabindex: active ? "0" : "-1", transform: `translate(${x} ${depth * ROW})` },
      svg("title", {}, told), svg("rect", { width: Math.max(0.5, w - 1), height: ROW - 1, rx: 1 }), shown ? svg("text", { x: 4, y: 13, "aria-hidden": "true" }, shown) : null);
    g.addEventListener("click", () => this.#zoom(n));
    g.addEventListener("focus", () => put(this.#told, told));
    g.frame = n;
    return g;
  }

  #zoom(n) {
    const held = this.#box.contains(document.activeElement);
    this.#focus = n;
    this.#draw(n);
    if (held) this.#box.querySelector('[tabindex="0"]')?.focus();
  }

  #key(event) {
    const n = event.target.frame;
    if (!n) return;
    const siblings = n.parent ? n.parent.children : [n];
    const i = siblings.indexOf(n);
    const to = { ArrowUp: n.parent, ArrowDown: n.children[0], ArrowLeft: siblings[i - 1], ArrowRight: siblings[i + 1] }[event.key];
    if (event.key === "Enter" || event.key === " ") this.#zoom(n);
    else if (event.key === "Escape") this.#zoom(this.#tree);
    else if (to) {
      const target = [...this.#box.querySelectorAll(".frame")].find((g) => g.frame === to);
      if (!target) return;
      set(event.target, "tabindex", "-1");
      set(target, "tabindex", "0");
      target.focus();
    } else return;
    event.preventDefault();
  }
}

function link(node, parent) {
  node.parent = parent;
  node.children.forEach((c) => link(c, node));
}

function ancestors(node) {
  const path = [];
  for (let n = node.parent; n; n = n.parent) path.unshift(n);
  return path;
}
