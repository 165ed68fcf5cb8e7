// The list of sessions beside the chat.

import { button, h, place, replace } from "../dom.js";
import { relative } from "../format.js";
import { agentOf, title } from "../sessions.js";

// A button for those that are not listed, if there are any.
export function moreSessions(sessions, tag) {
  return sessions.left > 0 && h(tag, { style: { textAlign: "center" } }, button(`Show more sessions (${sessions.left} left)`, { class: "plain small", onclick: () => sessions.more() }));
}

export class SessionList {
  element;
  #sessions;
  #rows = h("ul", { "aria-label": "Sessions" });
  #search = h("input", { type: "search", placeholder: "Search sessions", "aria-label": "Search sessions" });
  #agent = h("select", { "aria-label": "Agent", hidden: true });
  #items = new Map();
  #current;
  #clock;
  #end;

  // told: {open(key), create(agentId)}.
  constructor(sessions, current, told) {
    this.#sessions = sessions;
    this.#current = current;
    this.#search.addEventListener("input", () => this.update());
    this.#agent.addEventListener("change", () => this.update());
    const create = button("New", { icon: "plus", title: "New session", onclick: () => told.create(this.#agent.value || undefined) });
    this.element = h("div.session-list", {}, h("div.row", {}, this.#search, create), this.#agent, this.#rows);
    this.#rows.addEventListener("click", (event) => {
      const key = event.target.closest("a")?.dataset.key;
      if (key) told.open(key);
    });
    this.#end = sessions.on(() => this.update());
    // Times get older by themselves.
    this.#clock = setInterval(() => this.update(), 30_000);
    this.update();
  }

  end() {
    clearInterval(this.#clock);
    this.#end();
  }

  show(key) {
    this.#current = key;
    this.update();
  }

  update() {
    this.#drawAgents();
    const wanted = this.#search.value.trim();
    const agent = this.#agent.value;
    const rows = this.#sessions.matching(wanted).filter((row) => !agent || agentOf(row.key) === agent);
    const focused = this.#rows.contains(document.activeElement) ? document.activeElement : null;
    const none = this.#sessions.isLoaded && rows.length === 0 ? h("li.empty", {}, wanted ? "No session like that." : "No sessions yet.") : null;
    // What is pressed on stays where it is: a click on what was put away meanwhile is none.
    place(this.#rows, [none, ...rows.map((row) => this.#row(row)), !wanted && moreSessions(this.#sessions, "li")].filter(Boolean));
    if (focused && focused !== document.activeElement) (focused.dataset.key ? this.#items.get(focused.dataset.key)?.element.querySelector("a") : this.#rows.querySelector("button"))?.focus({ preventScroll: true });
  }

  #drawAgents() {
    const { agents } = this.#sessions;
    this.#agent.hidden = agents.length < 2;
    if (this.#agent.options.length === agents.length + 1) return;
    const chosen = this.#agent.value;
    replace(this.#agent, h("option", { value: "" }, "All agents"), agents.map(({ id }) => h("option", { value: id }, this.#sessions.agentName(id))));
    this.#agent.value = chosen;
  }

  #row(row) {
    const isCurrent = row.key === this.#current;
    const isUnread = !isCurrent && this.#sessions.isUnread(row);
    const agent = this.#sessions.agents.length > 1 ? this.#sessions.agentName(agentOf(row.key)) : null;
    const when = row.updatedAt ? relative(Math.min(row.updatedAt, Date.now())) : "";
    const shown = JSON.stringify([title(row), when, agent, row.hasActiveRun, isUnread, isCurrent, row.lastMessagePreview]);
    const kept = this.#items.get(row.key);
    if (kept?.shown === shown) return kept.element;
    const mark = row.hasActiveRun ? h("span.spin", { role: "img", "aria-label": "running" }) : isUnread ? h("span.unread", { role: "img", "aria-label": "unread" }) : null;
    const head = h("span.row", {}, h("span.name.ellipsis.grow", {}, title(row)), mark, h("span.when", {}, when));
    const about = [agent, row.lastMessagePreview].filter(Boolean).join(" · ");
    const link = h("a", { href: `#/chat/${encodeURIComponent(row.key)}`, "data-key": row.key, "aria-current": isCurrent ? "true" : null }, head, about ? h("span.about.ellipsis", {}, about) : null);
    const element = h("li", {}, link);
    this.#items.set(row.key, { shown, element });
    return element;
  }
}
