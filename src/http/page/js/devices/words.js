// Devices and what they may do, in words.

import { h } from "../dom.js";

const SCOPES = {
  "operator.admin": "change everything",
  "operator.read": "read",
  "operator.write": "chat and run agents",
  "operator.approvals": "decide on approvals",
  "operator.pairing": "let devices in",
  "operator.talk.secrets": "voice credentials",
};
const CLIENTS = {
  "openclaw-control-ui": "Web page", "webchat-ui": "Web chat", cli: "Command line", "node-host": "Node", "openclaw-ios": "iPhone or iPad",
  "openclaw-android": "Android phone", "openclaw-macos": "Mac app", "gateway-client": "Program", "openclaw-tui": "Terminal",
};
const SYSTEMS = { macintel: "macOS", darwin: "macOS", linux: "Linux", "linux x86_64": "Linux", win32: "Windows", web: "browser" };

export const clientWords = (id) => CLIENTS[id] ?? id;
export const systemWords = (platform) => SYSTEMS[platform?.toLowerCase()] ?? platform;

// The name of a device, a node or a request for people.
export function nameOf({ displayName, clientId, deviceId, nodeId }) {
  return displayName ?? (clientId ? clientWords(clientId) : `Device ${(deviceId ?? nodeId).slice(0, 8)}`);
}

// A badge for each thing that scopes allow; the one that allows all stands out.
export function scopeBadges(scopes) {
  if (scopes.length === 0) return h("span.badge", {}, "work for agents");
  // Whoever may write may read.
  const shown = scopes.filter((scope) => scope !== "operator.read" || !scopes.includes("operator.write"));
  return shown.map((scope) => h("span.badge", { class: scope === "operator.admin" ? "warn" : "", title: scope }, SCOPES[scope] ?? scope));
}

// Names and values; those without a value are left out.
export function facts(rows) {
  const told = rows.filter(([, value]) => value !== undefined && value !== null && value !== "");
  return h("dl.about", {}, told.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

export const shortId = (id) => h("code", { title: id }, id.length > 16 ? `${id.slice(0, 8)}…${id.slice(-4)}` : id);
