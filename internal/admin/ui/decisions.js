// Decisions by reason: what is steered, what is left to the engine, what passes.

import { byID, h, place, put, set } from "./dom.js";
import { percent, short, thousands, GAP, NONE } from "./format.js";
import { GROUPS, reasonOf } from "./words.js";

const BAD_OUTCOMES = { engine_error: "errors of the engine", unreachable: "cluster unreachable", partial: "partial results", cut_off: "answers that broke off", refused: "refused by admission" };

// DecisionTable keeps the bar, the facts and the table.
export class DecisionTable {
  #rows = new Map();

  show(status, rates) {
    const totals = status.decisions || {};
    const sum = Object.values(totals).reduce((a, b) => a + b, 0);
    byID("decisions-empty").hidden = sum > 0;
    byID("decisions-some").hidden = sum === 0;
    this.#facts(status, rates);
    if (sum === 0) return;
    this.#bar(totals, rates);
    const names = Object.keys(totals).sort((a, b) => totals[b] - totals[a] || (a < b ? -1 : 1));
    const rows = names.map((name) => this.#row(name, totals[name], rates?.decisions[name], sum));
    place(byID("decisions-body"), rows);
    this.#observed(status, rates);
  }

  // facts are the figures under the headline.
  #facts(status, rates) {
    put(byID("fact-rate"), rates ? `${short(rates.all)}/s` : NONE);
    const groups = group(rates?.decisions || {});
    put(byID("fact-steered"), percent(groups.steered / rates?.all)); // a dash while there are none
    put(byID("fact-engine"), percent(groups.engine / rates?.all));
    const bad = rates ? Object.keys(BAD_OUTCOMES).reduce((n, k) => n + (rates.outcomes[k] || 0), 0) : 0;
    put(byID("fact-failed"), percent(bad / rates?.all));
    set(byID("fact-failed").parentElement, "class", bad > 0 ? "bad" : null);
    set(byID("fact-failed").parentElement, "title", Object.values(BAD_OUTCOMES).join(", "));
    const outcomes = status.outcomes || {};
    put(byID("fact-outcomes"), Object.keys(outcomes).sort().map((k) => `${k} ${thousands(outcomes[k])}`).join(", "));
  }

  #bar(totals, rates) {
    const now = rates && rates.all > 0;
    const groups = group(now ? rates.decisions : totals);
    const all = groups.steered + groups.engine + groups.passed;
    for (const key of Object.keys(GROUPS)) {
      const part = all > 0 ? groups[key] / all : 0;
      byID(`bar-${key}`).style.flexGrow = part;
      put(byID(`part-${key}`), percent(part));
    }
    put(byID("bar-when"), now ? "of the requests of the last 10 s" : "of all requests so far; none in the last 10 s");
  }

  #row(name, total, rate, sum) {
    if (!this.#rows.has(name)) {
      const { group: key, means } = reasonOf(name);
      const cells = { rate: h("td", { class: "figure" }), total: h("td", { class: "figure" }), part: h("td", { class: "figure" }) };
      const element = h("tr", {},
        h("th", { scope: "row" }, h("span", { class: `key ${key}`, "aria-hidden": "true" }), h("span", { class: "reason" }, name),
          h("span", { class: "dim means" }, means ? `${GROUPS[key]}: ${means}` : GROUPS[key])),
        cells.rate, cells.total, cells.part);
      this.#rows.set(name, { element, cells });
    }
    const { element, cells } = this.#rows.get(name);
    put(cells.rate, short(rate));
    put(cells.total, thousands(total));
    put(cells.part, percent(total / sum).replace(`${GAP}%`, ""));
    return element;
  }

  #observed(status, rates) {
    const observed = status.observed || {};
    const names = Object.keys(observed).sort((a, b) => observed[b] - observed[a]);
    byID("observed").hidden = names.length === 0;
    put(byID("observed-text"), names.map((n) => `${n} ${thousands(observed[n])}${rates ? ` (${short(rates.observed[n] ?? 0)}/s)` : ""}`).join(" · "));
  }
}

// group adds up figures by reason to figures by group.
function group(byReason) {
  const groups = { steered: 0, engine: 0, passed: 0 };
  for (const [name, v] of Object.entries(byReason)) groups[reasonOf(name).group] += v;
  return groups;
}
