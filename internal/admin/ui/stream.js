// The stream of events, and how old what it told is.

import { getJSON } from "./dom.js";

const RETRY = 3000; // ms after which the stream is tried again
const LATE = 3500; // ms without an event from which on the page says so
const GLANCE = 10000; // ms between statuses while nobody looks, or no stream comes
const DEADLINE = 2000; // ms for each: what comes later is old, and holds a connection

// listen calls onStatus with every status, and onLink with {state, age}: state is
// "connecting", "live", "asked" where no stream comes, "late" or "lost", age in seconds,
// null before the first status. It follows the stream, and asks once when that ends: is
// sidestep gone, or the stream alone? A browser opens six connections to a host, for all of its
// tabs: those that nobody looks at hold none, and ask now and then for the sake of their title.
export async function listen({ onStatus, onLink }) {
  let state = "connecting";
  let heard = null; // when a status came, by the clock that never jumps
  let missed = 0; // questions in a row without an answer
  const tell = () => {
    const age = heard === null ? null : performance.now() - heard;
    const late = state === "live" && age > LATE && !document.hidden; // what was asked grows old, too
    onLink({ state: late ? "late" : state, age: age === null ? null : age / 1000 });
  };
  const say = (word) => {
    state = word;
    tell();
  };
  const take = (status, word) => {
    heard = performance.now();
    missed = 0;
    try {
      onStatus(status);
    } catch (failure) {
      reportError(failure); // what cannot be drawn ends nothing
    }
    say(word);
  };
  setInterval(tell, 500);
  for (;;) {
    const began = performance.now();
    const looked = !document.hidden;
    const told = looked && (await follow((status) => take(status, "live"), () => say("late")).catch(unreadable));
    const mute = looked && !told;
    const since = told ? performance.now() : began;
    const status = await getJSON("/status", { signal: AbortSignal.timeout(DEADLINE) }).catch(() => null);
    if (status) take(status, mute ? "asked" : "live");
    else if (++missed > (document.hidden ? 1 : 0) && heard !== null) say("lost");
    const rest = document.hidden || (mute && !missed) ? GLANCE : RETRY;
    await first(since + rest - performance.now());
  }
}

// follow hands on what the stream tells, until it breaks off, is silent, or nobody looks. It
// returns whether there was anything. Then silence is told of: the connection may have died
// without a word, as that of a laptop that slept.
async function follow(take, late) {
  const stream = new EventSource("/events");
  try {
    for (let told = false; ; told = true) {
      const event = await first(LATE, stream, "status", "error");
      if (event?.type === "status") take(JSON.parse(event.data));
      else {
        if (told && !event && !document.hidden) late();
        return told;
      }
    }
  } finally {
    stream.close();
  }
}

// unreadable tells of an event that cannot be read, as one that something on the way has changed: the stream is begun anew.
function unreadable(failure) {
  reportError(failure);
  return true;
}

// first waits for the first of some events, and returns it: null if there is none within so many
// ms, or until somebody begins to look at the page, or nobody does any more.
function first(ms, target, ...names) {
  return new Promise((resolve) => {
    const over = new AbortController();
    const end = (event) => {
      over.abort();
      clearTimeout(timer);
      resolve(event);
    };
    const timer = setTimeout(end, ms, null);
    const until = { signal: over.signal };
    for (const name of names) target.addEventListener(name, end, until);
    const { hidden } = document;
    document.addEventListener("visibilitychange", () => document.hidden !== hidden && end(null), until);
  });
}
