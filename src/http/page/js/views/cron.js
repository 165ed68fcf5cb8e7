// Jobs: what the agents do at a time, without anybody asking.

import { ago, moment, tick } from "../ago.js";
import { editJob } from "../cron/form.js";
import { JobRow } from "../cron/job.js";
import { button, h, replace } from "../dom.js";
import { failed } from "../toast.js";

// The scheduler's line is asked for again once changes have paused.
const PAUSE_MS = 150;

class Jobs {
  #app;
  #rows = new Map();
  #list = h("ul.jobs");
  #line = h("div.row.wrap.scheduler");
  #off = h("p.notice.warn", { hidden: true }, "The scheduler is off: jobs run only when you run them. Set cron.enabled in the settings to turn it on.");
  #empty = h("div.card.empty", { hidden: true });
  #search = h("input", { type: "search", hidden: true, placeholder: "Search jobs", "aria-label": "Search jobs", oninput: () => this.#filter() });
  #soon;
  #wanted;

  constructor(root, app, wanted) {
    this.#app = app;
    this.#wanted = wanted;
    const add = () => button("New job", { icon: "plus", class: "primary", onclick: () => this.#add() });
    replace(this.#empty, h("h2", {}, "Nothing is planned"), h("p", {}, "A job asks an agent at a time: each morning, every ten minutes, or once."), h("p", {}, add()));
    replace(this.#line, h("span.muted", {}, "Loading…"));
    replace(root, h("div.page.cron", {}, h("header", {}, h("h1", {}, "Cron"), this.#search, add()), this.#line, this.#off, this.#empty, this.#list));
    this.ends = [tick(root), app.link.on("ready", () => this.load()), app.link.on("gap", () => this.load()), app.link.on("cron", (event) => this.#hear(event))];
    this.load();
  }

  leave() {
    clearTimeout(this.#soon);
    for (const end of this.ends) end();
  }

  // Opens the history of a job.
  go(id) {
    this.#wanted = id;
    const row = this.#rows.get(id);
    if (!row) return;
    this.#wanted = "";
    row.showHistory(true);
    row.element.scrollIntoView({ block: "start" });
  }

  async load() {
    try {
      const { jobs } = await this.#app.link.call("cron.list", { includeDisabled: true });
      const there = new Set(jobs.map(({ id }) => id));
      for (const id of [...this.#rows.keys()]) if (!there.has(id)) this.#drop(id);
      for (const job of jobs) this.#put(job);
      for (const row of this.#rows.values()) row.reload();
      this.#arrange();
      if (this.#wanted) this.go(this.#wanted);
      await this.#status();
    } catch (error) {
      failed(error);
    }
  }

  async #status() {
    const { enabled, nextWakeAtMs } = await this.#app.link.call("cron.status");
    const jobs = [...this.#rows.values()].map(({ job }) => job);
    const on = jobs.filter((job) => job.enabled).length;
    const next = nextWakeAtMs && enabled ? ["· next run ", ago(nextWakeAtMs), h("span.muted", {}, moment(nextWakeAtMs))] : null;
    replace(this.#line, h("span.dot", { class: enabled ? "good" : "bad" }), enabled ? "Scheduler on" : "Scheduler off", h("span.muted", {}, `· ${jobs.length} ${jobs.length === 1 ? "job" : "jobs"}, ${on} enabled`), next);
    this.#off.hidden = enabled;
  }

  #put(job) {
    const row = this.#rows.get(job.id);
    if (row) return row.update(job);
    this.#rows.set(job.id, new JobRow(this.#app, job));
  }

  #drop(id) {
    this.#rows.get(id)?.element.remove();
    this.#rows.delete(id);
  }

  #hear({ jobId, action, job }) {
    if (action === "removed") this.#drop(jobId);
    // The end of a run does not bring back a job that was removed while it ran.
    else if (job && (action !== "finished" || this.#rows.has(jobId))) this.#put(job);
    if (action === "finished") this.#rows.get(jobId)?.reload();
    this.#arrange();
    clearTimeout(this.#soon);
    this.#soon = setTimeout(() => this.#status().catch(failed), PAUSE_MS);
  }

  // Enabled jobs first, in the order in which they run; nothing is moved that is
  // in its place, so that the focus stays.
  #arrange() {
    const due = ({ job }) => (job.enabled ? job.state.nextRunAtMs ?? Number.MAX_SAFE_INTEGER - 1 : Number.MAX_SAFE_INTEGER);
    const rows = [...this.#rows.values()].sort((a, b) => due(a) - due(b) || a.job.name.localeCompare(b.job.name));
    const focused = document.activeElement;
    rows.forEach(({ element }, place) => {
      if (this.#list.children[place] !== element) this.#list.insertBefore(element, this.#list.children[place] ?? null);
    });
    if (focused !== document.activeElement && this.#list.contains(focused)) focused.focus();
    this.#empty.hidden = rows.length > 0;
    this.#search.hidden = rows.length < 2;
    this.#filter();
  }

  #filter() {
    const words = this.#search.value.trim().toLowerCase();
    for (const { job, element } of this.#rows.values()) {
      const text = [job.name, job.description, job.payload.message, job.payload.text, job.agentId].join(" ");
      element.hidden = !text.toLowerCase().includes(words);
    }
  }

  async #add() {
    const job = await editJob(this.#app.link, {}, true);
    if (!job) return;
    this.#put(job);
    this.#arrange();
  }
}

export const view = {
  id: "cron",
  title: "Cron",
  icon: "cron",
  mount(root, app, wanted) {
    const jobs = new Jobs(root, app, wanted);
    return { leave: () => jobs.leave(), go: (id) => jobs.go(id) };
  },
};
