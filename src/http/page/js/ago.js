// Times that go on by themselves.

import { h } from "./dom.js";
import { relative } from "./format.js";

const STEP_MS = 1000;
// What is later is no date; somebody may have planned it.
const LAST_MS = 8.64e15;
const WHOLE = { weekday: "short", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", timeZoneName: "short" };

const dateOf = (ms) => new Date(Math.min(ms, LAST_MS));

// "Mon, Nov 23, 09:00 AM GMT+1", with the year when it is another one; in the
// browser's zone unless another one is named.
export function moment(ms, timeZone) {
  const date = dateOf(ms);
  const year = date.getFullYear() === new Date().getFullYear() ? {} : { year: "numeric" };
  return date.toLocaleString(undefined, { ...WHOLE, ...year, timeZone });
}

// "5 min ago", kept right by `tick`; the whole moment is its title.
export function ago(ms) {
  return h("time", { datetime: dateOf(ms).toISOString(), "data-at": String(ms), title: moment(ms) }, relative(ms));
}

// Keeps the times below an element right; returns what ends it.
export function tick(root) {
  const step = () => {
    for (const time of root.querySelectorAll("time[data-at]")) {
      const text = relative(Number(time.dataset.at));
      if (time.textContent !== text) time.textContent = text;
    }
  };
  const timer = setInterval(step, STEP_MS);
  return () => clearInterval(timer);
}
