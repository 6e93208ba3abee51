// The stream of events, and how old what it told is.

import { getJSON } from "./dom.js";

const RETRY = 3000; // ms, after an answer that was no stream
const LATE = 3500; // ms without an event from which on the page says so
const GLANCE = 10000; // ms between statuses while nobody looks, or no stream comes
const DEADLINE = 2000; // ms for each: what comes later is old, and holds a connection

// listen calls onStatus with every status, and onLink each half second with
// {state, age}: state is "live", "late" or "lost", age in seconds, null before the
// first event. A browser opens six connections to a host, for all of its tabs: those that
// nobody looks at hold none, and ask now and then for the sake of their title.
export function listen({ onStatus, onLink }) {
  const began = performance.now(); // of the clock that never jumps
  let last = null; // of the same
  let asked = 0; // when the stream was
  let open = false;
  let source = null;
  const take = (status) => {
    last = performance.now();
    onStatus(status);
  };
  const connect = () => {
    if (source || document.hidden) return;
    const stream = new EventSource("/events");
    source = stream;
    asked = performance.now();
    stream.addEventListener("open", () => {
      open = true;
    });
    stream.addEventListener("status", (event) => {
      open = true;
      take(JSON.parse(event.data));
      tell();
    });
    stream.addEventListener("error", () => {
      open = false;
      tell();
      if (stream.readyState !== EventSource.CLOSED) return; // it connects again by itself
      source = null;
      setTimeout(connect, RETRY);
    });
  };
  const glance = () => {
    if (document.hidden || performance.now() - (last ?? began) > LATE) getJSON("/status", { signal: AbortSignal.timeout(DEADLINE) }).then(take).catch(() => {});
  };
  const tell = () => {
    if (document.hidden) return;
    const now = performance.now();
    let state = "live";
    if (!open) state = "lost";
    else if (last !== null && now - Math.max(last, asked) > LATE) state = "late";
    onLink({ state, age: last === null ? null : (now - last) / 1000 });
  };
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) return connect();
    source?.close();
    source = null;
  });
  connect();
  glance();
  setInterval(glance, GLANCE);
  setInterval(tell, 500);
}
