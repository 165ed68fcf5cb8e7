// Devices that were let in, and their tokens.

import { ago } from "../ago.js";
import { button, confirm, h } from "../dom.js";
import { Device } from "../device.js";
import { facts, nameOf, scopeBadges, shortId, systemWords } from "./words.js";

const lastUsed = ({ tokens, approvedAtMs }) => Math.max(0, ...tokens.map(({ lastUsedAtMs }) => lastUsedAtMs ?? 0)) || approvedAtMs;

// Connects again by the token of this browser: only to whoever came by it the
// gateway tells another one.
function again(link) {
  return new Promise((resolve) => {
    const end = link.on("ready", () => {
      end();
      resolve();
    });
    link.login();
  });
}

function tokenLine(device, token, isOwn, act, link) {
  const { deviceId } = device;
  const { role, scopes, revokedAtMs, lastUsedAtMs } = token;
  const name = nameOf(device);
  const params = { deviceId, role };
  const rotate = async () => {
    const text = isOwn ? "This browser takes the new one at once." : "Its connections are closed. With the old token it is not let in any more, until it gets the new one by pairing again.";
    if (!(await confirm(`A new token for ${name}?`, text, "Rotate"))) return;
    if (isOwn) await again(link);
    await act("device.token.rotate", params, "rotated", name, async ({ token }) => isOwn && token && (await Device.load())?.keep(token));
  };
  const revoke = async () => {
    const text = isOwn ? "This is the browser that you use: you are signed out at once." : `Its connections as ${role} are closed at once, and it has to be approved again.`;
    if (await confirm(`Revoke ${name} as ${role}?`, text, "Revoke")) await act("device.token.revoke", params, "revoked", name);
  };
  const state = revokedAtMs ? h("span.badge.bad", {}, "revoked ", ago(revokedAtMs)) : h("span.row.wrap", {}, scopeBadges(scopes));
  const actions = revokedAtMs ? null : [
    button("Rotate", { icon: "refresh", onclick: rotate, "aria-label": `Rotate the token of ${name} as ${role}` }),
    button("Revoke", { class: "danger", onclick: revoke, "aria-label": `Revoke ${name} as ${role}` }),
  ];
  return h("li.row.wrap.token", {}, h("span.badge.accent", {}, role), state, h("span.grow.small.muted", {}, lastUsedAtMs ? ["used ", ago(lastUsedAtMs)] : "not used yet"), actions);
}

function card(device, { ownId, connected }, act, link) {
  const { deviceId, tokens, platform, deviceFamily, remoteIp, approvedAtMs } = device;
  const isOwn = deviceId === ownId;
  const name = nameOf(device);
  const remove = async () => {
    const text = isOwn ? "This is the browser that you use: you are signed out at once." : "It is forgotten with all its tokens, and its connections are closed at once.";
    if (await confirm(`Remove ${name}?`, text, "Remove")) await act("device.pair.remove", { deviceId }, "removed", name);
  };
  const badges = [isOwn && h("span.badge.good", {}, "this browser"), connected.has(deviceId) && h("span.badge.good", {}, "connected")];
  const rows = [["Last seen", ago(lastUsed(device))], ["System", systemWords(deviceFamily ?? platform)], ["Address", remoteIp], ["Approved", ago(approvedAtMs)], ["Device", shortId(deviceId)]];
  const head = h("div.row.wrap", {}, h("h3.grow", {}, name), badges, button("Remove", { icon: "trash", iconOnly: true, class: "icon danger plain", onclick: remove, "aria-label": `Remove ${name}` }));
  return h("li.card.device", { "data-id": deviceId }, head, facts(rows), h("ul.rows.tokens", {}, tokens.map((token) => tokenLine(device, token, isOwn, act, link))));
}

export function pairedCards(devices, known, act, link) {
  const rank = (device) => (device.deviceId === known.ownId ? Number.POSITIVE_INFINITY : lastUsed(device));
  const sorted = [...devices].sort((a, b) => rank(b) - rank(a));
  if (sorted.length === 0) return h("p.card.muted", {}, "No device is paired. Open this page in another browser, or set up a phone.");
  return h("ul.rows", {}, sorted.map((device) => card(device, known, act, link)));
}
