// The menu of slash commands above the field.

import { h, replace } from "../dom.js";

const SHOWN_MAX = 8;

export class CommandMenu {
  element = h("ul.commands", { role: "listbox", id: "commands", "aria-label": "Commands", hidden: true });
  #link;
  #field;
  #all = [];
  #isAsked = false;
  #shown = [];
  #at = 0;
  #choose;

  // choose(text): puts a command into the field.
  constructor(link, field, choose) {
    this.#link = link;
    this.#field = field;
    this.#choose = choose;
    this.#load();
  }

  // Who types a slash before they are here sees them when they are; what failed is
  // asked again with the next letter.
  async #load() {
    if (this.#isAsked || this.#link.state !== "open") return;
    this.#isAsked = true;
    try {
      this.#all = (await this.#link.call("commands.list", { scope: "text" })).commands;
    } catch {
      this.#isAsked = false;
      return;
    }
    if (document.activeElement === this.#field) this.follow();
  }

  get isOpen() {
    return !this.element.hidden;
  }

  follow() {
    const word = /^\/(\S*)$/.exec(this.#field.value)?.[1]?.toLowerCase();
    if (word !== undefined) this.#load();
    const fits = ({ name, textAliases = [] }) => [`/${name}`, ...textAliases].some((alias) => alias.toLowerCase().startsWith(`/${word}`));
    this.#shown = word === undefined ? [] : this.#all.filter(fits).slice(0, SHOWN_MAX);
    this.#at = 0;
    this.#draw();
  }

  close() {
    this.#shown = [];
    this.#draw();
  }

  // Whether a key was meant for the menu.
  key(event) {
    if (!this.isOpen) return false;
    const { key } = event;
    const isWhole = this.#shown.some(({ textAliases = [] }) => textAliases.includes(this.#field.value));
    if (key === "ArrowDown" || key === "ArrowUp") {
      this.#at = (this.#at + (key === "ArrowDown" ? 1 : -1) + this.#shown.length) % this.#shown.length;
      this.#draw();
    } else if (key === "Tab" || (key === "Enter" && !isWhole)) this.#pick(this.#at);
    else if (key === "Escape") this.close();
    else return false;
    event.preventDefault();
    return true;
  }

  #pick(index) {
    const { name, textAliases, acceptsArgs } = this.#shown[index];
    this.close();
    this.#choose(`${textAliases?.[0] ?? `/${name}`}${acceptsArgs ? " " : ""}`);
  }

  #draw() {
    this.element.hidden = this.#shown.length === 0;
    if (this.isOpen) this.#field.setAttribute("aria-activedescendant", `command-${this.#at}`);
    else this.#field.removeAttribute("aria-activedescendant");
    const row = ({ name, textAliases, description }, index) =>
      h("li", { role: "option", id: `command-${index}`, "aria-selected": String(index === this.#at), onmousedown: (event) => (event.preventDefault(), this.#pick(index)) }, h("code", {}, textAliases?.[0] ?? `/${name}`), h("span.muted.ellipsis", {}, description));
    replace(this.element, this.#shown.map(row));
  }
}
