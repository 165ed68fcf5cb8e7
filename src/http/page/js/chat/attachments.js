// Files that are to be sent with a message.

import { button, h, replace } from "../dom.js";
import { bytes } from "../format.js";

// What the gateway takes of a message in all, less what is around it; base64
// makes 4 bytes of 3.
const FRAME_SHARE = 0.7;
const FILE_MAX = 20 * 1024 * 1024;
const FILES_MAX = 32;

function read(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}

export class Attachments {
  element = h("ul.attachments", { "aria-label": "Attachments", hidden: true });
  // {type, mimeType, fileName, content, size, url}
  items = [];

  #link;
  #tell;

  // tell(text): says why a file is not taken.
  constructor(link, tell) {
    this.#link = link;
    this.#tell = tell;
  }

  async add(files) {
    for (const file of files) {
      const why = this.#refusal(file);
      if (why) {
        this.#tell(`${file.name || "The picture"} ${why}`);
        continue;
      }
      const isImage = file.type.startsWith("image/");
      const item = { type: isImage ? "image" : "file", mimeType: file.type || "application/octet-stream", fileName: file.name || "picture.png", size: file.size, url: isImage ? URL.createObjectURL(file) : null };
      this.items.push(item);
      item.content = await read(file);
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

  // Puts back what was taken.
  put(items) {
    this.items.push(...items);
    this.#draw();
  }

  #refusal({ size }) {
    const most = (this.#link.hello?.policy?.maxPayload ?? FILE_MAX) * FRAME_SHARE;
    const all = this.items.reduce((sum, item) => sum + item.size, size);
    if (size === 0) return "is empty.";
    if (this.items.length >= FILES_MAX) return `is one too many: a message takes ${FILES_MAX} files.`;
    if (size > FILE_MAX) return `is too large: ${bytes(size)} of ${bytes(FILE_MAX)}.`;
    return all > most ? `is too much: a message takes ${bytes(most)} in all.` : null;
  }

  #draw() {
    this.element.hidden = this.items.length === 0;
    const drop = (item) => {
      if (item.url) URL.revokeObjectURL(item.url);
      this.items = this.items.filter((other) => other !== item);
      this.#draw();
    };
    replace(this.element, this.items.map((item) => h("li", {}, item.url ? h("img", { src: item.url, alt: "" }) : null, h("span.ellipsis", {}, item.fileName), h("span.muted", {}, bytes(item.size)), button(`Remove ${item.fileName}`, { icon: "close", iconOnly: true, class: "plain", onclick: () => drop(item) }))));
  }
}
