// The list of sessions, shared by all that shows it and kept up to date.

import { local, recall, remember } from "./store.js";
import { failed } from "./toast.js";

// So many are listed; as many more each time when somebody wants them.
const LIMIT = 300;
// Changes that come together are loaded together.
const SOON_MS = 250;
const SEEN = "clawgate.seen";
// Sessions whose last look is remembered in the browser.
const SEEN_MAX = 500;

const lists = new WeakMap();

// The list of a connection.
export function sessionsOf(link) {
  if (!lists.has(link)) lists.set(link, new Sessions(link));
  return lists.get(link);
}

// What a session is called.
export function title(row) {
  const [, agent, ...rest] = row.key.split(":");
  if (row.label || row.displayName) return row.label ?? row.displayName;
  if (row.key === `agent:${agent}:main`) return "Main";
  return row.derivedTitle ?? (rest[0] === "dashboard" ? "New session" : rest.join(":") || row.key);
}

export const agentOf = (key) => (key.startsWith("agent:") ? key.split(":")[1] : null);

export class Sessions {
  rows = [];
  // Provider, model and thinking level of sessions that name none.
  defaults = {};
  agents = [];
  isLoaded = false;
  // How many more there are.
  left = 0;

  #link;
  #listeners = new Set();
  #soon = null;
  #limit = LIMIT;
  // What is looked for among those that are not listed, and what was found.
  #sought = "";
  #found = [];
  #seek = null;
  #seen = recall(local, SEEN, null);

  constructor(link) {
    this.#link = link;
    const begin = () => this.#begin().catch(failed);
    link.on("ready", begin);
    link.on("gap", () => this.#later());
    link.on("sessions.changed", (change) => this.#take(change));
    if (link.state === "open") begin();
  }

  // Calls `listener` after each change; returns a function that ends it.
  on(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  find(key) {
    return this.rows.find((row) => row.key === key) ?? this.#found.find((row) => row.key === key);
  }

  // Those in which a text occurs; of what is not listed, once the gateway has said so.
  matching(text) {
    const wanted = text.trim().toLowerCase();
    if (!wanted) return this.rows;
    if (this.left > 0) this.#look(wanted);
    const here = this.rows.filter((row) => `${row.key} ${title(row)} ${row.lastMessagePreview ?? ""}`.toLowerCase().includes(wanted));
    const keys = new Set(this.rows.map(({ key }) => key));
    return [...here, ...(this.#sought === wanted ? this.#found.filter(({ key }) => !keys.has(key)) : [])];
  }

  more() {
    this.#limit += LIMIT;
    this.load().catch(failed);
  }

  // "Claw" of agent "main".
  agentName(id) {
    const agent = this.agents.find((agent) => agent.id === id);
    return agent?.identity?.name ?? agent?.name ?? id;
  }

  // Whether something was said in it since it was looked at.
  isUnread(row) {
    return this.#seen !== null && !row.hasActiveRun && row.updatedAt > (this.#seen[row.key] ?? this.#seen["*"] ?? 0);
  }

  see(key) {
    const row = this.find(key);
    if (!row || !this.#seen || (this.#seen[key] ?? 0) >= row.updatedAt) return;
    this.#seen[key] = row.updatedAt;
    const newest = Object.entries(this.#seen).sort(([, a], [, b]) => b - a);
    this.#seen = Object.fromEntries(newest.filter(([name], index) => name === "*" || index < SEEN_MAX));
    remember(local, SEEN, this.#seen);
    this.#tell();
  }

  async load() {
    const sought = this.#sought;
    const [list, agents, found] = await Promise.all([
      this.#list({ limit: this.#limit }),
      this.#link.call("agents.list"),
      sought && this.#list({ limit: LIMIT, search: sought }),
    ]);
    if (found && sought === this.#sought) this.#found = found.sessions;
    this.rows = list.sessions;
    this.left = list.hasMore ? list.totalCount - list.sessions.length : 0;
    this.defaults = list.defaults ?? {};
    this.agents = agents.agents;
    this.isLoaded = true;
    // What was there before this browser looked for the first time is not new.
    this.#seen ??= { "*": list.ts };
    this.#tell();
  }

  async #begin() {
    await Promise.all([this.#link.call("sessions.subscribe"), this.load()]);
  }

  #list(params) {
    return this.#link.call("sessions.list", { ...params, includeDerivedTitles: true, includeLastMessage: true });
  }

  #look(wanted) {
    if (this.#sought === wanted) return;
    this.#sought = wanted;
    this.#found = [];
    clearTimeout(this.#seek);
    this.#seek = setTimeout(async () => {
      try {
        const { sessions } = await this.#list({ limit: LIMIT, search: wanted });
        if (this.#sought !== wanted) return;
        this.#found = sessions;
        this.#tell();
      } catch (error) {
        this.#sought = "";
        failed(error);
      }
    }, SOON_MS);
  }

  #tell() {
    for (const listener of [...this.#listeners]) listener();
  }

  #later() {
    clearTimeout(this.#soon);
    this.#soon = setTimeout(() => this.load().catch(failed), SOON_MS);
  }

  #take({ sessionKey, phase, reason, session, ...change }) {
    const row = this.find(sessionKey);
    if (!row || reason || phase === "end" || phase === "error") this.#later();
    if (!row) return;
    const { ts, runId, messageId, messageSeq, ...fields } = change;
    Object.assign(row, fields);
    if (phase === "start") row.hasActiveRun = true;
    else if (phase && phase !== "message") row.hasActiveRun = false;
    this.rows.sort((a, b) => b.updatedAt - a.updatedAt);
    this.#tell();
  }
}
