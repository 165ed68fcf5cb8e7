// What was written here and is not in the conversation yet. Each message keeps
// its key until the gateway has said that it has it, so that it can be sent again
// after a lost connection and is still there once.

import { recall, remember } from "../store.js";

const WAITING_MAX = 50;

// Also where `randomUUID` is not: on a page by plain http from another machine.
const newId = () => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

export class Outbox {
  // {id, text, attachments, at, state: "waiting" | "sending" | "sent", isCommitted}
  items = [];

  #link;
  #key;
  #told;
  #store;
  #isEnded = false;

  // told: {changed(), settled(), refused(error, item)}; settled: something is to be
  // asked again.
  constructor(link, key, told) {
    this.#link = link;
    this.#key = key;
    this.#told = told;
    this.#store = `clawgate.outbox.${key}`;
    this.items = recall(sessionStorage, this.#store, []).map((item) => ({ ...item, state: "waiting", attachments: [] }));
  }

  end() {
    this.#isEnded = true;
  }

  // Sends a message, now or when the connection is back.
  async send(text, attachments) {
    if (this.items.length >= WAITING_MAX) return this.#told.refused(new Error(`${WAITING_MAX} messages wait already.`), { text, attachments });
    const item = { id: newId(), text, attachments, at: Date.now(), state: "waiting" };
    this.items.push(item);
    this.#keep();
    this.#told.changed();
    if (this.#link.state === "open") await this.#pass(item);
  }

  // Sends what waits, in its order.
  async flush() {
    for (const item of this.items.filter((item) => item.state === "waiting")) await this.#pass(item);
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

  async #pass(item) {
    item.state = "sending";
    const { id, text, attachments } = item;
    const params = { sessionKey: this.#key, message: text, idempotencyKey: id };
    if (attachments.length > 0) params.attachments = attachments.map(({ type, mimeType, fileName, content, uploadId }) => ({ type, mimeType, fileName, ...(uploadId ? { uploadId } : { content }) }));
    try {
      await this.#link.call("chat.send", params);
      item.state = "sent";
      if (item.isCommitted) this.#without((other) => other === item);
      this.#keep();
      this.#told.changed();
    } catch (error) {
      if (error.code === "DISCONNECTED" || error.code === "TIMEOUT") {
        // Nobody knows whether it came; the key makes sure that it comes once.
        item.state = "waiting";
        this.#told.changed();
      } else {
        this.#without((other) => other === item);
        this.#told.refused(error, item);
      }
      this.#told.settled();
    }
  }

  #without(isGone) {
    this.items = this.items.filter((item) => !isGone(item));
    this.#keep();
    this.#told.changed();
  }

  // Survives a reload of the page, without its files.
  #keep() {
    if (this.#isEnded) return;
    const kept = this.items.filter((item) => item.state !== "sent" && item.attachments.length === 0);
    remember(sessionStorage, this.#store, kept.length > 0 ? kept.map(({ id, text, at }) => ({ id, text, at })) : undefined);
  }
}
