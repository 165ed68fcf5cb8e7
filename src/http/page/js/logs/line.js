// A line of the log: what it says, and its row.

import { h, replace } from "../dom.js";

const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3, hour12: false });
// Members that the row shows, or that say the same again.
const SHOWN = ["0", "1", "time", "message", "hostname", "_meta"];

// What a line of JSON says; other lines are their own message.
export function parse(raw) {
  let line;
  try {
    line = JSON.parse(raw);
  } catch {
    line = null;
  }
  if (line === null || typeof line !== "object") return { raw, level: "", part: "", message: raw, at: NaN, fields: null };
  const meta = line._meta ?? {};
  let part = "";
  try {
    part = JSON.parse(line["0"]).subsystem ?? "";
  } catch {
    part = meta.name ?? "";
  }
  const fields = Object.fromEntries(Object.entries(line).filter(([name]) => !SHOWN.includes(name)));
  if (meta.path) fields.source = meta.path.filePathWithLine;
  return { raw, level: (meta.logLevelName ?? "").toLowerCase(), part, message: String(line.message ?? line["1"] ?? raw), at: Date.parse(line.time ?? meta.date), fields };
}

export const clock = (at) => (Number.isNaN(at) ? "" : CLOCK.format(at));

// As it is copied.
export const asText = ({ at, level, part, message }) => [Number.isNaN(at) ? "" : new Date(at).toISOString(), level.toUpperCase(), part && `[${part}]`, message].filter(Boolean).join(" ");

// The text with what was searched for marked.
function marked(text, words) {
  if (!words) return text;
  const parts = [];
  const low = text.toLowerCase();
  let from = 0;
  for (let at = low.indexOf(words); at >= 0; at = low.indexOf(words, from)) {
    parts.push(text.slice(from, at), h("mark", {}, text.slice(at, at + words.length)));
    from = at + words.length;
  }
  return [...parts, text.slice(from)];
}

// Opened it shows all that the line has.
export function row(entry, words) {
  if (entry.note) return h("div.log-note", {}, entry.note);
  const { at, level, part, message, fields, raw } = entry;
  const summary = h("summary", {}, h("time", { title: Number.isNaN(at) ? undefined : new Date(at).toString() }, clock(at)), h("span.level", {}, level || "–"), h("span.part", {}, marked(part, words)), h("span.text", {}, marked(message, words)));
  const more = h("pre");
  const open = () => replace(more, fields ? JSON.stringify({ time: new Date(at).toString(), ...fields, message }, null, 2) : raw);
  return h("details.log", { "data-level": level, ontoggle: open }, summary, more);
}
