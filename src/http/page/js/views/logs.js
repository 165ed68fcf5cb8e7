// The log of the gateway as it is written.

import { copy, download } from "../clipboard.js";
import { button, h, replace } from "../dom.js";
import { asText, parse, row } from "../logs/line.js";

const AGAIN_MS = 1000;
// Lines that are remembered, for searching, and of those the ones that are shown.
const KEPT = 5000;
const SHOWN = 1500;
const LEVELS = ["trace", "debug", "info", "warn", "error"];
// So near to the end counts as being there.
const NEAR_PX = 40;

class Logs {
  #link;
  #entries = [];
  #cursor;
  #timer;
  #isAsking = false;
  #hidden = new Set();
  #words = "";
  #isFollowing = true;
  #lines = h("div.lines", { role: "log", "aria-label": "Lines", "aria-live": "off", tabindex: "0", onscroll: () => this.#scrolled() });
  #file = h("span.muted.small.ellipsis.grow");
  #count = h("span.muted.small.nowrap", { role: "status" });

  constructor(root, { link }) {
    this.#link = link;
    const search = h("input", { type: "search", placeholder: "Search", "aria-label": "Search the log", oninput: () => this.#search(search.value) });
    const levels = LEVELS.map((level) => button(level, { class: "level-button", "data-level": level, "aria-pressed": "true", onclick: ({ currentTarget }) => this.#level(level, currentTarget) }));
    this.follow = button("Follow", { icon: "down", "aria-pressed": "true", onclick: () => this.#follow(!this.#isFollowing) });
    const wrap = button("Wrap", { "aria-pressed": "true", onclick: () => wrap.setAttribute("aria-pressed", String(this.#lines.classList.toggle("wraps"))) });
    this.#lines.classList.add("wraps");
    const out = [
      button("Copy", { icon: "copy", onclick: () => copy(this.#seen().map(asText).join("\n"), "The lines that are shown are copied") }),
      button("Download", { onclick: () => download(`clawgate-${new Date().toISOString().slice(0, 19).replaceAll(":", "")}.log`, this.#seen().map(({ raw }) => `${raw}\n`).join("")) }),
      button("Clear", { onclick: () => this.#clear() }),
    ];
    const bar = h("div.row.wrap.small-buttons", {}, search, h("div.row.levels", { role: "group", "aria-label": "Levels" }, levels), h("span.grow"), this.follow, wrap, out);
    replace(root, h("div.logs", {}, h("header.row.wrap", {}, h("h1", {}, "Logs"), this.#file, this.#count), bar, this.#lines));
    const wake = () => document.visibilityState === "visible" && this.#ask();
    document.addEventListener("visibilitychange", wake);
    const size = new ResizeObserver(() => this.#toEnd());
    size.observe(this.#lines);
    this.ends = [() => size.disconnect(), link.on("ready", () => this.#ask()), () => document.removeEventListener("visibilitychange", wake)];
    this.#draw();
    this.#ask();
  }

  leave() {
    this.#link = null;
    clearTimeout(this.#timer);
    for (const end of this.ends) end();
  }

  // Asks for what came since the last answer, and again in a second, while
  // somebody can see it. The cursor holds over other files and other processes.
  async #ask() {
    clearTimeout(this.#timer);
    if (this.#isAsking || this.#link?.state !== "open" || document.visibilityState !== "visible") return;
    this.#isAsking = true;
    let isMore = false;
    try {
      const tail = await this.#link.call("logs.tail", { limit: 1000, ...(this.#cursor === undefined ? {} : { cursor: this.#cursor }) });
      isMore = this.#cursor !== undefined && tail.cursor < tail.size;
      this.#take(tail);
    } catch (error) {
      if (error.code !== "DISCONNECTED") {
        this.#add([{ note: error.message }]);
        this.#timer = setTimeout(() => this.#ask(), AGAIN_MS * 10);
      }
      return;
    } finally {
      this.#isAsking = false;
    }
    if (this.#link) this.#timer = setTimeout(() => this.#ask(), isMore ? 0 : AGAIN_MS);
  }

  #take({ file, cursor, lines, truncated, reset }) {
    if (!this.#link) return;
    this.#file.textContent = this.#file.title = file;
    const notes = [];
    if (reset) notes.push({ note: "The lines before were removed; this is the log as it is now." });
    else if (truncated && this.#cursor === undefined) notes.push({ note: "Older lines are in the file." });
    this.#cursor = cursor;
    this.#add([...notes, ...lines.filter(Boolean).map(parse)]);
  }

  #add(entries) {
    if (entries.length === 0) return;
    this.#entries.push(...entries);
    this.#entries.splice(0, this.#entries.length - KEPT);
    const rows = entries.filter((entry) => this.#isSeen(entry)).slice(-SHOWN).map((entry) => row(entry, this.#words));
    this.#lines.querySelector(".empty")?.remove();
    this.#lines.append(...rows);
    this.#trim();
  }

  #trim() {
    while (this.#lines.childElementCount > SHOWN) this.#lines.firstElementChild.remove();
    const shown = this.#lines.querySelectorAll(".log").length;
    this.#count.textContent = `${shown} of ${this.#entries.filter(({ note }) => !note).length} lines`;
    if (shown === 0 && !this.#lines.firstElementChild) {
      this.#lines.append(h("p.empty", {}, this.#entries.length > 0 ? "No line fits. Change the search, or turn levels on." : "Waiting for the next line."));
    }
    this.#toEnd();
  }

  #toEnd() {
    if (this.#isFollowing) this.#lines.scrollTop = this.#lines.scrollHeight;
  }

  #isSeen({ note, level, part, message }) {
    if (note) return this.#words === "";
    if (this.#hidden.has(level === "fatal" ? "error" : level)) return false;
    return this.#words === "" || `${part} ${message}`.toLowerCase().includes(this.#words);
  }

  #seen() {
    return this.#entries.filter((entry) => !entry.note && this.#isSeen(entry)).slice(-SHOWN);
  }

  #draw() {
    replace(this.#lines, this.#entries.filter((entry) => this.#isSeen(entry)).slice(-SHOWN).map((entry) => row(entry, this.#words)));
    this.#trim();
  }

  #search(text) {
    this.#words = text.trim().toLowerCase();
    this.#draw();
  }

  #level(level, pressed) {
    const isOff = this.#hidden.has(level);
    if (isOff) this.#hidden.delete(level);
    else this.#hidden.add(level);
    pressed.setAttribute("aria-pressed", String(isOff));
    this.#draw();
  }

  #clear() {
    this.#entries = [];
    this.#draw();
  }

  #follow(isOn) {
    this.#isFollowing = isOn;
    this.follow.setAttribute("aria-pressed", String(isOn));
    this.#toEnd();
  }

  // Whoever scrolls up wants to read; at the end it goes on.
  #scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.#lines;
    const isAtEnd = scrollHeight - scrollTop - clientHeight < NEAR_PX;
    if (isAtEnd !== this.#isFollowing) this.#follow(isAtEnd);
  }
}

export const view = {
  id: "logs",
  title: "Logs",
  icon: "logs",
  mount(root, app) {
    const logs = new Logs(root, app);
    return { leave: () => logs.leave() };
  },
};
