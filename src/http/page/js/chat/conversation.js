// What is known of one session: its messages, what runs in it, and what was
// written here and is not in it yet.
//
// Messages are what `chat.history` tells; events come on top of it, and at the
// end of a run, after "ready" and after "gap" it is asked again.

import { get } from "../http.js";

const PAGE = 60;
// The gateway tells no more at once; what is older comes a page at a time.
const PAGES_MAX = 1000;
const EARLIER = 200;
// The history is asked again this long after a run has ended.
const SETTLE_MS = 150;

// A command that was answered is in no transcript; its line is kept here.
const LINE = "line-";
const isLine = (message) => idOf(message)?.startsWith(LINE) && textOf(message).startsWith("/");

const idOf = (message) => message.__openclaw?.id;
const seqOf = (message) => message?.__openclaw?.seq;

export const textOf = ({ content }) =>
  typeof content === "string" ? content : (content ?? []).filter((block) => block.type === "text").map((block) => block.text).join("\n");

export class Conversation {
  key;
  messages = [];
  // By id of the call: {id, name, args, meta, status, output, isCut, isError, startedAt, durationMs}.
  tools = new Map();
  // What runs: {runId, startedAt, text, note}; text is that of the answer so far
  // that is not a message yet.
  run = null;
  thinkingLevel = "off";
  // What is told of the last run that failed, until the next one.
  failure = null;
  isLoaded = false;
  hasOlder = false;
  outbox;

  #link;
  #told;
  #ends = [];
  #limit = PAGE;
  #asked = 0;
  #settle = null;
  // The text of a run that is in messages already, for snapshots of all of it.
  #before = "";
  // Messages that come while the history is on its way.
  #fresh = null;
  // Calls of which was told meanwhile whether they wait.
  #decided = null;
  #sessionId = null;
  // Whether there are more before what is older than the history.
  #hasEarlier = true;

  // outbox: what is written here. told: {changed(), failed(error), named(key)}; named:
  // that is what the gateway calls the session.
  constructor(link, key, outbox, told) {
    this.#link = link;
    this.#told = told;
    this.key = key;
    this.outbox = outbox;
    outbox.told = { changed: told.changed, settled: () => this.#refresh() };
    const own = (name, take) => this.#ends.push(link.on(name, (payload) => payload.sessionKey === key && take(payload)));
    own("session.message", (payload) => this.#message(payload.message));
    own("chat", (payload) => this.#chat(payload));
    own("agent", (payload) => this.#agent(payload));
    own("session.tool", (payload) => this.#agent(payload));
    own("sessions.changed", ({ reason }) => ["reset", "delete", "compact"].includes(reason) && this.#refresh());
    this.#ends.push(link.on("ready", () => this.load()), link.on("gap", () => this.load()));
    if (link.state === "open") this.load();
  }

  end() {
    clearTimeout(this.#settle);
    this.#asked += 1;
    this.outbox.told = null;
    for (const end of this.#ends) end();
    if (this.#link.state === "open") this.#link.call("sessions.messages.unsubscribe", { key: this.key }).catch(() => {});
  }

  // Everything anew.
  async load() {
    const asked = ++this.#asked;
    try {
      const { key } = await this.#link.call("sessions.messages.subscribe", { key: this.key });
      if (asked !== this.#asked) return;
      // Events name it so, and lists have it so.
      if (key !== this.key) return this.#told.named(key);
      // What waits is in the history when it is asked for.
      await this.outbox.flush();
      const sent = this.outbox.acknowledged();
      this.#fresh = [];
      this.#decided = new Set();
      const history = await this.#link.call("chat.history", { sessionKey: this.key, limit: this.#limit });
      if (asked === this.#asked) this.#take(history, sent);
    } catch (error) {
      if (asked === this.#asked && error.code !== "DISCONNECTED") this.#told.failed(error);
    }
  }

  async loadOlder() {
    if (!this.hasOlder) return;
    if (this.#limit >= PAGES_MAX) return this.#loadEarlier();
    this.#limit = Math.min(PAGES_MAX, this.#limit * 2);
    await this.load();
  }

  async #loadEarlier() {
    const id = this.#sessionId;
    const seq = seqOf(this.messages.find(seqOf));
    try {
      const page = await get(this.#link, `sessions/${encodeURIComponent(this.key)}/history?limit=${EARLIER}&cursor=${seq}`);
      // It may have begun anew meanwhile.
      if (id !== this.#sessionId || seq !== seqOf(this.messages.find(seqOf))) return;
      this.messages.unshift(...page.messages);
      for (const message of page.messages) this.#result(message);
      this.hasOlder = this.#hasEarlier = page.hasMore;
    } catch (error) {
      // Until the history comes again.
      this.hasOlder = false;
      this.#told.failed(error);
    }
  }

  abort() {
    return this.#link.call("chat.abort", { sessionKey: this.key });
  }

  // A message, whole where the history has a part of it.
  async entire(message) {
    const { truncated, id } = message.__openclaw ?? {};
    return truncated ? this.whole(id) : message;
  }

  // One message whole, pictures included.
  async whole(id) {
    const answer = await this.#link.call("chat.message.get", { sessionKey: this.key, messageId: id });
    if (!answer.ok) throw new Error(`This message cannot be shown: ${answer.unavailableReason}`);
    const at = this.messages.findIndex((message) => idOf(message) === id);
    if (at >= 0) this.messages[at] = answer.message;
    this.#result(answer.message);
    return answer.message;
  }

  #refresh() {
    clearTimeout(this.#settle);
    this.#settle = setTimeout(() => this.#link.state === "open" && this.load(), SETTLE_MS);
  }

  #take(history, sent) {
    const known = new Map(this.messages.map((message) => [idOf(message), message]));
    // Begun anew, it has nothing of what was said before.
    const isSame = !this.#sessionId || this.#sessionId === history.sessionId;
    const earlier = this.#earlier(history);
    // A message that was loaded whole stays so.
    this.messages = history.messages.map((message) => (message.__openclaw?.truncated && known.get(idOf(message))) || message);
    const listed = new Set(this.messages.map(idOf));
    this.messages.push(...(this.#fresh ?? []).filter((message) => !listed.has(idOf(message))));
    this.#fresh = null;
    if (isSame) for (const line of known.values()) if (isLine(line)) this.#putBack(line);
    this.thinkingLevel = history.thinkingLevel ?? "off";
    this.messages.unshift(...earlier);
    this.hasOlder = earlier.length > 0 ? this.#hasEarlier : history.messages.length >= this.#limit || seqOf(history.messages[0]) > 1;
    for (const message of this.messages) this.#result(message);
    this.outbox.drop(sent);
    this.#takeRun(history.activeRun);
    this.#decided = null;
    this.isLoaded = true;
    this.#told.changed();
  }

  // What was loaded of before a history, and still is what was before it: without a
  // hole between them, of what came while there was no connection.
  #earlier({ sessionId, messages: [first] }) {
    const isOther = sessionId !== this.#sessionId;
    this.#sessionId = sessionId;
    const isNext = !isOther && this.#limit >= PAGES_MAX && seqOf(first) > 1 && this.messages.some((message) => idOf(message) === idOf(first));
    if (!isNext) this.#hasEarlier = true;
    return isNext ? this.messages.filter((message) => seqOf(message) < seqOf(first)) : [];
  }

  #putBack(line) {
    const next = this.messages.findIndex((message) => message.timestamp > line.timestamp);
    this.messages.splice(next < 0 ? this.messages.length : next, 0, line);
  }

  #takeRun(active) {
    if (!active) {
      this.run = null;
      // A call without a result, and nobody at work on it.
      for (const tool of this.tools.values()) if (tool.status !== "done") tool.status = "lost";
      return;
    }
    const told = this.messages.filter((message) => message.role === "assistant" && message.timestamp >= active.startedAt);
    this.#before = told.map(textOf).join("");
    const text = active.text.startsWith(this.#before) ? active.text.slice(this.#before.length) : "";
    const isLonger = this.run?.runId === active.runId && text !== "" && this.run.text.startsWith(text);
    this.run = { ...active, text: isLonger ? this.run.text : text };
    const waiting = new Set(active.waitingCalls);
    for (const tool of this.tools.values()) {
      const isOpen = tool.status === "running" || tool.status === "blocked";
      if (isOpen && !this.#decided?.has(tool.id)) tool.status = waiting.has(tool.id) ? "blocked" : "running";
    }
  }

  // A result that is stored belongs to its call.
  #result(message) {
    if (message.role === "assistant") {
      for (const block of message.content ?? []) {
        if (block.type === "toolCall") this.#tool(block.id, { name: block.name, args: block.arguments, startedAt: message.timestamp });
      }
    }
    if (message.role !== "toolResult") return;
    const known = this.tools.get(message.toolCallId);
    const durationMs = known?.durationMs ?? (known?.startedAt ? message.timestamp - known.startedAt : undefined);
    const images = (message.content ?? []).filter((block) => block.type === "image");
    this.#tool(message.toolCallId, { name: message.toolName, output: textOf(message), isError: message.isError, status: "done", durationMs, images, messageId: idOf(message), isCut: message.__openclaw?.truncated === true });
  }

  #tool(id, change) {
    const known = this.tools.get(id) ?? { id, status: "running" };
    const given = Object.entries(change).filter(([name, value]) => value !== undefined && !(name === "startedAt" && known.startedAt));
    this.tools.set(id, Object.assign(known, Object.fromEntries(given)));
  }

  #message(message) {
    const id = idOf(message);
    if (message.role === "user") this.outbox.committed(textOf(message));
    if (id && this.messages.some((known) => idOf(known) === id && !known.__openclaw.pending)) return;
    const at = this.messages.findIndex((known) => idOf(known) === id);
    if (message.role === "assistant" && this.run) this.#commit(message);
    if (!id) this.messages.push({ ...message, __openclaw: { ...message.__openclaw, id: LINE + message.timestamp } });
    else if (at >= 0) this.messages.splice(at, 1);
    if (id) {
      this.messages.push(message);
      this.#fresh?.push(message);
    }
    this.#result(message);
    this.#told.changed();
  }

  // The answer so far has become a message.
  #commit(message) {
    const live = this.run.text;
    const cut = message.__openclaw?.truncated && message.content?.find?.((block) => block.type === "text");
    if (cut && live.startsWith(cut.text.slice(0, 1000))) {
      cut.text = live;
      delete message.__openclaw.truncated;
    }
    this.#before += live || textOf(message);
    this.run.text = "";
    this.run.note = null;
  }

  #begin(runId, startedAt) {
    if (this.run?.runId === runId) return;
    this.run = { runId, startedAt, text: "" };
    this.#before = "";
    this.failure = null;
  }

  #chat({ runId, state, message, errorMessage, takenInto, stopReason }) {
    if (state === "delta") {
      this.#begin(runId, message.timestamp);
      const whole = textOf(message);
      const text = whole.startsWith(this.#before) ? whole.slice(this.#before.length) : whole;
      if (text.length > this.run.text.length) this.run.text = text;
      return this.#told.changed();
    }
    this.outbox.ended(runId);
    if (state === "error") this.failure = errorMessage ?? "The run failed.";
    if (!takenInto && this.run?.runId === runId) {
      // The text stays until the message that holds it is there.
      this.run.isOver = true;
      if (state === "aborted") this.failure = stopReason === "timeout" ? "The run took too long and was stopped." : null;
    }
    this.#refresh();
    this.#told.changed();
  }

  #agent({ runId, stream, data, ts }) {
    if (stream === "lifecycle") return this.#lifecycle(runId, data);
    if (stream === "assistant") {
      this.#begin(runId, ts);
      if (data.text.length >= this.run.text.length || !this.run.text.startsWith(data.text)) this.run.text = data.text;
      this.run.note = null;
    } else if (stream === "tool") {
      this.#begin(runId, ts);
      this.#toolEvent(data, ts);
    } else if (stream === "item" && data.toolCallId) {
      const durationMs = data.endedAt ? data.endedAt - data.startedAt : undefined;
      this.#tool(data.toolCallId, { name: data.name, meta: data.meta, startedAt: data.startedAt, durationMs });
    } else if (stream === "approval") {
      // What becomes of a call that was denied, its result tells.
      this.#decided?.add(data.toolCallId);
      if (data.phase === "requested") this.#tool(data.toolCallId, { status: "blocked" });
      else if (data.status === "approved") this.#tool(data.toolCallId, { status: "running" });
    } else if (stream === "compaction") {
      if (this.run) this.run.note = data.phase === "start" ? "Summing up what is long ago…" : null;
    } else {
      return;
    }
    this.#told.changed();
  }

  #toolEvent(data, ts) {
    const text = (result) => (typeof result === "string" ? result : textOf(result ?? {}));
    const base = { name: data.name, meta: data.meta };
    if (data.phase === "start") this.#tool(data.toolCallId, { ...base, args: data.args, startedAt: ts });
    else if (data.phase === "update") this.#tool(data.toolCallId, { ...base, status: "running", output: text(data.partialResult) });
    else if (data.phase === "result") this.#tool(data.toolCallId, { ...base, status: "done", isError: data.isError, output: text(data.result) });
  }

  #lifecycle(runId, data) {
    if (data.phase === "start") this.#begin(runId, data.startedAt);
    else if (data.phase === "retry" && this.run) this.run.note = `The model did not answer (${data.error.slice(0, 200)}). Try ${data.attempt + 1} of ${data.maxAttempts + 1}…`;
    else if (data.phase === "fallback_step" && this.run && data.fallbackStepToModel) this.run.note = `${data.fallbackStepFromModel} failed; asking ${data.fallbackStepToModel}…`;
    this.#told.changed();
  }
}
