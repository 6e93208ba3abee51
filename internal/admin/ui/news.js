// What sidestep tells of itself, and whether it still does.

import { getJSON } from "./dom.js";

const EVERY = 1000; // ms from a status to the question for the next one
const GLANCE = 10000; // ms while nobody looks: for the title of the tab
const DEADLINE = 3000; // ms for each answer: the browser may not know that a connection is dead

// listen calls onStatus with every status, and from the first one on onLink with {state, age}: state is "live", "late"
// after a question without an answer, "lost" after several, and age is that of the last status in seconds.
export function listen({ onStatus, onLink }) {
  let heard = null; // when the last status came, by the clock that never jumps
  let missed = 0; // questions in a row without an answer
  let asking = false;
  let next = 0;
  const ask = async () => {
    if (asking) return;
    asking = true;
    clearTimeout(next);
    const status = await getJSON("/status", { signal: AbortSignal.timeout(DEADLINE) }).catch(() => null);
    asking = false;
    next = setTimeout(ask, document.hidden ? GLANCE : EVERY);
    missed = status ? 0 : missed + 1;
    if (status) {
      heard = performance.now();
      onStatus(status);
    }
    if (heard !== null) onLink({ state: ["live", "late"][missed] || "lost", age: (performance.now() - heard) / 1000 });
  };
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) ask();
  });
  ask();
}
