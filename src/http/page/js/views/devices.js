// Who may reach the gateway, who wants to, and who is there.

import { tick } from "../ago.js";
import { Device } from "../device.js";
import { connectedDevices, nodeCards, peopleTable, presenceTable } from "../devices/nodes.js";
import { pairedCards } from "../devices/paired.js";
import { setUpPhone } from "../devices/setup.js";
import { waiting, waitingCards } from "../devices/waiting.js";
import { button, h, replace } from "../dom.js";
import { failed } from "../toast.js";

// Nobody tells of people of chat services who wait, and of requests that went.
const AGAIN_MS = 15_000;
const PAUSE_MS = 100;
const NEWS = ["device.pair.requested", "device.pair.resolved", "node.pair.requested", "node.pair.resolved"];

// Part of the view: made anew only when it shows something else, so that the
// focus and what is open in it stay.
class Part {
  #told;
  #body = h("div");

  constructor(title, note) {
    this.element = h("section.part", { "aria-label": title }, h("h2", {}, title), note && h("p.small.muted", {}, note), this.#body);
  }

  show(data, build) {
    this.element.hidden = data === undefined;
    const told = JSON.stringify(data);
    if (told === this.#told || data === undefined) return;
    this.#told = told;
    replace(this.#body, data.error ? h("p.notice.bad", {}, data.error.message) : build(data));
  }
}

class Devices {
  #app;
  #ownId = null;
  #soon;
  #parts = {
    waiting: new Part("Waiting to be let in"),
    paired: new Part("Paired devices", "Each has tokens of its own, one for a role, that can be taken back."),
    nodes: new Part("Nodes", "Machines and phones that agents can use."),
    people: new Part("People in chats", "Who may write to the agents."),
    presence: new Part("Who came and went", "In the last five minutes, and the gateway itself."),
  };

  constructor(root, app) {
    this.#app = app;
    const { link } = app;
    const phone = button("Set up a phone", { icon: "devices", class: "primary", onclick: () => setUpPhone(link) });
    replace(root, h("div.page", {}, h("header", {}, h("h1", {}, "Devices"), phone), Object.values(this.#parts).map(({ element }) => element)));
    const again = setInterval(() => document.visibilityState === "visible" && this.#load(), AGAIN_MS);
    const presence = link.on("presence", () => this.#loadSoon());
    this.ends = [tick(root), () => clearInterval(again), presence, ...[...NEWS, "ready", "gap"].map((name) => link.on(name, () => this.#loadSoon()))];
    this.#load();
  }

  leave() {
    clearTimeout(this.#soon);
    for (const end of this.ends) end();
  }

  #loadSoon() {
    clearTimeout(this.#soon);
    this.#soon = setTimeout(() => this.#load(), PAUSE_MS);
  }

  async #load() {
    const { link } = this.#app;
    if (link.state !== "open") return;
    this.#ownId ??= (await Device.load())?.id ?? null;
    const ask = (method) => link.call(method).catch((error) => ({ error: { message: error.message, code: error.code } }));
    const [all, nodes, presence] = await Promise.all([waiting(link), ask("node.list"), ask("system-presence")]);
    if (all.devices.error?.code === "DISCONNECTED") return;
    this.#app.count("devices", all.count);
    this.#show(all, nodes, Array.isArray(presence) ? presence : []);
  }

  #show(all, nodes, presence) {
    const { waiting, paired, people, ...parts } = this.#parts;
    const act = (...decision) => this.#act(...decision);
    const pending = { devices: { pending: all.devices.pending }, nodes: { pending: all.nodes.pending }, people: { requests: all.people.requests } };
    waiting.show(pending, (data) => waitingCards(data, act));
    const known = { ownId: this.#ownId, connected: [...connectedDevices(presence)] };
    const error = all.devices.error && { message: all.devices.error.message };
    paired.show(error ? { error } : { devices: all.devices.paired, known }, ({ devices }) => pairedCards(devices, { ...known, connected: new Set(known.connected) }, act, this.#app.link));
    parts.nodes.show(nodes.error ? nodes : nodes.nodes, (list) => nodeCards(list, act));
    const persons = all.people.people ?? [];
    people.show(persons.length > 0 ? persons : undefined, (list) => peopleTable(list, act));
    parts.presence.show(presence, presenceTable);
  }

  // Does what a card asks for, and tells that it is done.
  async #act(method, params, what, name, then) {
    try {
      const answer = await this.#app.link.call(method, params);
      await then?.(answer);
      const done = { approve: "is let in", reject: "is turned down" }[what] ?? `is ${what}`;
      this.#app.toast(`${name} ${done}`);
    } catch (error) {
      failed(error);
    }
    this.#loadSoon();
  }
}

export const view = {
  id: "devices",
  title: "Devices",
  icon: "devices",
  // How many wait, beside the name of this view, whatever is shown.
  watch({ link, count }) {
    const load = async () => link.state === "open" && count("devices", (await waiting(link)).count);
    const again = setInterval(() => document.visibilityState === "visible" && load(), AGAIN_MS);
    const ends = [() => clearInterval(again), ...[...NEWS, "ready", "gap"].map((name) => link.on(name, load))];
    load();
    return () => ends.forEach((end) => end());
  },
  mount(root, app) {
    const devices = new Devices(root, app);
    return { leave: () => devices.leave() };
  },
};
