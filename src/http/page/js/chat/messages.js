// Messages as elements. Each is made once and kept by its id.

import { button, h, icon, openDialog, replace } from "../dom.js";
import { bytes, compact, dateTime, money, time } from "../format.js";
import { copyButton, Markdown } from "../markdown.js";
import { failed } from "../toast.js";
import { textOf } from "./conversation.js";
import { ToolCard } from "./tools.js";

const DAY = new Intl.DateTimeFormat(undefined, { weekday: "long", day: "numeric", month: "long" });

export const dayOf = (ms) => new Date(ms).toDateString();

export function daySeparator(ms) {
  const now = Date.now();
  const name = dayOf(ms) === dayOf(now) ? "Today" : dayOf(ms) === dayOf(now - 86_400_000) ? "Yesterday" : DAY.format(ms);
  return h("div.day", { role: "separator" }, h("span", {}, name));
}

export const stopped = () => h("p.small.muted", {}, "Stopped.");

const shortTime = (ms) => h("time", { datetime: new Date(ms).toISOString(), title: dateTime(ms) }, time(ms));

function dataUrl({ data, mimeType, source }) {
  const [type, content] = [mimeType ?? source?.media_type, data ?? source?.data];
  return /^image\/(?:png|jpeg|gif|webp)$/.test(type ?? "") && content ? `data:${type};base64,${content}` : null;
}

// What the gateway writes of pictures that came without a word, and of an answer.
const NO_WORDS = "[User sent media without caption]";
const NO_ANSWER = "[assistant turn failed before producing content]";

// The gateway writes the paths of files before a message, and their text after it.
export function split(whole) {
  if (whole === NO_WORDS) return { text: "", files: [] };
  let text = whole.replace(/^\[media attached: \d+ files\]\n/, "");
  const files = [];
  for (let head; (head = /^\[media attached[^:\n]{0,20}: ([^\n]{1,4000}?) \([^()\n]{1,200}\)[^\]\n]{0,4000}\]\n?/.exec(text)); text = text.slice(head[0].length)) files.push(head[1]);
  const at = files.length > 0 ? text.indexOf('\n<file name="') : -1;
  return at < 0 ? { text, files } : { text: text.slice(0, at).trim(), files, contents: text.slice(at + 1) };
}

// "table.csv" of "…/table---<id>.csv".
const fileName = (path) => path.split("/").at(-1).replace(/---[0-9a-f-]{36}/, "");

const imagesIn = ({ content }) => (Array.isArray(content) ? content.filter((block) => block.type === "image") : []);

// What came with a message, as people call it.
export function namesOfFiles(message) {
  const paths = message.MediaPaths ?? split(textOf(message)).files;
  return paths.length === 0 && imagesIn(message).length > 0 ? ["the picture"] : paths.map(fileName);
}

// "812 in · 40 out · $0.0012 · mock-1".
function usageLine({ usage, model, provider }) {
  if (!usage || provider === "openclaw") return null;
  const parts = [];
  if (usage.totalTokens) parts.push(`${compact((usage.input ?? 0) + (usage.cacheRead ?? 0) + (usage.cacheWrite ?? 0))} in`, `${compact(usage.output ?? 0)} out`);
  if (usage.cost?.total) parts.push(money(usage.cost.total));
  if (model) parts.push(model);
  return h("span.usage", { title: provider ? `${provider}/${model}` : null }, parts.join(" · "));
}

export class Messages {
  #conversation;
  #kept = new Map();
  #cards = new Map();
  #pictures = new Map();

  constructor(conversation) {
    this.#conversation = conversation;
  }

  // The element of a message; the same one each time.
  element(message) {
    const id = message.__openclaw?.id;
    const kept = this.#kept.get(id);
    if (kept?.message === message || (kept && !kept.isPending && !kept.message.__openclaw.truncated)) return kept.element;
    const element = this.#make(message);
    this.#kept.set(id, { message, element, isPending: message.__openclaw?.pending === true });
    return element;
  }

  card(id) {
    const tool = this.#conversation.tools.get(id);
    if (!this.#cards.has(id)) this.#cards.set(id, new ToolCard(tool, (images, messageId) => this.#images(images, messageId), async (messageId) => textOf(await this.#conversation.whole(messageId))));
    const card = this.#cards.get(id);
    card.update();
    return card.element;
  }

  update() {
    for (const card of this.#cards.values()) card.update();
  }

  #make(message) {
    const { role } = message;
    if (role === "user") return this.#user(message);
    if (role === "assistant") return this.#assistant(message);
    if (message.__openclaw?.kind === "compaction") return h("div.day.mark", { role: "separator" }, h("span", {}, "What is above was summed up for the model"));
    const text = textOf(message);
    return text ? h("div.note", {}, text) : h("div", { hidden: true });
  }

  #user(message) {
    const { text, files, contents } = split(textOf(message));
    const images = this.#imagesOf(message);
    const isPending = message.__openclaw?.pending;
    const foot = h("div.foot", {}, isPending ? h("span", {}, "Waits for its turn") : shortTime(message.timestamp), text ? this.#copy(message, (whole) => split(whole).text) : null);
    return h("article.message.user", { "aria-label": "You", class: isPending ? "pending" : null }, h("div.bubble", {}, images, text ? h("div.plain-text", {}, text) : null, files.length > 0 ? h("div.row.wrap", {}, files.map((file) => h("span.badge", { title: file }, fileName(file)))) : null, contents ? h("details.contents", {}, h("summary", {}, "What the model was given of it"), h("div.plain-text.small", {}, contents)) : null, this.#more(message)), foot);
  }

  #assistant(message) {
    const content = typeof message.content === "string" ? [{ type: "text", text: message.content }] : (message.content ?? []);
    const isError = message.stopReason === "error";
    const why = isError ? (message.errorMessage ?? textOf(message)) : null;
    // What was said before it failed stays; why it did is said once.
    const said = isError ? content.filter((block) => block.type !== "text" || (message.errorMessage && block.text !== why && block.text !== NO_ANSWER)) : content;
    const parts = said.map((block) => this.#block(block));
    const text = textOf({ content: said });
    if (isError) parts.push(h("div.notice.bad", {}, why));
    else if (message.stopReason === "aborted") parts.push(stopped());
    const isAnswer = text && message.stopReason !== "toolUse";
    const foot = isAnswer || isError ? h("div.foot", {}, shortTime(message.timestamp), usageLine(message), isAnswer ? this.#copy(message, (whole) => whole) : null) : null;
    return h("article.message.assistant", { "aria-label": "Assistant" }, parts, this.#imagesOf(message), this.#more(message), foot);
  }

  // A button that copies a message; `pick` takes what is wanted of its text.
  #copy(message, pick) {
    return copyButton("Copy message", async () => pick(textOf(await this.#conversation.entire(message))));
  }

  #block(block) {
    if (block.type === "text") return block.text ? new Markdown(block.text).element : null;
    if (block.type === "thinking") return thinking(block.thinking);
    if (block.type === "toolCall") return this.card(block.id);
    return null;
  }

  // A button for what the list leaves out.
  #more(message) {
    const { truncated, id, reason } = message.__openclaw ?? {};
    if (!truncated) return null;
    const show = button(reason === "oversized" ? "Show this large message" : "Show all of it", { class: "plain small" });
    show.addEventListener("click", async () => {
      show.disabled = true;
      try {
        const whole = await this.#conversation.whole(id);
        show.closest("article").replaceWith(this.element(whole));
      } catch (error) {
        show.disabled = false;
        failed(error);
      }
    });
    return show;
  }

  #imagesOf(message) {
    const images = imagesIn(message);
    return images.length > 0 ? this.#images(images, message.__openclaw?.id) : null;
  }

  #images(images, messageId) {
    return h("div.pictures", {}, images.map((image, index) => this.#image(image, messageId, index)));
  }

  #image(image, messageId, index) {
    const frame = h("div.picture");
    const show = (url) => replace(frame, h("button.plain", { type: "button", "aria-label": "Enlarge picture", onclick: () => enlarge(url) }, h("img", { src: url, alt: "Picture in this message" })));
    const url = dataUrl(image) ?? this.#pictures.get(`${messageId} ${index}`);
    if (url) return show(url), frame;
    const open = async () => {
      replace(frame, h("span.spin"));
      try {
        const answer = await this.#conversation.whole(messageId);
        const whole = answer.content.filter((block) => block.type === "image")[index];
        const found = whole && dataUrl(whole);
        if (!found) throw new Error("This picture cannot be shown.");
        this.#pictures.set(`${messageId} ${index}`, found);
        show(found);
      } catch (error) {
        offer();
        failed(error);
      }
    };
    const offer = () => replace(frame, button(`Show picture (${bytes((image.bytes ?? 0) * 0.75)})`, { class: "small", onclick: open }));
    offer();
    const watch = new IntersectionObserver(([entry]) => {
      if (!entry.isIntersecting) return;
      watch.disconnect();
      open();
    });
    watch.observe(frame);
    return frame;
  }
}

function enlarge(url) {
  openDialog("Picture", (close) => [h("img.large", { src: url, alt: "Picture in this message" }), h("div.actions", {}, button("Close", { onclick: () => close() }))]);
}

function thinking(text) {
  if (!text?.trim()) return null;
  const made = new Markdown();
  const details = h("details.thinking", {}, h("summary", {}, icon("down"), "Thinking"), made.element);
  details.addEventListener("toggle", () => details.open && made.set(text), { once: true });
  return details;
}
