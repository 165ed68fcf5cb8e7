// What was written here and is not in the conversation yet. Each message keeps
// its key until the gateway has said that it has it, so that it can be sent again
// after a lost connection and is still there once.
//
// It sends whether anybody looks at its session or not, one message at a time: they
// arrive in the order in which they were written.

import { recall, remember, session } from "../store.js";

const WAITING_MAX = 50;
// A gateway that does not answer is asked again after this long.
const AGAIN_MS = 1000;
// Before the key of a session.
export const STORED = "clawgate.outbox.";

// Also where `randomUUID` is not: on a page by plain http from another machine.
const newId = () => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

export class Outbox {
  // {id, text, attachments, at, state: "waiting" | "sending" | "sent", isCommitted}
  items = [];
  // Who shows the session: {changed(), settled()}, or nobody; settled: something is
  // to be asked again.
  told = null;

  #link;
  #key;
  #refused;
  #isAtWork = false;
  #work = null;

  // refused(error, item): told of a message that the gateway does not take.
  constructor(link, key, refused) {
    this.#link = link;
    this.#key = key;
    this.#refused = refused;
    this.items = recall(session, STORED + key, []).map((item) => ({ ...item, state: "waiting", attachments: [] }));
  }

  // Sends a message, now or when the connection is back.
  send(text, attachments) {
    if (this.items.length >= WAITING_MAX) return this.#refused(new Error(`${WAITING_MAX} messages wait already.`), { text, attachments });
    this.items.push({ id: newId(), text, attachments, at: Date.now(), state: "waiting" });
    this.#changed();
    this.flush();
  }

  // Sends what waits; resolves when nothing can be sent any more.
  flush() {
    if (!this.#isAtWork) this.#work = this.#pass();
    return this.#work;
  }

  // Ids of what the gateway has: it is in a history that is asked for from now on.
  acknowledged() {
    return new Set(this.items.filter((item) => item.state === "sent").map((item) => item.id));
  }

  drop(ids) {
    this.#without((item) => ids.has(item.id));
  }

  // A message of this text has come into the conversation: ours, as far as the
  // wire tells. It is no longer shown here.
  committed(text) {
    const open = this.items.filter((item) => !item.isCommitted);
    const said = text.trim();
    // Files and switches such as /think make another text of it.
    const isPart = (one) => one !== "" && said !== "" && (said.includes(one) || one.includes(said));
    const item = open.find((item) => item.text.trim() === said) ?? open.find((item) => isPart(item.text.trim()));
    if (!item) return;
    item.isCommitted = true;
    if (item.state === "sent") this.#without((other) => other === item);
  }

  ended(runId) {
    this.#without((item) => item.id === runId && item.state === "sent");
  }

  async #pass() {
    this.#isAtWork = true;
    try {
      for (;;) {
        const item = this.items.find(({ state }) => state === "waiting");
        const { state, isStopping } = this.#link;
        if (!item || state !== "open" || isStopping || !(await this.#send(item))) return;
      }
    } finally {
      this.#isAtWork = false;
    }
  }

  // Whether the next one may follow.
  async #send(item) {
    item.state = "sending";
    this.told?.changed();
    const { id, text, attachments } = item;
    const params = { sessionKey: this.#key, message: text, idempotencyKey: id };
    if (attachments.length > 0) params.attachments = attachments.map(({ type, mimeType, fileName, content, uploadId }) => ({ type, mimeType, fileName, ...(uploadId ? { uploadId } : { content }) }));
    try {
      await this.#link.call("chat.send", params);
      item.state = "sent";
      // Who looks later finds it in the history.
      if (item.isCommitted || !this.told) this.#without((other) => other === item);
      else this.#changed();
      return true;
    } catch (error) {
      const isLost = error.code === "DISCONNECTED" || error.code === "TIMEOUT" || (error.code === "UNAVAILABLE" && this.#link.isStopping);
      if (isLost) {
        // It did not come, or nobody knows whether it did; the key makes sure that it comes once.
        item.state = "waiting";
        this.told?.changed();
        if (error.code === "TIMEOUT") setTimeout(() => this.flush(), AGAIN_MS);
      } else {
        this.#without((other) => other === item);
        this.#refused(error, item);
      }
      this.told?.settled();
      return !isLost;
    }
  }

  #without(isGone) {
    this.items = this.items.filter((item) => !isGone(item));
    this.#changed();
  }

  // What waits survives a reload of the page, without its files.
  #changed() {
    const kept = this.items.filter((item) => item.state !== "sent" && item.attachments.length === 0);
    remember(session, STORED + this.#key, kept.length > 0 ? kept.map(({ id, text, at }) => ({ id, text, at })) : undefined);
    this.told?.changed();
  }
}
