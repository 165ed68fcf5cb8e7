// One job in the list.

import { ago, moment } from "../ago.js";
import { button, confirm, h, replace } from "../dom.js";
import { duration } from "../format.js";
import { failed } from "../toast.js";
import { editJob } from "./form.js";
import { History } from "./history.js";
import { scheduleWords, statusClass, targetWords } from "./words.js";

export class JobRow {
  #app;
  #job;
  #history = null;
  #isBusy = false;

  constructor(app, job) {
    this.#app = app;
    this.#build(job);
    this.update(job);
  }

  get job() {
    return this.#job;
  }

  #build(job) {
    this.title = h("h2", {});
    this.status = h("span.row");
    this.facts = h("dl.about");
    this.error = h("p.notice.bad", { hidden: true });
    this.toggle = h("input.switch", { type: "checkbox", role: "switch", onchange: () => this.#enable() });
    this.run = button("Run now", { icon: "play", onclick: () => this.#run() });
    this.more = button("History", { icon: "logs", "aria-expanded": "false", onclick: () => this.showHistory(!this.#history) });
    const edit = button("Edit", { icon: "edit", onclick: () => this.#edit(this.#job, false) });
    const copy = button("Duplicate", { icon: "copy", onclick: () => this.#edit({ ...this.#job, name: `${this.#job.name} (copy)` }, true) });
    const remove = button("Delete", { icon: "trash", class: "danger", onclick: () => this.#remove() });
    this.body = h("div");
    const head = h("div.row", {}, this.toggle, h("div.grow", {}, this.title), this.status);
    this.element = h("li.card.job", { "data-id": job.id }, head, this.facts, this.error, h("div.row.wrap.small-buttons", {}, this.run, this.more, edit, copy, remove), this.body);
  }

  update(job) {
    this.#job = job;
    const { state, name } = job;
    this.element.classList.toggle("off", !job.enabled);
    replace(this.title, name, job.description && h("span.muted.small", {}, job.description));
    this.toggle.checked = job.enabled;
    this.toggle.setAttribute("aria-label", `Enabled: ${name}`);
    const isRunning = Boolean(state.runningAtMs);
    const status = state.lastRunStatus ?? state.lastStatus;
    replace(this.status, isRunning ? h("span.badge.accent", {}, h("span.spin"), "running") : status && h("span.badge", { class: statusClass(status) }, status));
    this.run.disabled = isRunning;
    replace(this.facts, this.#told(job, state));
    const isBad = status === "error" && !isRunning;
    this.error.hidden = !isBad;
    replace(this.error, isBad ? state.lastError ?? "It failed." : "");
  }

  #told(job, { nextRunAtMs, lastRunAtMs, lastDurationMs }) {
    const next = nextRunAtMs && job.enabled ? [ago(nextRunAtMs), h("span.muted", {}, moment(nextRunAtMs))] : h("span.muted", {}, job.enabled ? "none" : "turned off");
    const last = lastRunAtMs ? [ago(lastRunAtMs), lastDurationMs !== undefined && h("span.muted", {}, `took ${duration(lastDurationMs)}`)] : h("span.muted", {}, "never");
    const rows = [["When", scheduleWords(job.schedule)], ["Next", next], ["Last", last], ["What", targetWords(job)]];
    return rows.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)));
  }

  showHistory(isWanted) {
    this.more.setAttribute("aria-expanded", String(isWanted));
    this.#history = isWanted ? new History(this.#app.link, this.#job.id) : null;
    replace(this.body, this.#history?.element);
    this.reload();
  }

  // Its history as it is now, when that is shown.
  reload() {
    this.#history?.load();
  }

  // One thing at a time; what the gateway says of the job is shown.
  async #change(method, params) {
    if (this.#isBusy) return undefined;
    this.#isBusy = true;
    try {
      return await this.#app.link.call(method, params);
    } catch (error) {
      failed(error);
      return undefined;
    } finally {
      this.#isBusy = false;
      this.update(this.#job);
    }
  }

  async #enable() {
    const patch = { enabled: this.toggle.checked };
    const job = await this.#change("cron.update", { id: this.#job.id, patch });
    if (job) this.update(job);
  }

  async #run() {
    const answer = await this.#change("cron.run", { id: this.#job.id, mode: "force" });
    if (answer?.ran === false) this.#app.toast("It is running already.");
    else if (answer && !this.#history) this.showHistory(true);
  }

  async #edit(job, isNew) {
    const changed = await editJob(this.#app.link, job, isNew);
    if (changed && !isNew) this.update(changed);
  }

  async #remove() {
    const text = "It does not run any more. What it has done stays in the transcripts.";
    if (await confirm(`Delete ${this.#job.name}?`, text, "Delete")) await this.#change("cron.remove", { id: this.#job.id });
  }
}
