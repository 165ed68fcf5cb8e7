// All sessions in a table.

import { button, h, replace } from "../dom.js";
import { remove, sessionMenu } from "../chat/actions.js";
import { moreSessions } from "../chat/list.js";
import { compact, money, relative } from "../format.js";
import { agentOf, sessionsOf, title } from "../sessions.js";
import { failed } from "../toast.js";
import { newSession } from "./chat.js";

// A number; a phone, which has no columns, names it.
const figure = (name, text) => h("td.number", { class: text ? null : "none", "data-name": name }, text || "–");

export const view = {
  id: "sessions",
  title: "Sessions",
  icon: "sessions",
  mount(root, app) {
    const sessions = sessionsOf(app.link);
    const search = h("input", { type: "search", placeholder: "Search", "aria-label": "Search sessions" });
    const body = h("div.card.scroll-x", { style: { padding: "0" } });
    const menu = async (row) => {
      await sessionMenu(app.link, row, { deleted: () => {} });
      sessions.load().catch(failed);
    };
    const discard = async (row) => {
      await remove(app.link, row).catch(failed);
      sessions.load().catch(failed);
    };
    const tr = (row) => {
      const state = row.hasActiveRun ? h("span.badge.accent", {}, "running") : row.status === "failed" ? h("span.badge.bad", {}, "failed") : null;
      const isMain = row.key === app.link.hello.snapshot.sessionDefaults?.mainSessionKey;
      const name = h("a", { href: `#/chat/${encodeURIComponent(row.key)}` }, title(row));
      const actions = h("div.row", {}, button(`Menu of ${title(row)}`, { icon: "more", iconOnly: true, class: "plain", onclick: () => menu(row) }), isMain ? null : button(`Delete ${title(row)}`, { icon: "trash", iconOnly: true, class: "plain", onclick: () => discard(row) }));
      return h("tr", {}, h("td", {}, name, " ", state, h("div.small.muted.mono.key", {}, row.key)), h("td", {}, sessions.agentName(agentOf(row.key)) ?? ""), h("td", {}, row.model ?? ""), figure("Context", row.totalTokens && compact(row.totalTokens)), figure("Cost", row.estimatedCostUsd && money(row.estimatedCostUsd)), h("td.nowrap", {}, row.updatedAt ? relative(Math.min(row.updatedAt, Date.now())) : ""), h("td", {}, actions));
    };
    const draw = () => {
      if (!sessions.isLoaded) return replace(body, h("p.empty", {}, "Loading…"));
      const wanted = search.value.trim();
      const rows = sessions.matching(wanted);
      if (rows.length === 0) return replace(body, h("p.empty", {}, wanted ? "No session like that." : "No sessions yet. Say something in the chat to begin one."));
      const heads = ["Session", "Agent", "Model", "Context", "Cost", "Changed", ""];
      return replace(body, h("table.sessions", {}, h("thead", {}, h("tr", {}, heads.map((name, at) => h("th", { scope: "col", class: at === 3 || at === 4 ? "number" : null }, name || h("span.sr-only", {}, "Actions"))))), h("tbody", {}, rows.map(tr))), !wanted && moreSessions(sessions, "p"));
    };
    search.addEventListener("input", draw);
    const create = button("New session", { icon: "plus", class: "primary", onclick: () => newSession(app, sessions) });
    replace(root, h("div.page", {}, h("header", {}, h("h1", {}, "Sessions"), search, create), body));
    const end = sessions.on(draw);
    draw();
    return { leave: end };
  },
};
