// All sessions in a table.

import { ago, tick } from "../ago.js";
import { button, h, place, replace } from "../dom.js";
import { remove, sessionMenu } from "../chat/actions.js";
import { moreSessions } from "../chat/list.js";
import { compact, money } from "../format.js";
import { agentOf, sessionsOf, title } from "../sessions.js";
import { failed } from "../toast.js";
import { newSession } from "./chat.js";

// A number; a phone, which has no columns, names it.
const figure = (name, text) => h("td.number", { class: text ? null : "none", "data-name": name }, text || "–");

// The row of a session, which stays as long as it is listed, with its controls, so that
// the focus does; what it shows is made anew only when that is something else. Returns
// what brings it up to date and gives its element. told: {menu(row), discard(row)}, the
// last of which the main session has not.
function rowOf(sessions, { key }, { menu, discard }) {
  let row;
  let shown;
  const element = h("tr");
  const name = h("a", { dir: "auto", href: `#/chat/${encodeURIComponent(key)}` });
  const controls = [["Menu of", "more", menu], ["Delete", "trash", discard]].filter(([, , told]) => told).map(([word, icon, told]) => [word, button("", { icon, iconOnly: true, class: "plain", onclick: () => told(row) })]);
  const actions = h("div.row", {}, controls.map(([, control]) => control));
  return (now) => {
    row = now;
    const agent = sessions.agentName(agentOf(key));
    const told = JSON.stringify([title(row), agent, row.model, row.totalTokens, row.estimatedCostUsd, row.updatedAt, row.hasActiveRun, row.status]);
    if (told === shown) return element;
    shown = told;
    name.textContent = title(row);
    for (const [word, control] of controls) control.title = control.ariaLabel = `${word} ${title(row)}`;
    const state = row.hasActiveRun ? h("span.badge.accent", {}, "running") : row.status === "failed" ? h("span.badge.bad", {}, "failed") : null;
    return replace(element, h("td", {}, name, " ", state, h("div.small.muted.mono.key", {}, key)), h("td", {}, agent ?? ""), h("td", {}, row.model ?? ""), figure("Context", row.totalTokens && compact(row.totalTokens)), figure("Cost", row.estimatedCostUsd && money(row.estimatedCostUsd)), h("td.nowrap", {}, row.updatedAt ? ago(Math.min(row.updatedAt, Date.now())) : ""), h("td", {}, actions));
  };
}

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
    const updates = new Map();
    const heads = ["Session", "Agent", "Model", "Context", "Cost", "Changed", ""];
    const list = h("tbody");
    const table = h("table.sessions", {}, h("thead", {}, h("tr", {}, heads.map((name, at) => h("th", { scope: "col", class: at === 3 || at === 4 ? "number" : null }, name || h("span.sr-only", {}, "Actions"))))), list);
    const fill = () => {
      if (!sessions.isLoaded) return place(body, [h("p.empty", {}, "Loading…")]);
      const wanted = search.value.trim();
      const rows = sessions.matching(wanted);
      place(list, rows.map((row) => {
        const isMain = row.key === app.link.hello.snapshot.sessionDefaults?.mainSessionKey;
        if (!updates.has(row.key)) updates.set(row.key, rowOf(sessions, row, { menu, discard: !isMain && discard }));
        return updates.get(row.key)(row);
      }));
      const none = h("p.empty", {}, wanted ? "No session like that." : "No sessions yet. Say something in the chat to begin one.");
      place(body, [rows.length > 0 ? table : none, !wanted && moreSessions(sessions, "p")].filter(Boolean));
    };
    const draw = () => {
      const focused = body.contains(document.activeElement) ? document.activeElement : null;
      const own = focused?.closest("tr");
      const at = own ? own.sectionRowIndex : list.rows.length;
      fill();
      if (!focused || document.activeElement === focused) return;
      // Of a row that is gone it moves to what is there now, and to a name, never to a button.
      const next = (!own && body.querySelector("p button")) || list.rows[Math.min(at, list.rows.length - 1)]?.querySelector("a");
      (focused.isConnected ? focused : (next ?? search)).focus({ preventScroll: true });
    };
    search.addEventListener("input", draw);
    const create = button("New session", { icon: "plus", class: "primary", onclick: () => newSession(app, sessions) });
    replace(root, h("div.page", {}, h("header", {}, h("h1", {}, "Sessions"), search, create), body));
    const ends = [sessions.on(draw), tick(list)];
    draw();
    return { leave: () => ends.forEach((end) => end()) };
  },
};
