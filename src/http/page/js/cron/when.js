// The part of a job's form that says when: fields, and the next runs as the
// gateway gives them.

import { ago, moment } from "../ago.js";
import { h, replace } from "../dom.js";
import { choice, field, suggested, tabs } from "../fields.js";
import { duration } from "../format.js";
import { plain } from "./complaints.js";

const KINDS = [["every", "Again and again"], ["cron", "By the calendar"], ["at", "Once"]];
const UNITS = [["1000", "seconds"], ["60000", "minutes"], ["3600000", "hours"], ["86400000", "days"]];
const PRESETS = ["0 9 * * *", "0 9 * * 1-5", "0 * * * *", "*/15 * * * *", "0 9 1 * *"];
const HERE = Intl.DateTimeFormat().resolvedOptions().timeZone;
// How long somebody pauses who has typed a word.
const PAUSE_MS = 200;
const HOUR_MS = 3_600_000;

// As `datetime-local` has it, in the browser's zone.
function localTime(ms) {
  const date = new Date(ms);
  return new Date(ms - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

export class When {
  #link;
  #id;
  #given;
  #kind;
  #timer;
  #asked = 0;

  // schedule: that of the job `id`; without them it is for a new one.
  constructor(link, schedule, id) {
    this.#link = link;
    this.#id = id;
    this.#given = schedule;
    this.#kind = schedule?.kind ?? "every";
    this.#build(schedule ?? {});
    this.#turn();
  }

  #build({ everyMs = HOUR_MS, expr = "0 9 * * *", tz, at, staggerMs }) {
    const unit = UNITS.findLast(([size]) => everyMs % size === 0) ?? UNITS[0];
    const typed = { oninput: () => this.#previewSoon() };
    this.every = field("Every", h("input", { type: "number", min: "1", step: "any", value: String(everyMs / unit[0]), ...typed }));
    this.unit = field("Unit", choice(UNITS, unit[0], { onchange: typed.oninput }));
    const pattern = suggested({ value: expr, class: "mono", ...typed });
    pattern.fill(PRESETS);
    this.expr = field("Minute, hour, day, month, weekday", pattern.input);
    const zone = suggested({ value: tz ?? (this.#given ? "" : HERE), placeholder: "that of the gateway", ...typed });
    zone.fill(Intl.supportedValuesOf("timeZone"));
    this.tz = field("Time zone", zone.input);
    this.stagger = field("Spread over (seconds)", h("input", { type: "number", min: "0", placeholder: "as usual", value: staggerMs === undefined ? "" : String(staggerMs / 1000), ...typed }), "So that not all jobs of a moment begin at once.");
    this.at = field(`At (${HERE})`, h("input", { type: "datetime-local", max: "9999-12-31T23:59", value: localTime(at ? Date.parse(at) : Date.now() + HOUR_MS), ...typed }));
    this.preview = h("div.preview", { role: "status", "aria-label": "Next runs" });
    this.forms = {
      every: h("div.pair", {}, this.every.root, this.unit.root),
      cron: h("div.pair", {}, this.expr.root, this.tz.root, this.stagger.root, pattern.list, zone.list),
      at: h("div", {}, this.at.root),
    };
    const kinds = tabs("When", KINDS, this.#kind, (kind) => {
      this.#kind = kind;
      this.#turn();
    });
    this.root = h("fieldset", {}, h("legend", {}, "When"), kinds, Object.values(this.forms), this.preview);
  }

  // Fields by the path that an error names them with.
  get paths() {
    const { every, expr, tz, at, stagger } = this;
    return { "/schedule/everyMs": every, "/schedule/expr": expr, "/schedule/tz": tz, "/schedule/staggerMs": stagger, "/schedule/at": at };
  }

  get kind() {
    return this.#kind;
  }

  #turn() {
    for (const [kind, form] of Object.entries(this.forms)) form.hidden = kind !== this.#kind;
    this.#preview();
  }

  // The schedule as it is on the wire.
  value() {
    const given = this.#given;
    if (this.#kind === "every") {
      const everyMs = Math.round(Number(this.every.input.value) * Number(this.unit.input.value));
      return { kind: "every", everyMs, ...(given?.everyMs === everyMs ? { anchorMs: given.anchorMs } : {}) };
    }
    if (this.#kind === "at") {
      const { value } = this.at.input;
      const isSame = given?.at && localTime(Date.parse(given.at)) === value;
      return { kind: "at", at: isSame ? given.at : value && new Date(value).toISOString() };
    }
    const expr = this.expr.input.value.trim();
    const tz = this.tz.input.value.trim();
    const spread = this.stagger.input.value;
    // What is usual for another calendar is for the gateway to say.
    const isUsual = spread === "" || (expr !== given?.expr && Number(spread) * 1000 === given?.staggerMs);
    return { kind: "cron", expr, ...(tz ? { tz } : {}), ...(isUsual ? {} : { staggerMs: Math.round(Number(spread) * 1000) }) };
  }

  isChanged() {
    const order = ({ kind, everyMs, anchorMs, expr, tz, staggerMs, at }) => JSON.stringify([kind, everyMs, anchorMs, expr, tz, staggerMs, at]);
    return !this.#given || order(this.#given) !== order(this.value());
  }

  #previewSoon() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#preview(), PAUSE_MS);
  }

  // Asks the gateway; only the answer to the last question counts.
  async #preview() {
    const number = ++this.#asked;
    const params = { schedule: this.value(), limit: 3, ...(this.#id ? { id: this.#id } : {}) };
    try {
      const answer = await this.#link.call("cron.preview", params);
      if (number === this.#asked) this.#show(answer);
    } catch (error) {
      if (number !== this.#asked) return;
      replace(this.preview);
      if (error.code !== "DISCONNECTED") this.complain(error.message);
    }
  }

  #show({ instants, tz, staggerMs }) {
    for (const field of Object.values(this.paths)) field.fail();
    const item = (at) => h("li", {}, h("span", {}, moment(at, tz)), " ", h("span.muted", {}, ago(at)));
    const later = staggerMs > 0 && !this.#id && h("p.small.muted", {}, `Up to ${duration(staggerMs)} later, so that not all jobs begin at once.`);
    replace(this.preview, h("h3", {}, "Next runs"), h("ol", {}, instants.map(item)), later);
  }

  // Shows what is wrong beside the field that it is about.
  complain(text) {
    for (const [path, field] of Object.entries(this.paths)) {
      const of = text.split(/; (?=at \/)/).find((part) => part.includes(`${path}: `));
      const isShown = this.forms[this.#kind].contains(field.root);
      field.fail(of && isShown ? plain(of.slice(of.indexOf(": ", of.indexOf(path)) + 2)) : undefined);
    }
  }
}
