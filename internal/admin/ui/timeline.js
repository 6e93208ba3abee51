// A record of a spike as figures over time. Pure.

// timeline returns {from, to, began, ended, strips}: times in seconds since 1970, each
// strip {title, unit, at, lines: [{label, tone, values}]}. tone 1 is the node, 2 the
// others or what it is compared with, 3 a third.
export function timeline(record, now) {
  const samples = record.samples || { at: [], nodes: [] };
  const at = (samples.at || []).map(seconds);
  const [own = {}, others = {}] = samples.nodes || [];
  const began = seconds(record.began);
  // Those of minutes before are for the cause alone.
  const read = record.stats || [];
  const first = read.findIndex((s) => seconds(s.at) > began);
  const stats = read.slice(Math.max(0, (first < 0 ? read.length : first) - 3));
  const statsAt = stats.map((s) => seconds(s.at));
  const rate = (key, scale = 1000) => rates(stats, key, scale);
  const node = record.node;
  const strips = [
    strip("Response time of a shard search", "ms", at, [[node, 1, own.response_ms], ["median of the others", 2, others.response_ms]]),
    strip("Answer to a poll, over HTTP", "ms", at, [[node, 1, own.poll_ms], ["median of the others", 2, others.poll_ms]]),
    strip("Search pool of the node", "searches", at, [["waiting", 1, own.queue], ["at work", 2, own.active]]),
    strip("Share of the shard queries", "%", at, [[node, 1, own.share?.map((v) => (v === null ? null : v * 100))]]),
    strip("Threads that query and fetch", "threads", statsAt, [["query", 2, rate("query_ms")], ["fetch", 1, rate("fetch_ms")]]),
    strip("Threads that merge, refresh and flush", "threads", statsAt, [["merges", 1, rate("merge_ms")], ["refreshes", 2, rate("refresh_ms")], ["flushes", 3, rate("flush_ms")]]),
    strip("Garbage collection", "% of the time", statsAt, [["collecting", 1, rate("gc_ms", 10)]]),
    strip("CPU of the process", "processors", statsAt, [["used", 2, rate("cpu_ms")], ["throttled", 1, rate("cpu_throttled_ns", 1e9)]]),
    strip("Heap", "% of its limit", statsAt, [["used", 2, stats.map((s) => (s.heap_max_bytes ? (100 * s.heap_used_bytes) / s.heap_max_bytes : null))]]),
  ].filter((s) => s.lines.length > 0);
  const ended = record.ended ? seconds(record.ended) : now / 1000;
  // A spike may last for hours, of which there are figures for the first minutes.
  const all = [...at, ...statsAt.filter((t) => Math.abs(t - began) < 600)];
  return { from: Math.min(began - 5, ...all), to: Math.max(Math.min(ended, began + SPAN), ...all), began, ended, strips };
}

const SPAN = 300; // seconds of a spike that there are figures of

const seconds = (t) => Date.parse(t) / 1000;

// strip keeps the lines that have a figure; one that is zero throughout beside others
// stays, as that says something.
function strip(title, unit, at, lines) {
  const told = lines
    .filter(([, , values]) => values?.some((v) => typeof v === "number"))
    .map(([label, tone, values]) => ({ label, tone, values }));
  return { title, unit, at, lines: told };
}

// rates are the growth of a counter per second of the node's own clock, as an answer may
// be long under way, divided by scale; null where the counter began anew.
function rates(stats, key, scale) {
  if (!stats.some((s) => s[key])) return undefined;
  return stats.map((s, i) => {
    if (i === 0) return null;
    const passed = (s.clock_ms - stats[i - 1].clock_ms) / 1000;
    const grown = s[key] - stats[i - 1][key];
    return passed > 0 && grown >= 0 ? grown / passed / scale : null;
  });
}

// figures sums a line up: the mean before the spike, the mean during it, and the peak.
export function figures(line, at, began, ended) {
  const known = line.values.map((v, i) => [at[i], v]).filter(([, v]) => typeof v === "number");
  const mean = (list) => (list.length ? list.reduce((sum, [, v]) => sum + v, 0) / list.length : null);
  const during = known.filter(([t]) => t >= began && t <= ended);
  return {
    before: mean(known.filter(([t]) => t < began)),
    during: mean(during),
    peak: during.length ? Math.max(...during.map(([, v]) => v)) : null,
  };
}
