// The chat: sessions at the side, one conversation.

import { button, h, isComposing, openDialog, replace } from "../dom.js";
import { sessionMenu } from "../chat/actions.js";
import { Composer } from "../chat/composer.js";
import { Conversation, textOf } from "../chat/conversation.js";
import { SessionList } from "../chat/list.js";
import { namesOfFiles, split } from "../chat/messages.js";
import { Pickers } from "../chat/pickers.js";
import { Transcript } from "../chat/transcript.js";
import { forgetWritings, writingIn } from "../chat/writing.js";
import { agentOf, sessionsOf, title } from "../sessions.js";
import { local, recallText, rememberText } from "../store.js";
import { failed, toast } from "../toast.js";

const LAST = "clawgate.session";

// A session on the screen; `end()` when another one takes its place.
class Room {
  element;
  key;
  #app;
  #sessions;
  #writing;
  #conversation;
  #transcript;
  #composer;
  #pickers;
  #ends;
  #name = h("h1.ellipsis", { dir: "auto" });
  #agent = h("span.badge");

  // told: {openList(), named(key)}; named: that is what the gateway calls the session.
  constructor(app, sessions, key, { openList, named }) {
    this.#app = app;
    this.#sessions = sessions;
    this.key = key;
    const { link } = app;
    const writing = (this.#writing = writingIn(link, key));
    this.#conversation = new Conversation(link, key, writing.outbox, { changed: () => this.#update(), failed, named });
    this.#transcript = new Transcript(this.#conversation, {
      empty: () => this.#empty(),
      row: () => this.#row(),
      askAgain: (message) => this.#askAgain(message).catch(failed),
    });
    this.#composer = new Composer(link, writing, { abort: () => this.#abort(), send: (text, files) => this.#send(text, files), written: (said) => this.#written(said) });
    this.#pickers = new Pickers(link, sessions, key);
    const look = () => this.#update();
    const press = (event) => this.#press(event);
    document.addEventListener("visibilitychange", look);
    document.addEventListener("keydown", press);
    this.#ends = [sessions.on(look), link.on("state", look), () => document.removeEventListener("visibilitychange", look), () => document.removeEventListener("keydown", press)];
    const list = button("Sessions", { icon: "sessions", iconOnly: true, class: "plain sheet-button", onclick: openList });
    const menu = button("Session menu", { icon: "more", iconOnly: true, class: "plain", onclick: () => this.#menu() });
    const head = h("header.chat-head", {}, list, h("div.title", {}, this.#name, this.#agent), this.#pickers.element, menu);
    this.element = h("section.room", { "aria-label": "Chat" }, head, this.#transcript.element, this.#composer.element);
    this.#acceptDrops();
    this.#update();
  }

  end() {
    for (const end of this.#ends) end();
    this.#composer.end();
    this.#transcript.end();
    this.#conversation.end();
  }

  focus() {
    this.#composer.focus();
  }

  #isBusy() {
    const { run } = this.#conversation;
    return run !== null && !run.isOver;
  }

  // Escape stops the answer wherever the focus is, but where it has another use: in a
  // dialog, also one that it has just closed, and in a field that it empties.
  #press(event) {
    if (event.key !== "Escape" || event.repeat || isComposing(event) || event.defaultPrevented) return;
    if (this.#isBusy() && !event.target.closest("input") && !document.querySelector("dialog[open]")) this.#abort();
  }

  #abort() {
    this.#conversation.abort().catch(({ message }) => toast(message, "bad"));
  }

  #row() {
    return this.#sessions.find(this.key) ?? { key: this.key };
  }

  #update() {
    if (!this.#composer) return;
    const { messages, outbox } = this.#conversation;
    const agent = agentOf(this.key);
    this.#name.textContent = title(this.#row());
    this.#agent.textContent = this.#sessions.agentName(agent) ?? "";
    this.#agent.hidden = this.#sessions.agents.length < 2;
    this.#pickers.update();
    const said = [...messages.filter((message) => message.role === "user"), ...outbox.items];
    this.#composer.update({ isBusy: this.#isBusy(), isOffline: this.#app.link.state !== "open", said });
    this.#transcript.update();
    if (!document.hidden) this.#sessions.see(this.key);
  }

  #send(text, files) {
    this.#transcript.toEnd();
    this.#conversation.outbox.send(text, files);
  }

  // What somebody wrote, of a message or of what waits to be one.
  async #written(said) {
    return said.text ?? split(textOf(await this.#conversation.entire(said))).text;
  }

  // Its files are not here any more: they have to be attached once more.
  async #askAgain(message) {
    const whole = await this.#conversation.entire(message);
    const { text } = split(textOf(whole));
    const files = namesOfFiles(whole);
    if (files.length === 0) return this.#send(text, []);
    this.#writing.giveBack(text, []);
    toast(`Attach this once more, then send the message again: ${files.join(", ")}.`, "bad");
  }

  async #menu() {
    await sessionMenu(this.#app.link, this.#row(), { deleted: () => this.#app.go("chat", this.#app.link.hello.snapshot.sessionDefaults.mainSessionKey) });
    this.#sessions.load().catch(failed);
  }

  #empty() {
    const { modelProvider } = this.#row().modelProvider ? this.#row() : this.#sessions.defaults;
    const name = this.#sessions.agentName(agentOf(this.key)) ?? "the agent";
    const hint = modelProvider === "offline" ? h("div.notice.warn", {}, "No model is set up yet: a guide that is built in answers. Where the gateway runs: ", h("code", {}, "clawgate onboard")) : h("p.muted", {}, "Type / for commands. Files can be dropped here or pasted.");
    return h("div.welcome", {}, h("img", { src: "icon.svg", alt: "", width: "56", height: "56" }), h("h2", {}, `Say something to ${name}`), hint);
  }

  #acceptDrops() {
    const hasFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
    this.element.addEventListener("dragover", (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      this.element.classList.add("dropping");
    });
    this.element.addEventListener("dragleave", (event) => this.element.contains(event.relatedTarget) || this.element.classList.remove("dropping"));
    this.element.addEventListener("drop", (event) => {
      this.element.classList.remove("dropping");
      if (!hasFiles(event)) return;
      event.preventDefault();
      this.#composer.drop([...event.dataTransfer.files]);
    });
  }
}

// The agent of a new session: asked for when there are several.
async function chooseAgent(sessions) {
  if (sessions.agents.length < 2) return sessions.agents[0]?.id;
  return openDialog("New session with", (close) => [h("div.stack.menu", { style: { marginTop: "0.75rem" } }, sessions.agents.map(({ id }) => button(sessions.agentName(id), { onclick: () => close(id) }))), h("div.actions", {}, button("Cancel", { onclick: () => close() }))]);
}

// Begins a session and shows it.
export async function newSession({ link, go }, sessions, agent) {
  try {
    const agentId = agent ?? (await chooseAgent(sessions));
    if (!agentId) return;
    const { key } = await link.call("sessions.create", { agentId });
    go("chat", key);
  } catch (error) {
    failed(error);
  }
}

export const view = {
  id: "chat",
  title: "Chat",
  icon: "chat",
  forget: forgetWritings,
  mount(root, app, rest) {
    const sessions = sessionsOf(app.link);
    const place = h("div.place");
    let room = null;
    let sheet = null;
    // A session has one name, in whatever way its address was written.
    const named = (key) => {
      writingIn(app.link, key).takeOver(writingIn(app.link, room.key));
      openHere(key);
    };
    // The address names what is shown, so that one can come back to it.
    const openHere = (key) => {
      history.replaceState(null, "", `#/chat/${encodeURIComponent(key)}`);
      open(key);
    };
    const open = (key) => {
      sheet?.close();
      room?.end();
      rememberText(local, LAST, key);
      list.show(key);
      room = new Room(app, sessions, key, { openList: openSheet, named });
      replace(place, room.element);
      room.focus();
    };
    const create = (agent) => newSession(app, sessions, agent);
    const list = new SessionList(sessions, null, { open: () => sheet?.close(), create });
    // On phones the list is a dialog that comes in from the side.
    const openSheet = () => {
      sheet = h("dialog.sheet", { "aria-label": "Sessions" });
      const own = new SessionList(sessions, room.key, { open: () => sheet.close(), create: (agent) => (sheet.close(), create(agent)) });
      sheet.append(h("div.row", {}, h("h2.grow", {}, "Sessions"), button("Close", { icon: "close", iconOnly: true, class: "plain", onclick: () => sheet.close() })), own.element);
      sheet.addEventListener("click", (event) => event.target === sheet && sheet.close());
      sheet.addEventListener("close", () => {
        own.end();
        sheet?.remove();
        sheet = null;
      });
      document.body.append(sheet);
      sheet.showModal();
    };
    replace(root, h("div.chat", {}, h("aside.side", { "aria-label": "Sessions" }, list.element), place));
    openHere(rest || recallText(local, LAST) || (app.link.hello.snapshot.sessionDefaults?.mainSessionKey ?? "agent:main:main"));
    const leave = () => {
      sheet?.close();
      room.end();
      list.end();
    };
    return { leave, go: (key) => (key ? open(key) : openHere(room.key)) };
  },
};
