// The card of a call of a tool.

import { button, h, icon, replace } from "../dom.js";
import { duration } from "../format.js";
import { copyButton } from "../markdown.js";
import { failed } from "../toast.js";

// What is shown of a result; the rest is a button away.
const SHOWN_MAX = 4000;
const STATES = { running: "running", blocked: "waits for approval", done: "done", lost: "no result" };

// What it is about, in a line.
function subject({ meta, args }) {
  const first = meta ?? args?.command ?? args?.path ?? args?.query ?? args?.url ?? Object.values(args ?? {}).find((value) => typeof value === "string");
  return String(first ?? "").split("\n", 1)[0].slice(0, 200);
}

function argsText(args) {
  if (args === undefined) return null;
  if (typeof args === "string") return args;
  const [[name, only] = [], ...rest] = Object.entries(args);
  return name === "command" && rest.length === 0 && typeof only === "string" ? only : JSON.stringify(args, null, 2);
}

// A card that follows its call; `update()` after the call has changed.
export class ToolCard {
  element = h("details.tool");
  #tool;
  #pictures;
  #whole;
  // Labels of what is shown to its end.
  #all = new Set();
  #shown = "";
  #body = h("div.body");
  #head = h("summary");

  // pictures: makes elements of the pictures of a result. whole: loads a result that came
  // shortened, and resolves to its text.
  constructor(tool, pictures, whole) {
    this.#tool = tool;
    this.#pictures = pictures;
    this.#whole = whole;
    this.element.append(this.#head, this.#body);
    this.element.addEventListener("toggle", () => this.#fill());
    this.update();
  }

  update() {
    const { name, status, isError, durationMs } = this.#tool;
    const state = isError ? "failed" : (STATES[status] ?? status);
    const shown = JSON.stringify([name, subject(this.#tool), state, durationMs, this.#tool.output?.length]);
    if (shown === this.#shown) return;
    this.#shown = shown;
    const isBusy = status === "running";
    this.element.dataset.state = isError ? "failed" : status;
    const mark = isBusy ? h("span.spin") : icon("tool");
    const took = status === "done" && durationMs !== undefined ? h("span.took", {}, duration(durationMs)) : null;
    const word = status === "done" && !isError ? h("span.sr-only", {}, state) : h("span.badge", { class: isError ? "bad" : status === "blocked" ? "warn" : "" }, state);
    replace(this.#head, mark, h("span.name", {}, name ?? "tool"), h("span.subject", {}, subject(this.#tool)), word, took);
    this.#fill();
  }

  #fill() {
    if (!this.element.open) return;
    const { args, output, isError, status, images, isCut, messageId } = this.#tool;
    const given = argsText(args);
    const label = isError ? "Error" : status === "running" ? "Output so far" : "Result";
    const at = this.#body.lastElementChild?.querySelector("pre")?.scrollTop;
    replace(this.#body, given ? this.#part("Arguments", given) : null, output ? this.#part(label, output, isCut && (() => this.#whole(messageId))) : h("p.small.muted", {}, status === "running" ? "No output yet." : status === "lost" ? "The run ended before there was a result." : "No output."), images?.length ? this.#pictures(images, messageId) : null);
    const last = this.#body.lastElementChild?.querySelector("pre");
    if (last && at) last.scrollTop = at;
  }

  // whole: loads what is missing of the text, if anything is.
  #part(label, text, whole) {
    const isAll = this.#all.has(label);
    const show = async () => {
      await (whole && whole());
      this.#all.add(label);
      this.#fill();
    };
    const more = (whole || (!isAll && text.length > SHOWN_MAX)) && button(whole ? "Show all of it" : `Show all ${text.length} characters`, { class: "plain small", onclick: () => show().catch(failed) });
    return h("div.part", {}, h("div.bar", {}, h("span", {}, label), copyButton(`Copy ${label.toLowerCase()}`, whole || (() => text))), h("pre", { tabindex: "0", "aria-label": label }, h("code", {}, isAll ? text : text.slice(0, SHOWN_MAX))), more);
  }
}
