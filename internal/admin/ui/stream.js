// The stream of events, and how old what it told is.

import { getJSON } from "./dom.js";

const RETRY = 3000; // ms, after an answer that was no stream, or none
const LATE = 3500; // ms without an event from which on the page says so
const GLANCE = 10000; // ms between statuses while nobody looks, or no stream comes
const DEADLINE = 2000; // ms for each: what comes later is old, and holds a connection

// listen calls onStatus with every status, and onLink with {state, age}: state is
// "connecting", "live", "asked" where no stream comes, "late" or "lost", age in seconds,
// null before the first status. A browser opens six connections to a host, for all of its
// tabs: those that nobody looks at hold none, and ask now and then for the sake of their title.
export function listen({ onStatus, onLink }) {
  let heard = null; // when a status came, by the clock that never jumps
  let looked = performance.now(); // when somebody began to look: what was told before may be older
  let missed = 0; // questions in a row without an answer
  let source = null;
  let told = false; // source has
  const silent = () => performance.now() - Math.max(heard, looked) > LATE;
  const take = (status) => {
    heard = performance.now();
    missed = 0;
    onStatus(status);
    tell();
  };
  const ask = async () => {
    const dead = told && silent();
    const status = await getJSON("/status", { signal: AbortSignal.timeout(DEADLINE) }).catch(() => null);
    if (!status) {
      missed++;
      return tell();
    }
    // The connection of the stream has died without a word, as that of a laptop that slept.
    if (dead) {
      hangUp();
      connect();
    }
    take(status);
  };
  const connect = () => {
    if (source || document.hidden) return;
    const stream = new EventSource("/events");
    source = stream;
    stream.addEventListener("status", (event) => {
      told = true;
      take(JSON.parse(event.data));
    });
    stream.addEventListener("error", () => {
      if (told || heard < looked) ask(); // is sidestep gone, or the stream alone? A null is less
      told = false;
      if (stream.readyState !== EventSource.CLOSED) return; // it connects again by itself
      source = null;
      setTimeout(connect, RETRY);
    });
  };
  const hangUp = () => {
    source?.close();
    source = null;
    told = false;
  };
  const stateNow = () => {
    if (heard === null) return "connecting";
    if (missed > (document.hidden ? 1 : 0)) return "lost";
    if (!told) return document.hidden || performance.now() - looked < LATE ? "live" : "asked"; // a stream that is made anew is not told of
    return silent() ? "late" : "live";
  };
  const tell = () => onLink({ state: stateNow(), age: heard === null ? null : (performance.now() - heard) / 1000 });
  const glance = async () => {
    try {
      if (document.hidden || silent()) await ask();
    } finally {
      // Of the connections that the browser keeps all may be dead: each that is tried is one fewer.
      setTimeout(glance, missed && !document.hidden ? RETRY : GLANCE);
    }
  };
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return hangUp();
    looked = performance.now();
    connect();
  });
  connect();
  glance();
  setInterval(tell, 500);
}
