// Who waits to be let in: devices, nodes, and people of chat services.

import { ago } from "../ago.js";
import { button, h } from "../dom.js";
import { facts, nameOf, scopeBadges, shortId, systemWords } from "./words.js";

// How long a request of a device waits, as the gateway has it.
const LIFE_MS = 5 * 60_000;

// Lists of what waits; what this page may not see is left out.
export async function waiting(link) {
  const ask = (method) => link.call(method).catch((error) => ({ error }));
  const [devices, nodes, people] = await Promise.all(["device.pair.list", "node.pair.list", "channels.pairing.list"].map(ask));
  const count = (devices.pending ?? []).length + (nodes.pending ?? []).length + (people.requests ?? []).length;
  return { devices, nodes, people, count };
}

function card(kind, id, title, badges, rows, decide) {
  const yes = button("Approve", { class: "primary", onclick: () => decide("approve", title) });
  const no = button("Reject", { class: "danger", onclick: () => decide("reject", title) });
  for (const one of [yes, no]) one.setAttribute("aria-label", `${one.textContent} ${title}`);
  return h("li.card.device.waits", { "data-kind": kind, "data-id": id }, h("div.row.wrap", {}, h("h3.grow", {}, title), badges), facts(rows), h("div.row.wrap", {}, yes, no));
}

function deviceCard(request, act) {
  const { requestId, deviceId, roles, scopes, platform, deviceFamily, remoteIp, ts, isRepair } = request;
  const badges = [isRepair && h("span.badge", {}, "known already, wants more"), roles.map((role) => h("span.badge.accent", {}, role))];
  const rows = [["Wants to", h("span.row.wrap", {}, scopeBadges(scopes))], ["System", systemWords(deviceFamily ?? platform)], ["Address", remoteIp ?? "this machine"],
    ["Asked", ago(ts)], ["Request ends", ago(ts + LIFE_MS)], ["Device", shortId(deviceId)]];
  return card("device", requestId, nameOf(request), badges, rows, (what, name) => act(`device.pair.${what}`, { requestId }, what, name));
}

function nodeCard(request, act) {
  const { requestId, nodeId, platform, version, caps = [], commands = [], remoteIp, ts } = request;
  const list = (words) => words.length > 0 && h("span.row.wrap", {}, words.map((word) => h("span.badge", {}, word)));
  const rows = [["Can do", list(caps)], ["Commands", list(commands)], ["System", [systemWords(platform), version].filter(Boolean).join(" · ")], ["Address", remoteIp], ["Asked", ago(ts)], ["Node", shortId(nodeId)]];
  return card("node", requestId, nameOf(request), h("span.badge.accent", {}, "node"), rows, (what, name) => act(`node.pair.${what}`, { requestId }, what, name));
}

function personCard(request, act) {
  const { channel, accountId, person, name, code, createdAtMs } = request;
  const rows = [["Code", h("code", {}, code)], ["Person", person], ["Account", accountId], ["Asked", ago(createdAtMs)]];
  return card("person", code, name ?? person, h("span.badge.accent", {}, channel), rows, (what, of) => act(`channels.pairing.${what}`, { channel, code }, what, of));
}

// Cards of all that waits. `act(method, params, what, name)` decides.
export function waitingCards({ devices, nodes, people }, act) {
  const cards = [
    ...(devices.pending ?? []).map((request) => deviceCard(request, act)),
    ...(nodes.pending ?? []).map((request) => nodeCard(request, act)),
    ...(people.requests ?? []).map((request) => personCard(request, act)),
  ];
  if (cards.length > 0) return h("ul.rows", {}, cards);
  return h("p.card.muted", {}, "Nobody is waiting. A browser, phone or program that is new here, and people who write for the first time, appear in this place.");
}
