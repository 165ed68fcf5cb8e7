// What is written in a session and not in its conversation yet: the draft, its
// files, and what waits to be sent. It outlasts the view that shows it.

import { local, names, recall, remember, session } from "../store.js";
import { toast } from "../toast.js";
import { Attachments } from "./attachments.js";
import { Outbox, STORED } from "./outbox.js";

// Drafts of this many sessions are kept, the newest.
const DRAFTS_MAX = 50;
const DRAFTS = "clawgate.drafts";
// What the gateway says of a message that it has, but did not answer.
const KEPT = "it is in the transcript";

const drafts = (storage) => recall(storage, DRAFTS, {});

function keep(storage, key, text) {
  const { [key]: _, ...others } = drafts(storage);
  const kept = Object.entries(text ? { ...others, [key]: text } : others).slice(-DRAFTS_MAX);
  remember(storage, DRAFTS, Object.fromEntries(kept));
}

class Writing {
  files;
  outbox;
  // Called when a text came back into the draft.
  restored = null;

  #key;
  #draft;
  // What has come back of it, which is at its beginning.
  #back = "";
  // That under the name which the session has turned out to have.
  #heir = null;

  constructor(link, key) {
    this.#key = key;
    // That of this tab; a new tab goes on with what was typed last in another one.
    this.#draft = drafts(session)[key] ?? drafts(local)[key] ?? "";
    this.files = new Attachments(link, key);
    this.outbox = new Outbox(link, key, (error, item) => this.#refused(error, item));
  }

  get draft() {
    return this.#draft;
  }

  set draft(text) {
    // What another tab has typed meanwhile is not ours to delete.
    if (text || drafts(local)[this.#key] === this.#draft) keep(local, this.#key, text);
    keep(session, this.#key, text);
    if (!text) this.#back = "";
    this.#draft = text;
  }

  // Puts what was not sent back before what is written, and after what came back before.
  giveBack(text, attachments) {
    const before = `${this.#draft}\n`.startsWith(`${this.#back}\n`) ? this.#back : "";
    const after = this.#draft.slice(before ? before.length + 1 : 0);
    const join = (...parts) => parts.filter(Boolean).join("\n");
    this.draft = join(before, text, after);
    this.#back = join(before, text);
    this.files.putBack(attachments);
    this.restored?.();
  }

  // Goes on with what is written under another name of the session, and gets what is
  // refused of it later.
  takeOver(other) {
    other.#heir = this;
    // Nothing goes in a circle when names have changed places.
    this.#heir = null;
    if (other.draft) this.draft = this.#draft ? `${this.#draft}\n${other.draft}` : other.draft;
    other.draft = "";
    this.files.put(other.files.take());
  }

  #current() {
    return this.#heir?.#current() ?? this;
  }

  #refused(error, { text, attachments }) {
    // Stopped while it was answered: it is in the conversation.
    if (error.message.includes(KEPT)) return;
    const advice = error.code === "TOO_LARGE" ? ". Shorten it, or attach a long text as a file." : "";
    toast(`Not sent: ${error.message}${advice}`, "bad");
    this.#current().giveBack(text, attachments);
  }
}

const all = new WeakMap();

// What is written over a connection, by session. Begins to send what waited when the
// page was left.
export function writingsOf(link) {
  if (!all.has(link)) all.set(link, begin(link));
  return all.get(link);
}

export function writingIn(link, key) {
  const writings = writingsOf(link);
  if (!writings.has(key)) writings.set(key, new Writing(link, key));
  return writings.get(key);
}

function begin(link) {
  const stored = names(session).filter((name) => name.startsWith(STORED)).map((name) => name.slice(STORED.length));
  const writings = new Map(stored.map((key) => [key, new Writing(link, key)]));
  const flush = () => writings.forEach(({ outbox }) => outbox.flush());
  link.on("ready", flush);
  flush();
  return writings;
}

// Nothing of it stays for the next one who signs in.
export function forgetWritings(link) {
  for (const { files, outbox } of writingsOf(link).values()) {
    files.clear();
    outbox.items = [];
  }
  writingsOf(link).clear();
  for (const storage of [local, session]) {
    for (const name of names(storage)) if (name === DRAFTS || name.startsWith(STORED)) remember(storage, name, undefined);
  }
}
