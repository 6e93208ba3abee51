// The page: what listens, and who is told.

import { byID, mark, put, set } from "./dom.js";
import { clock, span, NONE } from "./format.js";
import { showAdmission } from "./admission.js";
import { showBulks } from "./bulks.js";
import { DecisionTable } from "./decisions.js";
import { startExplain } from "./explain.js";
import { headline } from "./headline.js";
import { NodeTable } from "./nodes.js";
import { watchSlow } from "./slow.js";
import { SpikeList } from "./spikes.js";
import { Store } from "./store.js";
import { listen } from "./stream.js";
import { Switch } from "./switch.js";
import { NOT_POLLED } from "./words.js";

const MARK_OF_LEVEL = { good: "good", warn: "back", bad: "bad", none: "none" };

const store = new Store();
const parts = { nodes: new NodeTable(store), decisions: new DecisionTable(), spikes: new SpikeList(), routing: new Switch() };
let level = null;
let title = "sidestep"; // while there are news

function onStatus(status) {
  for (const n of status.nodes || []) if (n.not_polled && n.state === "unknown") n.state = NOT_POLLED;
  store.add(status);
  showHeadline(status);
  put(byID("version"), status.version || "");
  const engine = status.engine || {};
  const names = { elasticsearch: "Elasticsearch", opensearch: "OpenSearch" };
  put(byID("engine"), engine.name ? `${names[engine.name] || engine.name} ${engine.version}` : "no engine yet");
  put(byID("at"), clock(status.at));
  parts.routing.show(status.mode);
  parts.nodes.show(status);
  parts.decisions.show(status, store.rates());
  parts.spikes.show(status);
  showBulks(status.bulks);
  showAdmission(status.admission, status.nodes);
}

function showHeadline(status) {
  const line = headline(status);
  if (level !== line.level) {
    level = line.level;
    set(byID("headline"), "class", `headline ${level}`);
    byID("headline-mark").replaceChildren(mark(MARK_OF_LEVEL[level]));
  }
  put(byID("headline-text"), line.text);
  put(byID("headline-spoken"), line.steady);
  title = `${{ good: "", warn: "◐ ", bad: "▲ ", none: "" }[level]}${line.steady} – sidestep`;
}

// onLink says plainly when what is shown is old.
function onLink({ state, age }) {
  set(document.documentElement, "data-link", state);
  const texts = {
    connecting: ["connecting", ""],
    live: ["live", ""],
    asked: ["every 10 s", ""],
    late: ["late", `No news from sidestep for ${span(age)}: what is shown is old.`],
    lost: ["lost", `The connection to sidestep is gone: what is shown is old. Last seen ${span(age)} ago. Trying again.`],
  };
  const [word, banner] = texts[state];
  put(byID("link"), word);
  // Read out once, when it happens: the age inside is not news.
  put(byID("old-text"), banner);
  byID("old").hidden = banner === "";
  put(document.querySelector("title"), state === "lost" ? "✕ No news from sidestep" : title); // all that is seen of a tab nobody looks at
}

put(byID("version"), NONE);
listen({ onStatus, onLink });
store.load().catch(() => {}); // lines then begin now
startExplain();
watchSlow();
