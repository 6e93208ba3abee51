// The stream of events, and how old what it told is.

const RETRY = 3000; // ms, after an answer that was no stream
const LATE = 3500; // ms without an event from which on the page says so

// listen calls onStatus with every status, and onLink each half second with
// {state, age}: state is "live", "late" or "lost", age in seconds, null before the
// first event.
export function listen({ onStatus, onLink }) {
  let last = null; // of the clock that never jumps
  let open = false;
  const connect = () => {
    const source = new EventSource("/events");
    source.addEventListener("open", () => {
      open = true;
    });
    source.addEventListener("status", (event) => {
      open = true;
      last = performance.now();
      onStatus(JSON.parse(event.data));
      tell();
    });
    source.addEventListener("error", () => {
      open = false;
      tell();
      if (source.readyState !== EventSource.CLOSED) return; // it connects again by itself
      source.close();
      setTimeout(connect, RETRY);
    });
  };
  const tell = () => {
    const age = last === null ? null : (performance.now() - last) / 1000;
    let state = "live";
    if (!open) state = "lost";
    else if (age !== null && age * 1000 > LATE) state = "late";
    onLink({ state, age });
  };
  connect();
  setInterval(tell, 500);
}
