// Files that are to be sent with a message. Small ones go into the message itself;
// large ones are uploaded as soon as they are there.

import { button, h, replace } from "../dom.js";
import { bytes } from "../format.js";
import { toast } from "../toast.js";
import { limits, upload } from "./upload.js";

// What the gateway takes of a message in all, less what is around it; base64
// makes 4 bytes of 3.
const FRAME_SHARE = 0.7;
const FRAME_MAX = 20 * 1024 * 1024;
// Larger ones are uploaded: it can be seen how far they are.
const INLINE_MAX = 4 * 1024 * 1024;
const FILES_MAX = 32;
// An upload that nobody has answered begins anew after this long.
const AGAIN_MS = 3000;
// So many times over one connection: what lets that through may stop the upload.
const TRIES_MAX = 3;

function read(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}

// Whether it still is as it was when it was chosen.
const isReadable = (file) => file.slice(0, 1).arrayBuffer().then(() => true, () => false);

// Says why a file is not taken.
const refused = (text) => toast(text, "bad");

export class Attachments {
  element = h("ul.attachments", { "aria-label": "Attachments", hidden: true });
  // {type, mimeType, fileName, size, url, isLarge, owner} and `content` or `uploadId`; none
  // of both while it is on its way: `upload` is {abort, sent, show} while it is uploaded,
  // `waits` is true until it can be; `tried` is {hello, times}, over which connection;
  // `isBack` is true once it has come back.
  // owner: the attachments that it is one of, which may be others when it is there.
  items = [];
  // Called when something is different.
  changed = null;

  #link;
  #key;
  #limits = null;

  // key: the session.
  constructor(link, key) {
    this.#link = link;
    this.#key = key;
  }

  // Whether files are on their way.
  get isBusy() {
    return this.items.some((item) => !item.content && !item.uploadId);
  }

  // All are there at once, so that no message goes without them.
  add(files) {
    for (const file of files) {
      const why = this.#refusal(file);
      if (why) {
        refused(`${file.name || "The picture"} ${why}`);
        continue;
      }
      const isImage = file.type.startsWith("image/");
      const item = { type: isImage ? "image" : "file", mimeType: file.type || "application/octet-stream", fileName: file.name || "picture.png", size: file.size, url: isImage ? URL.createObjectURL(file) : null, isLarge: this.#isLarge(file), owner: this };
      this.items.push(item);
      if (item.isLarge) this.#upload(item, file);
      else this.#read(item, file);
    }
    this.#draw();
  }

  // All of it, and begins anew.
  take() {
    const items = this.items;
    this.items = [];
    this.#draw();
    return items;
  }

  // Adds what was taken of others.
  put(items) {
    this.#insert(this.items.length, items);
  }

  // Puts what was not sent before the others, and after what came back before.
  putBack(items) {
    this.#insert(this.items.findLastIndex((item) => item.isBack) + 1, items);
    for (const item of items) item.isBack = true;
  }

  #insert(at, items) {
    for (const item of items) item.owner = this;
    this.items.splice(at, 0, ...items);
    this.#draw();
  }

  // Gives up all of it, and what is on its way.
  clear() {
    for (const item of this.items) this.#drop(item);
  }

  #isLarge({ size }) {
    const most = (this.#link.hello?.policy?.maxPayload ?? FRAME_MAX) * FRAME_SHARE;
    const inline = this.items.filter((item) => !item.isLarge);
    return size > INLINE_MAX || inline.reduce((sum, item) => sum + item.size, size) > most;
  }

  #refusal({ size }) {
    if (size === 0) return "is empty.";
    return this.items.length >= FILES_MAX ? `is one too many: a message takes ${FILES_MAX} files.` : null;
  }

  async #read(item, file) {
    try {
      item.content = await read(file);
    } catch {
      // That is how browsers give a folder.
      item.owner.#drop(item);
      refused(`${item.fileName} cannot be read. Of a folder, attach the files.`);
    }
    item.owner.#draw();
  }

  async #tooLarge({ size, type }) {
    this.#limits ??= await limits(this.#link);
    const most = type === "image" ? this.#limits.maxImageBytes : this.#limits.maxBytes;
    return size > most ? `is too large: ${bytes(size)} of ${bytes(most)}.` : null;
  }

  async #upload(item, file) {
    // It may be removed meanwhile.
    const isGone = () => !item.owner.items.includes(item);
    const { hello, state } = this.#link;
    if (state === "open") item.tried = { hello, times: item.tried?.hello === hello ? item.tried.times + 1 : 1 };
    let why = null;
    try {
      why = await this.#tooLarge(item);
      if (!why && !isGone()) item.uploadId = await this.#send(item, file);
    } catch (error) {
      why = await this.#failure(error, item, file);
      if (!why && !isGone()) this.#wait(item, file);
    }
    if (isGone()) return;
    if (why) {
      item.owner.#drop(item);
      refused(`${item.fileName} ${why}`);
    }
    item.owner.#draw();
  }

  // Why it is given up; null when it is to be tried again.
  async #failure({ code, message }, { tried }, file) {
    if (code !== "DISCONNECTED") return `was not uploaded: ${message}.`;
    if (!(await isReadable(file))) return "cannot be read any more.";
    return tried?.times >= TRIES_MAX ? `was not uploaded: it was cut off ${TRIES_MAX} times, perhaps by a proxy that limits uploads.` : null;
  }

  // Resolves to the id of the upload.
  async #send(item, file) {
    const stop = new AbortController();
    const told = (sent) => {
      item.upload.sent = Math.min(sent, item.size);
      item.upload.show();
    };
    item.upload = { abort: () => stop.abort(), sent: 0, show: () => {} };
    item.owner.#draw();
    try {
      return (await upload(this.#link, this.#key, new File([file], item.fileName, { type: file.type }), { told, signal: stop.signal })).uploadId;
    } finally {
      delete item.upload;
    }
  }

  // Begins anew when the connection is back; soon, where it was not lost, or is back
  // already.
  #wait(item, file) {
    const again = () => {
      end();
      clearTimeout(soon);
      item.waits = false;
      this.#upload(item, file);
    };
    const end = this.#link.on("ready", again);
    const soon = this.#link.state === "open" ? setTimeout(again, AGAIN_MS) : undefined;
    item.waits = true;
  }

  #drop(item) {
    item.upload?.abort();
    if (item.url) URL.revokeObjectURL(item.url);
    this.items = this.items.filter((other) => other !== item);
    this.#draw();
  }

  #draw() {
    this.element.hidden = this.items.length === 0;
    replace(this.element, this.items.map((item) => this.#row(item)));
    this.changed?.();
  }

  #row(item) {
    const picture = item.url ? h("img", { src: item.url, alt: "" }) : null;
    const what = item.upload ? `Cancel the upload of ${item.fileName}` : `Remove ${item.fileName}`;
    const away = button(what, { icon: "close", iconOnly: true, class: "plain", onclick: () => this.#drop(item) });
    return h("li", {}, picture, h("span.ellipsis", {}, item.fileName), item.upload ? this.#progress(item) : h("span.muted", {}, item.waits ? "Waits for the connection" : bytes(item.size)), away);
  }

  #progress(item) {
    const bar = h("progress", { max: String(item.size), "aria-label": `Upload of ${item.fileName}` });
    const text = h("span.muted.sent");
    item.upload.show = () => {
      const { sent } = item.upload;
      bar.value = sent;
      // All was sent, and the gateway has not said yet that it has it.
      text.textContent = sent < item.size ? `${Math.floor((sent / item.size) * 100)} % of ${bytes(item.size)}` : "Storing…";
    };
    item.upload.show();
    return [bar, text];
  }
}
