// Numbers and times for people.

const RELATIVE = new Intl.RelativeTimeFormat(undefined, { numeric: "auto", style: "short" });
const UNITS = [["day", 86_400_000], ["hour", 3_600_000], ["minute", 60_000], ["second", 1000]];

// "in 5 min", "2 days ago".
export function relative(ms, now = Date.now()) {
  const away = ms - now;
  const [unit, size] = UNITS.find(([, size]) => Math.abs(away) >= size) ?? UNITS.at(-1);
  return RELATIVE.format(Math.round(away / size), unit);
}

// "1.2 s", "3 min 4 s", "2 d 3 h".
export function duration(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  const steps = [["d", 86_400_000], ["h", 3_600_000], ["min", 60_000], ["s", 1000]];
  const first = steps.findIndex(([, size]) => ms >= size);
  const [unit, size] = steps[first];
  const [nextUnit, nextSize] = steps[first + 1];
  const rest = Math.floor((ms % size) / nextSize);
  return `${Math.floor(ms / size)} ${unit}${rest > 0 ? ` ${rest} ${nextUnit}` : ""}`;
}

export const time = (ms) => new Date(ms).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" });
export const dateTime = (ms) => new Date(ms).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });

const COMPACT = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 });
// "1.2K".
export const compact = (count) => COMPACT.format(count);

// "$0.0042", "$12.30".
export function money(dollars) {
  if (dollars !== 0 && Math.abs(dollars) < 0.01) return `$${dollars.toFixed(4)}`;
  return `$${dollars.toFixed(2)}`;
}

// "3.4 MB".
export function bytes(count) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  const step = Math.min(units.length - 1, count < 1 ? 0 : Math.floor(Math.log10(count) / 3));
  return `${(count / 1000 ** step).toFixed(step === 0 ? 0 : 1)} ${units[step]}`;
}
