// What waits for a person: commands and the questions of plugins. Shown above
// every view until somebody has decided.

import { button, h } from "./dom.js";
import { duration } from "./format.js";
import { failed, toast } from "./toast.js";

const KINDS = ["exec", "plugin"];
const NAMES = { "allow-once": "Allow once", "allow-always": "Always allow", deny: "Deny" };
// Characters that are not seen, or that turn the text around them.
const HIDDEN = /(?!\n)[\p{Default_Ignorable_Code_Point}\p{Cf}\p{Cc}\p{Zl}\p{Zp}\u00a0\u1680\u2000-\u200a\u202f\u205f\u2800\u3000]/gu;

function written(char) {
  const code = char.codePointAt(0).toString(16);
  return code.length > 4 ? `\\u{${code}}` : `\\u${code.padStart(4, "0")}`;
}

// A text whose every character is seen.
export function plain(text) {
  const parts = [];
  let at = 0;
  for (const { 0: char, index } of text.matchAll(HIDDEN)) {
    parts.push(text.slice(at, index), h("mark.hidden-char", {}, written(char)));
    at = index + char.length;
  }
  return [...parts, text.slice(at)];
}

export class Approvals {
  #count = h("p.small", { role: "status", hidden: true });
  element = h("section.approvals", { "aria-label": "Approvals", hidden: true }, this.#count);
  #app;
  // By id: {kind, id, request, createdAtMs, expiresAtMs}, and their elements.
  #waiting = new Map();
  #cards = new Map();
  #ends = [];
  #clock = null;
  // What is told while the lists are on their way.
  #news = null;

  constructor(app) {
    this.#app = app;
    const { link } = app;
    for (const kind of KINDS) {
      this.#ends.push(link.on(`${kind}.approval.requested`, (asked) => this.#add(kind, asked)));
      this.#ends.push(link.on(`${kind}.approval.resolved`, ({ id }) => this.#remove(id)));
    }
    const load = () => this.#load().catch(failed);
    const title = () => this.#title();
    this.#ends.push(link.on("ready", load), link.on("gap", load));
    document.addEventListener("visibilitychange", title);
    this.#ends.push(() => document.removeEventListener("visibilitychange", title));
    // A key that is held down decides once.
    this.element.addEventListener("keydown", (event) => event.repeat && event.target.closest("button") && event.preventDefault());
    if (link.state === "open") load();
  }

  end() {
    clearInterval(this.#clock);
    for (const end of this.#ends) end();
    this.#waiting.clear();
    this.#title();
  }

  async #load() {
    const { link } = this.#app;
    const news = new Map();
    this.#news = news;
    const lists = await Promise.all(KINDS.map((kind) => link.call(`${kind}.approval.list`)));
    // Lists that were asked for later have all of it.
    if (this.#news !== news) return;
    this.#news = null;
    this.#waiting.clear();
    lists.forEach((list, at) => list.forEach((asked) => this.#waiting.set(asked.id, { kind: KINDS[at], ...asked })));
    for (const [id, asked] of news) {
      if (asked) this.#waiting.set(id, asked);
      else this.#waiting.delete(id);
    }
    this.#draw();
  }

  #add(kind, asked) {
    this.#waiting.set(asked.id, { kind, ...asked });
    this.#news?.set(asked.id, { kind, ...asked });
    this.#draw();
  }

  #remove(id) {
    this.#waiting.delete(id);
    this.#news?.set(id, null);
    this.#draw();
  }

  // No card that stays is moved: whoever is about to press a key on one would press it
  // on another.
  #draw() {
    const before = [...this.#cards];
    const held = before.findIndex(([, { element }]) => element.contains(document.activeElement));
    const stays = ([id]) => this.#waiting.has(id);
    const count = this.#waiting.size;
    for (const asked of this.#waiting.values()) {
      if (this.#cards.has(asked.id)) continue;
      const card = this.#card(asked);
      this.#cards.set(asked.id, card);
      this.element.append(card.element);
    }
    this.element.hidden = count === 0;
    // Whoever decides by keyboard goes on with the next one, and reads it first.
    if (held >= 0 && !stays(before[held])) {
      const next = before.slice(held).find(stays) ?? before.findLast(stays) ?? [...this.#cards].find(stays);
      (next?.[1].head ?? document.getElementById("main"))?.focus();
    }
    for (const [id, { element }] of before) {
      if (this.#waiting.has(id)) continue;
      element.remove();
      this.#cards.delete(id);
    }
    this.#count.hidden = count < 2;
    const text = `${count} decisions wait`;
    if (this.#count.textContent !== text) this.#count.textContent = text;
    this.#app.count("chat", count);
    clearInterval(this.#clock);
    if (count > 0) this.#clock = setInterval(() => this.#tick(), 1000);
    this.#tick();
    this.#title();
  }

  // The time that is left; what has run out is gone, as the gateway says soon.
  #tick() {
    for (const [id, { left }] of this.#cards) {
      const ms = this.#waiting.get(id).expiresAtMs - Date.now();
      left.textContent = ms > 0 ? `${duration(ms)} left` : "run out";
    }
  }

  // A number before the title while nobody looks.
  #title() {
    const bare = document.title.replace(/^\(\d+\) /, "");
    const count = this.#waiting.size;
    document.title = document.hidden && count > 0 ? `(${count}) ${bare}` : bare;
  }

  #card({ kind, id, request, expiresAtMs }) {
    const left = h("span.small.muted", {}, expiresAtMs ? "" : null);
    const titleText = kind === "exec" ? "A command waits for you" : plain(request.title ?? "A plugin asks");
    const facts = [["in", request.cwd], ["on", request.nodeId ?? request.host], ["agent", request.agentId], ["session", request.sessionKey], ["plugin", request.pluginId], ["tool", request.toolName]].filter(([, value]) => value);
    const lines = (request.warningText ?? "").split("\n");
    const warnings = [...new Set([...lines, ...(request.commandAnalysis?.warningLines ?? [])])].filter(Boolean);
    const text = kind === "exec" ? request.command : (request.description ?? "");
    const buttons = (request.allowedDecisions ?? Object.keys(NAMES)).map((decision) => button(NAMES[decision] ?? decision, { class: decision === "deny" ? "danger" : decision === "allow-once" ? "primary" : "", onclick: () => this.#decide(kind, id, decision, element) }));
    const name = `approval-${id}`;
    const head = h("h2.grow", { id: name, tabindex: "-1" }, titleText);
    const element = h("div.approval", { role: "group", "aria-labelledby": name }, h("div.row.wrap", {}, head, left), h("pre", { tabindex: "0", "aria-label": "What waits" }, h("code", {}, plain(text))), h("dl.facts", {}, facts.map(([label, value]) => h("div", {}, h("dt", {}, label), h("dd", {}, plain(String(value)))))), warnings.map((warning) => h("p.notice.warn.exact", {}, plain(warning))), h("div.row.wrap", {}, buttons));
    return { element, head, left };
  }

  async #decide(kind, id, decision, element) {
    // A button that is disabled loses the focus to nobody.
    if (element.contains(document.activeElement)) this.#cards.get(id)?.head.focus();
    const buttons = [...element.querySelectorAll("button")];
    for (const one of buttons) one.disabled = true;
    try {
      await this.#app.link.call(`${kind}.approval.resolve`, { id, decision });
      this.#remove(id);
    } catch (error) {
      for (const one of buttons) one.disabled = false;
      if (error.details?.reason === "APPROVAL_ALREADY_RESOLVED" || error.details?.reason === "APPROVAL_NOT_FOUND") this.#remove(id);
      else toast(error.message, "bad");
    }
  }
}
