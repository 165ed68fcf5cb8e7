// Schedules and runs in words.

import { moment } from "../ago.js";
import { duration } from "../format.js";

const UNITS = [["day", 86_400_000], ["hour", 3_600_000], ["minute", 60_000], ["second", 1000]];
const DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const NAMES = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

const NUMBER = /^\d+$/;
const STEPS = /^\*\/(\d+)$/;

export function everyWords(ms) {
  const [unit, size] = UNITS.find(([, size]) => ms >= size && ms % size === 0) ?? [];
  if (!unit) return `Every ${duration(ms)}`;
  return ms === size ? `Every ${unit}` : `Every ${ms / size} ${unit}s`;
}

const dayNumber = (word) => (NUMBER.test(word) ? Number(word) % 7 : NAMES.indexOf(word.slice(0, 3).toLowerCase()));

// "Monday to Friday", "Mondays and Fridays"; nothing for what has no short words.
function daysWords(field) {
  const range = field.split("-");
  if (range.length === 2) {
    const [from, to] = range.map(dayNumber);
    return DAYS[from] && DAYS[to] ? `${DAYS[from]} to ${DAYS[to]}` : undefined;
  }
  const days = field.split(",").map((word) => DAYS[dayNumber(word)]);
  if (!days.every(Boolean)) return undefined;
  const named = days.map((day) => `${day}s`);
  return named.length === 1 ? named[0] : `${named.slice(0, -1).join(", ")} and ${named.at(-1)}`;
}

// Calendars that have short words; nothing for others.
function calendarWords(expr) {
  const [minute, hour, day, month, weekday, ...more] = expr.trim().split(/\s+/);
  if (weekday === undefined || more.length > 0 || month !== "*") return undefined;
  const isAnyDay = day === "*" && weekday === "*";
  if (isAnyDay && hour === "*") {
    if (minute === "*") return "Every minute";
    const step = STEPS.exec(minute);
    if (step) return `Every ${step[1]} minutes`;
    if (NUMBER.test(minute)) return minute === "0" ? "Every hour" : `Every hour at :${minute.padStart(2, "0")}`;
  }
  if (!NUMBER.test(minute) || !NUMBER.test(hour)) return undefined;
  const at = `at ${hour.padStart(2, "0")}:${minute.padStart(2, "0")}`;
  if (isAnyDay) return `Every day ${at}`;
  if (day === "*") {
    const days = daysWords(weekday);
    return days && `${days} ${at}`;
  }
  return weekday === "*" && NUMBER.test(day) ? `On day ${day} of each month ${at}` : undefined;
}

// "Every 30 minutes", "Every day at 09:00 · Europe/Paris".
export function scheduleWords(schedule) {
  if (schedule.kind === "every") return everyWords(schedule.everyMs);
  if (schedule.kind === "at") return `Once, ${moment(Date.parse(schedule.at))}`;
  const words = calendarWords(schedule.expr) ?? `Calendar ${schedule.expr}`;
  return `${words} · ${schedule.tz ?? "time of the gateway"}`;
}

// Where a job does what.
export function targetWords({ sessionTarget, payload, agentId, delivery }) {
  const agent = agentId ? ` of ${agentId}` : "";
  if (payload.kind === "systemEvent") return `tells the main session${agent}`;
  const where = sessionTarget.startsWith("session:") ? `in ${sessionTarget.slice("session:".length)}` : "in a new session";
  const answers = { announce: `, answer to ${delivery?.channel ?? "the last chat"}`, webhook: ", answer to a web address" };
  return `asks the agent${agentId ? ` ${agentId}` : ""} ${where}${answers[delivery?.mode] ?? ""}`;
}

const KINDS = { ok: "good", error: "bad", skipped: "warn" };

// The class of a badge for how a run ended.
export const statusClass = (status) => KINDS[status] ?? "";
