// Figures as people read them. Where there is no figure there is a dash.

export const NONE = "–";

// GAP keeps a figure and its unit on one line.
export const GAP = "\u00a0";
const known = (v) => typeof v === "number" && Number.isFinite(v);

// number keeps about three digits, and no zeros behind the point.
export function number(v) {
  if (!known(v)) return NONE;
  const size = Math.abs(v);
  if (size >= 1000) return thousands(v);
  return String(Number(v.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2)));
}

// thousands groups digits.
export function thousands(v) {
  return known(v) ? String(Math.round(v)).replace(/\B(?=(\d{3})+$)/g, " ") : NONE;
}

// short is a figure for narrow columns: one decimal below 10, none from there on.
export function short(v) {
  if (!known(v)) return NONE;
  if (Math.abs(v) >= 9.95) return thousands(v);
  return v === 0 ? "0" : v.toFixed(1);
}

// millis is a duration in ms, with its unit.
export function millis(v) {
  if (!known(v)) return NONE;
  return v >= 10000 ? `${short(v / 1000)}${GAP}s` : `${short(v)}${GAP}ms`;
}

// percent is a part of one.
export function percent(v) {
  if (!known(v)) return NONE;
  const p = v * 100;
  return `${p > 0 && p < 9.95 ? p.toFixed(1) : p.toFixed(0)}${GAP}%`;
}

// span is a length of time in seconds, in at most two units.
export function span(seconds) {
  if (!known(seconds)) return NONE;
  const s = Math.max(0, Math.round(seconds));
  if (s < 120) return `${s}${GAP}s`;
  if (s < 7200) return `${Math.floor(s / 60)}${GAP}min`;
  if (s < 172800) return `${Math.floor(s / 3600)}${GAP}h ${Math.floor((s % 3600) / 60)}${GAP}min`;
  return `${Math.floor(s / 86400)}${GAP}days`;
}

// clock is the time of day of an RFC 3339 time, with the day unless it is today.
export function clock(at, now = Date.now()) {
  const d = new Date(at);
  if (Number.isNaN(d.getTime())) return NONE;
  const two = (v) => String(v).padStart(2, "0");
  const time = `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
  if (new Date(now).toDateString() === d.toDateString()) return time;
  return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${time}`;
}

// bytes in powers of 1024.
export function bytes(v) {
  if (!known(v)) return NONE;
  const units = ["B", "KiB", "MiB", "GiB"];
  let i = 0;
  for (; v >= 1024 && i < units.length - 1; i++) v /= 1024;
  return `${short(v)} ${units[i]}`;
}

// count is a number of things: "1 node", "3 nodes".
export const count = (n, one, many = `${one}s`) => `${thousands(n)} ${n === 1 ? one : many}`;

// median returns the lower median of the figures that are known, null if there are none.
export function median(values) {
  const sorted = values.filter(known).sort((a, b) => a - b);
  return sorted.length ? sorted[Math.floor((sorted.length - 1) / 2)] : null;
}

// natural compares names so that es-2 comes before es-10.
export const natural = new Intl.Collator("en", { numeric: true, sensitivity: "base" }).compare;
