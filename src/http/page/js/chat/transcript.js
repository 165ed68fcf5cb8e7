// The messages of a conversation on the screen.

import { button, h, place, replace } from "../dom.js";
import { duration } from "../format.js";
import { Markdown } from "../markdown.js";
import { textOf } from "./conversation.js";
import { dayOf, daySeparator, Messages, stopped } from "./messages.js";

// As near to the end as this counts as being there.
const NEAR_PX = 48;
// Older messages are loaded this far before the beginning is reached.
const AHEAD_PX = 400;

const isOfUser = ({ role }) => role === "user";

export class Transcript {
  element;
  #conversation;
  #messages;
  #list = h("div.messages", { role: "log", "aria-label": "Conversation", "aria-live": "polite" });
  #scroller;
  #jump = button("Latest", { icon: "down", class: "jump", hidden: true, onclick: () => this.toEnd() });
  #older = button("Older messages", { class: "plain small older", onclick: () => this.#loadOlder() });
  #live = new Markdown();
  #note = h("p.working");
  #liveElement = h("article.message.assistant.live", { "aria-label": "Assistant, answering", "aria-live": "off" }, this.#live.element, this.#note);
  #days = new Map();
  #today = null;
  #waiting = new Map();
  #isAtEnd = true;
  #isLoading = false;
  #frame = null;
  #clock = null;
  #sizes;
  #told;

  // told: {empty(), what is shown of a conversation without messages; row(), the session
  // in the list; askAgain(message), resolves when that is done}.
  constructor(conversation, told) {
    this.#conversation = conversation;
    this.#messages = new Messages(conversation);
    this.#told = told;
    this.#scroller = h("div.scroller", { tabindex: "-1" }, this.#list);
    this.element = h("div.transcript", {}, this.#scroller, this.#jump);
    this.#scroller.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    this.#clock = setInterval(() => this.#step(), 1000);
    // Who opens something wants to read it where it is.
    this.#list.addEventListener("click", (event) => {
      if (!event.target.closest("summary")) return;
      this.#isAtEnd = false;
      requestAnimationFrame(() => requestAnimationFrame(() => this.#scrolled()));
    });
    // Pictures and opened cards grow after they were placed.
    this.#sizes = new ResizeObserver(() => this.#isAtEnd && this.#stick());
    this.#sizes.observe(this.#list);
    this.#sizes.observe(this.#scroller);
  }

  end() {
    clearInterval(this.#clock);
    this.#sizes.disconnect();
    cancelAnimationFrame(this.#frame);
  }

  // Draws soon, once for all changes of a moment.
  update() {
    if (this.#frame !== null) return;
    const draw = () => {
      this.#frame = null;
      this.#draw();
    };
    // A hidden page is given no frames.
    this.#frame = document.hidden ? setTimeout(draw, 100) : requestAnimationFrame(draw);
  }

  toEnd() {
    this.#isAtEnd = true;
    this.#stick();
  }

  #stick() {
    this.#scroller.scrollTop = this.#scroller.scrollHeight;
    this.#jump.hidden = true;
  }

  #scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.#scroller;
    this.#isAtEnd = scrollHeight - scrollTop - clientHeight < NEAR_PX;
    this.#jump.hidden = this.#isAtEnd;
    if (scrollTop < AHEAD_PX && this.#conversation.hasOlder) this.#loadOlder();
  }

  async #loadOlder() {
    if (this.#isLoading) return;
    this.#isLoading = true;
    await this.#conversation.loadOlder();
    this.#draw();
    this.#isLoading = false;
  }

  // The first message that is seen.
  #read() {
    const { top } = this.#scroller.getBoundingClientRect();
    return [...this.#list.querySelectorAll(":scope > :is(article, .note)")].find((one) => one.getBoundingClientRect().bottom > top);
  }

  // What is read stays where it is, whatever comes above it.
  #draw() {
    const conversation = this.#conversation;
    const read = this.#isAtEnd ? null : this.#read();
    const before = read?.getBoundingClientRect().top;
    this.#messages.update();
    const wanted = [...this.#history(), ...this.#ofRun(), ...this.#ofOutbox()];
    wanted.push(...(conversation.failure ? [this.#failure(conversation.failure)] : this.#ending()));
    if (wanted.length === 0 && conversation.isLoaded) wanted.push(this.#told.empty());
    if (conversation.hasOlder) wanted.unshift(this.#older);
    place(this.#list, wanted);
    this.#scroller.setAttribute("aria-busy", String(!conversation.isLoaded));
    if (this.#isAtEnd) return this.#stick();
    const moved = read?.isConnected ? read.getBoundingClientRect().top - before : 0;
    if (moved !== 0) this.#scroller.scrollTop += moved;
  }

  #step() {
    this.#work();
    if (this.#today !== dayOf(Date.now())) this.update();
  }

  *#history() {
    const today = dayOf(Date.now());
    // "Today" has become another day.
    if (today !== this.#today) this.#days.clear();
    this.#today = today;
    let day = null;
    for (const message of this.#conversation.messages) {
      if (message.role === "toolResult") continue;
      const own = dayOf(message.timestamp);
      if (own !== day) {
        day = own;
        if (!this.#days.has(own)) this.#days.set(own, daySeparator(message.timestamp));
        yield this.#days.get(own);
      }
      yield this.#messages.element(message);
    }
  }

  *#ofRun() {
    const { run } = this.#conversation;
    if (!run || (run.isOver && !run.text)) {
      this.#live.set("");
      return;
    }
    if (this.#live.text !== run.text) this.#live.set(run.text, true);
    this.#work();
    yield this.#liveElement;
  }

  // What it does while it says nothing.
  #work() {
    const { run, tools } = this.#conversation;
    if (!run) return;
    const isBusy = [...tools.values()].some((tool) => tool.status === "running" || tool.status === "blocked");
    const took = Date.now() - run.startedAt;
    this.#note.hidden = run.isOver || (run.text !== "" && !run.note) || (isBusy && !run.note);
    const text = run.note ?? (took > 5000 ? `Working, ${duration(took)}` : "Working");
    if (this.#note.textContent !== text) replace(this.#note, h("span.dots", { "aria-hidden": "true" }, h("i"), h("i"), h("i")), text);
  }

  *#ofOutbox() {
    const items = this.#conversation.outbox.items.filter((item) => !item.isCommitted);
    for (const id of [...this.#waiting.keys()]) if (!items.some((item) => item.id === id)) this.#waiting.delete(id);
    for (const item of items) {
      if (!this.#waiting.has(item.id)) this.#waiting.set(item.id, this.#waitingMessage(item));
      const { element, state } = this.#waiting.get(item.id);
      state.textContent = item.state === "waiting" ? "Waits for the connection" : item.state === "sending" ? "Sending…" : "Waits for its turn";
      yield element;
    }
  }

  #waitingMessage({ text, attachments }) {
    const state = h("span");
    const files = attachments.map(({ url, fileName }) => (url ? h("img", { src: url, alt: fileName }) : h("span.badge", {}, fileName)));
    const bubble = h("div.bubble", {}, files.length > 0 ? h("div.pictures", {}, files) : null, text ? h("div.plain-text", {}, text) : null);
    return { element: h("article.message.user.pending", { "aria-label": "You" }, bubble, h("div.foot", {}, state)), state };
  }

  // A run that was stopped, or whose gateway was killed, leaves a message without an answer.
  *#ending() {
    const { messages, run, outbox, isLoaded } = this.#conversation;
    const { hasActiveRun, status, endedAt } = this.#told.row();
    const { role, stopReason, timestamp } = messages.at(-1) ?? {};
    const isOpen = role === "user" || role === "toolResult" || stopReason === "toolUse";
    // What was said after its end is about to be answered.
    if (!isLoaded || run || hasActiveRun || outbox.items.length > 0 || status === "done" || !isOpen || !(timestamp <= endedAt)) return;
    this.#again.hidden = !messages.some(isOfUser);
    yield role === "user" || status === "failed" ? this.#unanswered : this.#stopped;
  }

  #again = button("Ask again", { onclick: () => this.#askAgain() });
  #unanswered = h("div.notice.warn.row.wrap", {}, h("span.grow", {}, "This was not answered: the run ended before."), this.#again);
  #stopped = stopped();

  async #askAgain() {
    this.#again.disabled = true;
    await this.#told.askAgain(this.#conversation.messages.findLast(isOfUser));
    this.#again.disabled = false;
  }

  #failed = h("div.notice.bad", { role: "alert" });

  // Only where the conversation does not tell it.
  #failure(text) {
    const last = this.#conversation.messages.at(-1);
    const isTold = last?.stopReason === "error" || (last && textOf(last) === text);
    this.#failed.hidden = isTold;
    if (this.#failed.textContent !== text) this.#failed.textContent = text;
    return this.#failed;
  }
}
