// The form of a job.

import { button, h, openDialog, replace } from "../dom.js";
import { check, choice, field, suggested, tabs } from "../fields.js";
import { complain } from "./complaints.js";
import { When } from "./when.js";

const THINKING = [["", "As the agent does"], ...["off", "minimal", "low", "medium", "high", "xhigh"].map((level) => [level, level])];
const DELIVERIES = [["none", "Only to its session"], ["announce", "To a chat"], ["webhook", "To a web address"]];
const PAYLOADS = [["agentTurn", "Ask the agent"], ["systemEvent", "Tell the main session"]];
const MISSED = [["", "As the gateway is set"], ["run", "Run the last one late"], ["skip", "Skip it"]];
const WAKES = [["now", "Answers at once"], ["next-heartbeat", "Answers at its next heartbeat"]];
const HOUR_SECONDS = 3600;

// Suggestions come when they come; without them fields are typed.
async function suggest(link, form) {
  const asks = [["agents.list"], ["models.list"], ["sessions.list", { limit: 50 }], ["channels.status"]];
  const answers = await Promise.allSettled(asks.map(([method, params]) => link.call(method, params)));
  const [agents, models, sessions, channels] = answers.map(({ value }) => value);
  form.agents.fill((agents?.agents ?? []).map(({ id }) => id));
  form.models.fill((models?.models ?? []).map(({ provider, id }) => `${provider}/${id}`));
  form.sessions.fill((sessions?.sessions ?? []).map(({ key }) => key));
  form.channels.fill(["last", "webchat", ...(channels?.channelOrder ?? [])]);
}

class Form {
  constructor(link, job, isNew) {
    this.link = link;
    this.job = job;
    this.isNew = isNew;
    const payload = job.payload ?? { kind: "agentTurn" };
    this.kind = payload.kind;
    this.name = field("Name", h("input", { value: job.name ?? "", autofocus: isNew, placeholder: "Morning news" }));
    this.description = field("Description", h("input", { value: job.description ?? "", placeholder: "What it is for" }));
    this.when = new When(link, job.schedule, isNew ? undefined : job.id);
    this.text = field("Message", h("textarea", { rows: "4", value: payload.message ?? payload.text ?? "", placeholder: "Sum up what came in since yesterday" }));
    this.#target(job);
    this.#turn(payload);
    this.#delivery(job.delivery ?? { mode: "none" });
    this.#options(job, payload);
    this.notice = h("p.notice.bad", { role: "alert", hidden: true });
    this.#show();
  }

  #target({ agentId = "", sessionTarget = "isolated", wakeMode = "now" }) {
    const named = sessionTarget.startsWith("session:") ? sessionTarget.slice("session:".length) : "";
    this.agents = suggested({ value: agentId, placeholder: "the default agent" });
    this.sessions = suggested({ value: named, placeholder: "a new one each time" });
    this.agent = field("Agent", this.agents.input);
    this.session = field("Session", this.sessions.input, "Named, it goes on there; else each run has one of its own.");
    this.wake = field("The session", choice(WAKES, wakeMode));
  }

  #turn({ model = "", thinking = "", timeoutSeconds = "" }) {
    this.models = suggested({ value: model, placeholder: "that of the agent" });
    this.model = field("Model", this.models.input);
    this.thinking = field("Thinking", choice(THINKING, thinking));
    this.timeout = field("Stop after (seconds)", h("input", { type: "number", min: "0", placeholder: String(HOUR_SECONDS), value: String(timeoutSeconds) }));
  }

  #delivery({ mode = "none", channel = "", to = "", bestEffort = false }) {
    this.mode = field("Answer goes", choice(DELIVERIES, mode, { onchange: () => this.#show() }));
    this.channels = suggested({ value: channel, placeholder: "last" });
    this.channel = field("Channel", this.channels.input, "“last” is where the session last spoke.");
    this.to = field("To", h("input", { value: to }));
    this.best = check("A run is good even when this fails", bestEffort);
    this.place = h("div.pair", {}, this.channel.root, this.to.root);
  }

  #options({ deleteAfterRun, missed, enabled = true }, { lightContext = false }) {
    this.enabled = check("Enabled", enabled);
    this.remove = check("Remove it once it has run well", deleteAfterRun ?? true);
    this.light = check("Without the files of the workspace", lightContext);
    this.missed = field("A run that was missed", choice(MISSED, missed ?? ""), "While the gateway was down or the machine slept.");
  }

  #show() {
    const isTurn = this.kind === "agentTurn";
    const mode = this.mode.input.value;
    this.place.hidden = this.best.root.hidden = mode === "none";
    this.channel.root.hidden = mode === "webhook";
    this.to.input.placeholder = mode === "webhook" ? "https://example.org/hook" : "the last chat there";
    for (const part of this.turnParts ?? []) part.hidden = !isTurn;
    this.wake.root.hidden = isTurn;
  }

  build(close) {
    const kinds = tabs("What", PAYLOADS, this.kind, (kind) => {
      this.kind = kind;
      this.#show();
    });
    const answer = h("fieldset", {}, h("legend", {}, "Answer"), this.mode.root, this.place, this.best.root);
    const more = h("div.pair", {}, this.model.root, this.thinking.root, this.timeout.root);
    this.turnParts = [this.session.root, answer, more, this.light.root];
    this.#show();
    const save = h("button.primary", {}, this.isNew ? "Add job" : "Save");
    const submit = (event) => {
      event.preventDefault();
      this.#save(save, close);
    };
    const lists = [this.agents, this.models, this.sessions, this.channels].map(({ list }) => list);
    return h("form.stack.job-form", { onsubmit: submit, novalidate: true }, this.name.root, this.when.root,
      h("fieldset", {}, h("legend", {}, "What"), kinds, this.text.root, h("div.pair", {}, this.agent.root, this.session.root, this.wake.root), more),
      answer,
      h("details", {}, h("summary", {}, "More"), h("div.stack", {}, this.description.root, this.missed.root, this.remove.root, this.light.root)),
      this.enabled.root, lists, this.notice, h("div.actions", {}, button("Cancel", { onclick: () => close() }), save));
  }

  async #save(save, close) {
    save.disabled = true;
    this.notice.hidden = true;
    try {
      const params = this.isNew ? this.#whole() : { id: this.job.id, patch: this.#whole() };
      close(await this.link.call(this.isNew ? "cron.add" : "cron.update", params));
    } catch (error) {
      const left = complain(error, this.#fields());
      this.notice.hidden = !left;
      replace(this.notice, left ?? "");
    } finally {
      save.disabled = false;
    }
  }

  #fields() {
    const { name, agent, session, text, timeout, channel, to, missed } = this;
    return { "/name": name, ...this.when.paths, "/payload/message": text, "/payload/text": text, "/payload/timeoutSeconds": timeout,
      "/agentId": agent, "/sessionTarget": session, "/delivery/channel": channel, "/delivery/to": to, "/missed": missed };
  }

  // What is entered. What this form does not show of a job stays as it is.
  #whole() {
    const value = ({ input }) => input.value.trim();
    const isTurn = this.kind === "agentTurn";
    const session = value(this.session);
    const whole = {
      ...(this.isNew ? this.#copied() : {}),
      name: value(this.name),
      description: value(this.description) || (this.isNew ? undefined : ""),
      enabled: this.enabled.input.checked,
      sessionTarget: !isTurn ? "main" : session ? `session:${session}` : "isolated",
      payload: isTurn ? this.#asked(value) : { kind: "systemEvent", text: value(this.text) },
      delivery: isTurn ? this.#delivered(value) : this.#ofMain(),
      wakeMode: this.wake.input.value,
    };
    // To be nobody's again, it has to be said.
    const agent = value(this.agent);
    if (agent || this.job.agentId) whole.agentId = agent || null;
    const missed = this.missed.input.value;
    if (missed || (!this.isNew && this.job.missed)) whole.missed = missed || null;
    if (this.isNew || this.when.isChanged()) whole.schedule = this.when.value();
    if (this.when.kind === "at") whole.deleteAfterRun = this.remove.input.checked;
    return whole;
  }

  // What a copy has of its job, whether it is shown here or not.
  #copied() {
    const { id, state, createdAtMs, updatedAtMs, effectiveAgentId, deleteAfterRun, missed, ...kept } = this.job;
    // What is meant for a job that runs once is not for one that goes on.
    const goesOn = kept.schedule && kept.schedule.kind !== "at";
    return goesOn ? { ...kept, deleteAfterRun } : kept;
  }

  #asked(value) {
    const had = this.job.payload ?? {};
    const asked = { ...(this.isNew && had.kind === "agentTurn" ? had : {}), kind: "agentTurn", message: value(this.text) };
    for (const [name, field] of [["model", this.model], ["thinking", this.thinking]]) {
      if (value(field) || had[name]) asked[name] = value(field);
    }
    const seconds = value(this.timeout);
    if (seconds !== "") asked.timeoutSeconds = Number(seconds);
    else if (had.timeoutSeconds !== undefined) asked.timeoutSeconds = HOUR_SECONDS;
    if (this.light.input.checked || had.lightContext) asked.lightContext = this.light.input.checked;
    return asked;
  }

  // The main session answers in its chat; whatever else there is stays.
  #ofMain() {
    const had = this.job.delivery;
    const mode = had?.mode === "webhook" ? had.mode : "none";
    if (this.isNew) return had && { ...had, mode };
    return had?.mode === "announce" ? { mode } : undefined;
  }

  #delivered(value) {
    const mode = this.mode.input.value;
    const had = this.job.delivery ?? {};
    const delivery = { ...(this.isNew ? had : {}), mode };
    if (mode === "none") return delivery;
    const channel = value(this.channel);
    const to = value(this.to);
    if (mode === "announce" && (channel || had.channel)) delivery.channel = channel || "last";
    if (to || had.to || mode === "webhook") delivery.to = to;
    if (this.best.input.checked || had.bestEffort) delivery.bestEffort = this.best.input.checked;
    // A copy that goes to no chat is for none of its parts, and one for another chat not for
    // an account and a thread of this one.
    if (mode === "webhook") for (const name of ["channel", "accountId", "threadId"]) delete delivery[name];
    if (delivery.channel !== had.channel) delete delivery.accountId;
    if (delivery.channel !== had.channel || delivery.to !== had.to) delete delivery.threadId;
    return delivery;
  }
}

// Asks for a job: a new one like `job`, or that one changed. The job as the
// gateway has it then, or nothing when it was dismissed.
export function editJob(link, job, isNew) {
  const form = new Form(link, job, isNew);
  suggest(link, form);
  return openDialog(isNew ? "New job" : `Edit ${job.name}`, (close) => form.build(close), { isForm: true });
}
