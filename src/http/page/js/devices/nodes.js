// Nodes: machines and phones that do things for agents. And people of chat
// services that were let in.

import { ago } from "../ago.js";
import { button, confirm, h, openDialog } from "../dom.js";
import { facts, nameOf, shortId, systemWords } from "./words.js";

const badges = (words) => h("span.row.wrap", {}, words.map((word) => h("span.badge", {}, word)));

function askName(now) {
  return openDialog("Rename the node", (close) => {
    const input = h("input", { value: now, required: true, autofocus: true });
    const submit = (event) => {
      event.preventDefault();
      close(input.value.trim());
    };
    return h("form.stack", { onsubmit: submit }, h("label.field", {}, "Name", input), h("div.actions", {}, button("Cancel", { onclick: () => close() }), h("button.primary", {}, "Rename")));
  });
}

function nodeCard(node, act) {
  const { nodeId, connected, platform, version, modelIdentifier, deviceFamily, remoteIp, caps = [], commands = [], permissions = {}, lastSeenAtMs, connectedAtMs } = node;
  const name = nameOf(node);
  const rename = async () => {
    const displayName = await askName(name);
    if (displayName) await act("node.rename", { nodeId, displayName }, "renamed", name);
  };
  const remove = async () => {
    if (await confirm(`Take the approval of ${name} back?`, "Agents cannot use it any more, until it is approved again.", "Remove")) await act("node.pair.remove", { nodeId }, "removed", name);
  };
  const denied = Object.entries(permissions).filter(([, isOn]) => !isOn).map(([what]) => what);
  const rows = [["Can do", caps.length > 0 ? badges(caps) : "nothing"], ["System", [systemWords(platform), deviceFamily, modelIdentifier, version].filter(Boolean).join(" · ")],
    [connected ? "Connected" : "Last seen", (connectedAtMs ?? lastSeenAtMs) && ago(connected ? connectedAtMs : lastSeenAtMs)], ["Address", remoteIp], ["Not permitted there", denied.join(", ")], ["Node", shortId(nodeId)]];
  const head = h("div.row.wrap", {}, h("span.dot", { class: connected ? "good" : "" }), h("h3.grow", {}, name), h("span.badge", { class: connected ? "good" : "" }, connected ? "connected" : "away"));
  const list = commands.length > 0 && h("details", {}, h("summary.small.muted", {}, `${commands.length} commands`), badges(commands));
  return h("li.card.device", { "data-id": nodeId }, head, facts(rows), list, h("div.row.wrap.small-buttons", {}, button("Rename", { icon: "edit", onclick: rename }), button("Remove approval", { class: "danger", onclick: remove })));
}

export function nodeCards(nodes, act) {
  if (nodes.length === 0) return h("p.card.muted", {}, "There is no node. The phone apps become one when they are set up; another machine does with ", h("code", {}, "openclaw node run"), ".");
  const sorted = [...nodes].sort((a, b) => b.connected - a.connected || (b.lastSeenAtMs ?? 0) - (a.lastSeenAtMs ?? 0));
  return h("ul.rows", {}, sorted.map((node) => nodeCard(node, act)));
}

export function peopleTable(people, act) {
  const line = ({ channel, accountId, person, name, approvedAtMs }) => {
    const shown = name ?? person;
    const remove = async () => {
      if (await confirm(`Remove ${shown}?`, "What this person writes is not answered any more.", "Remove")) await act("channels.pairing.remove", { channel, accountId, person }, "removed", shown);
    };
    const action = button("Remove", { icon: "trash", iconOnly: true, class: "icon danger plain", onclick: remove, "aria-label": `Remove ${shown}` });
    return h("tr", {}, h("td", {}, shown, name && h("div.muted", {}, person)), h("td", {}, channel, accountId && h("div.muted", {}, accountId)), h("td", {}, ago(approvedAtMs)), h("td.number", {}, action));
  };
  const head = h("tr", {}, ["Person", "Channel", "Since"].map((name) => h("th", { scope: "col" }, name)), h("th", {}, h("span.sr-only", {}, "Actions")));
  return h("div.card.scroll-x", { tabindex: "0" }, h("table", {}, h("thead", {}, head), h("tbody", {}, people.map(line))));
}

const gone = ({ reason }) => reason === "disconnect";

export function presenceTable(presence) {
  const line = (entry) => {
    const state = gone(entry) ? h("span.badge", {}, "gone") : h("span.badge.good", {}, entry.mode === "gateway" ? "gateway" : "here");
    return h("tr", {}, h("td", {}, entry.host ?? entry.text, h("div.muted", {}, [entry.mode, entry.version].filter(Boolean).join(" · "))), h("td", {}, systemWords(entry.platform), entry.ip && h("div.muted", {}, entry.ip)), h("td", {}, entry.roles?.join(", ")), h("td", {}, state, " ", ago(entry.ts)));
  };
  const head = ["Who", "System", "Role", "When"].map((name) => h("th", { scope: "col" }, name));
  return h("div.card.scroll-x", { tabindex: "0" }, h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, presence.map(line))));
}

// Devices that are here now.
export const connectedDevices = (presence) => new Set(presence.filter((entry) => entry.deviceId && !gone(entry)).map(({ deviceId }) => deviceId));
