// Elements are built, never parsed: what comes from the cluster is data.

const SVG = "http://www.w3.org/2000/svg";

// printable makes visible, one for one, what turns the direction of writing or cannot be
// seen: a name from the cluster may hold anything. A soft hyphen is our own.
export function printable(text) {
  return String(text ?? "").replace(/(?!\u00ad)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, "\ufffd");
}

// TEXTS are the attributes that are read.
const TEXTS = new Set(["title", "aria-label"]);
const shown = (name, value) => (TEXTS.has(name) ? printable(value) : String(value));

// h makes an element. Properties are attributes; those that begin with "on" are
// listeners, and null or false leaves one out. Children are nodes or texts.
export function h(tag, props = {}, ...children) {
  return fill(document.createElement(tag), props, children);
}

// svg is h for the elements of SVG.
export function svg(tag, props = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : shown(name, value));
  }
  const present = children.flat(3).filter((c) => c !== null && c !== undefined && c !== false);
  element.append(...present.map((c) => (c instanceof Node ? c : printable(c))));
  return element;
}

// terms are what a list of facts holds: each has its name, and those of which nothing is known are left out.
export const terms = (pairs) => pairs.filter(([, v]) => v).map(([k, v]) => h("div", {}, h("dt", {}, k), h("dd", {}, v)));

// wide is a place for what may be wider than that: it is scrolled there, by keyboard, too.
export const wide = (label, ...children) => h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, children);

// Tables that are cards in narrow windows need roles, as their looks take from rows and cells what they are.
export const row = (...cells) => h("tr", { role: "row" }, cells);
export const rowHead = (content) => h("th", { role: "rowheader", scope: "row" }, content);
export const cell = (title, content) => h("td", { role: "cell", "data-title": title }, content);
export const figure = (title, text) => h("td", { role: "cell", class: "figure", "data-title": title }, text);

// put sets the text of an element, and touches it only if that changes something:
// selections and screen readers are not disturbed.
export function put(element, text) {
  const wanted = printable(text);
  if (element.textContent !== wanted) element.textContent = wanted;
}

// set sets an attribute, null removes it.
export function set(element, name, value) {
  if (value === null || value === undefined || value === false) element.removeAttribute(name);
  else if (element.getAttribute(name) !== shown(name, value)) element.setAttribute(name, shown(name, value));
}

// place makes elements the children of a parent, in this order. Those that are in their
// place stay: moving one takes the focus from it, and what is pressed or selected in it.
export function place(parent, elements) {
  const present = new Set(elements);
  for (const child of [...parent.children]) if (!present.has(child)) child.remove();
  elements.forEach((element, i) => {
    if (parent.children[i] !== element) parent.insertBefore(element, parent.children[i] ?? null);
  });
}

// isSelected reports whether text in a part of the page is selected.
export function isSelected(part) {
  const chosen = getSelection();
  return Boolean(chosen && !chosen.isCollapsed && part.contains(chosen.anchorNode));
}

export const byID = (id) => document.getElementById(id);

let ahead = 0; // ms, of the clock of sidestep's machine, as its last answer told

// sidestepNow is the time there.
export const sidestepNow = () => Date.now() + ahead;

const PATIENCE = 20000; // ms for each answer: the browser may not know that a connection is dead

// getText reads a page of the admin listener. An answer that says no becomes an
// Error with its words and its status. What changes something is waited for as long as it takes.
export async function getText(path, options = {}) {
  const signal = options.method ? null : AbortSignal.timeout(PATIENCE);
  const answer = await fetch(path, { signal, ...options, headers: { Accept: "application/json", ...options.headers } });
  const at = Date.parse(answer.headers.get("Date"));
  if (!Number.isNaN(at)) ahead = at - Date.now();
  const text = await answer.text();
  if (answer.ok) return text;
  const failure = new Error(errorIn(text) || `${path} answered ${answer.status}`);
  failure.status = answer.status;
  throw failure;
}

// getJSON is getText of what is JSON. Anything else is not of sidestep, as a proxy's page to log in.
export async function getJSON(path, options) {
  const text = await getText(path, options);
  try {
    return JSON.parse(text);
  } catch {
    throw new Error(`something else than sidestep answered ${path}`);
  }
}

function errorIn(text) {
  try {
    return JSON.parse(text).error;
  } catch {
    return text.trim().slice(0, 200);
  }
}

// MARKS tell states apart by their shape, for whom colours do not.
const MARKS = {
  good: [["circle", { cx: 6, cy: 6, r: 4.5 }]],
  bad: [["path", { d: "M6 .8 11.6 11H.4z" }]],
  gone: [["path", { d: "M1.5 1.5h9v9h-9z" }]],
  back: [["circle", { cx: 6, cy: 6, r: 4.2, class: "hollow" }], ["path", { d: "M6 1.8a4.2 4.2 0 0 1 0 8.4z" }]],
  none: [["circle", { cx: 6, cy: 6, r: 4.2, class: "hollow" }]],
};

// mark draws the sign of a kind of state: good, bad, gone, back or none.
export function mark(kind) {
  const shapes = (MARKS[kind] || MARKS.none).map(([tag, props]) => svg(tag, props));
  return svg("svg", { class: `mark ${kind}`, viewBox: "0 0 12 12", "aria-hidden": "true" }, shapes);
}
