// Where messages are written.

import { button, h, isComposing } from "../dom.js";
import { failed } from "../toast.js";
import { CommandMenu } from "./commands.js";

const HISTORY_MAX = 100;

export class Composer {
  element;
  #field;
  #menu;
  #writing;
  #files;
  #told;
  #stop = button("Stop", { icon: "stop", class: "stop", hidden: true, title: "Stop the answer (Esc)" });
  #send = h("button.primary", { type: "submit", title: "Send (Enter)" }, "Send");
  #hint = h("span.hint");
  #said = [];
  #back = -1;
  #isOffline = false;

  // writing: that of the session. told: {send(text, attachments), abort(), written(said)};
  // written: resolves to the text of one of what was said.
  constructor(link, writing, told) {
    this.#writing = writing;
    this.#told = told;
    this.#files = writing.files;
    this.#files.changed = () => this.#tell();
    writing.restored = () => {
      this.#set(writing.draft);
      this.#focus();
    };
    this.#field = h("textarea", { rows: "1", "aria-label": "Message", placeholder: "Message…", enterkeyhint: "send", "aria-autocomplete": "list", "aria-controls": "commands" });
    this.#menu = new CommandMenu(link, this.#field, (text) => this.#set(text));
    this.#field.addEventListener("input", () => this.#changed());
    this.#field.addEventListener("keydown", (event) => this.#press(event));
    this.#field.addEventListener("paste", (event) => this.#paste(event));
    this.#field.addEventListener("blur", () => this.#menu.close());
    this.#stop.addEventListener("click", () => told.abort());
    this.element = this.#build();
    this.#set(writing.draft);
  }

  // state: {isBusy, isOffline, said}; said: what was said before, the newest last.
  update({ isBusy, isOffline, said }) {
    const hasFocus = document.activeElement === this.#stop;
    this.#stop.hidden = !isBusy;
    if (hasFocus && !isBusy) this.focus();
    this.#send.textContent = isBusy ? "Queue" : "Send";
    this.#isOffline = isOffline;
    this.#tell();
    this.#said = said.slice(-HISTORY_MAX);
  }

  focus() {
    // Before it was on the screen, its draft had no height.
    this.#grow();
    // On a phone the keyboard would cover what is read.
    if (matchMedia("(hover: hover)").matches) this.#focus();
  }

  #focus() {
    this.#field.focus({ preventScroll: true });
  }

  end() {
    this.#files.changed = this.#writing.restored = null;
    // It outlasts this composer, and would keep all of the conversation with it.
    this.#files.element.remove();
  }

  // Says why a message does not go at once.
  #tell() {
    const { isBusy } = this.#files;
    this.#send.disabled = isBusy;
    if (isBusy) this.#hint.textContent = "Your message can be sent when its files are uploaded.";
    else this.#hint.textContent = this.#isOffline ? "Not connected: your message is sent when the connection is back." : "";
  }

  drop(files) {
    this.#files.add(files);
  }

  #build() {
    const picker = h("input", { type: "file", multiple: true, hidden: true, tabindex: "-1", "aria-label": "Files" });
    picker.addEventListener("change", () => {
      this.#files.add([...picker.files]);
      picker.value = "";
    });
    const attach = button("Attach files", { icon: "attach", iconOnly: true, class: "plain", onclick: () => picker.click() });
    const submit = (event) => {
      event.preventDefault();
      this.#submit();
    };
    const row = h("div.row", {}, attach, this.#field, this.#stop, this.#send, picker);
    return h("form.composer", { onsubmit: submit }, this.#menu.element, this.#files.element, row, this.#hint);
  }

  #set(text) {
    this.#field.value = text;
    this.#field.setSelectionRange(text.length, text.length);
    this.#changed();
  }

  #changed() {
    if (this.#writing.draft !== this.#field.value) this.#writing.draft = this.#field.value;
    this.#menu.follow();
    this.#grow();
    this.#back = -1;
  }

  // While it is measured all of it stays as high as it is: the conversation above would
  // be scrolled otherwise.
  #grow() {
    const { style } = this.element;
    style.height = `${this.element.offsetHeight}px`;
    this.#field.style.height = "auto";
    if (this.#field.isConnected) this.#field.style.height = `${this.#field.scrollHeight + 2}px`;
    style.height = "";
  }

  #press(event) {
    if (isComposing(event) || this.#menu.key(event)) return;
    if (event.key === "Enter" && !event.shiftKey && !event.altKey) {
      event.preventDefault();
      this.#submit();
    } else if (event.key === "ArrowUp" || event.key === "ArrowDown") {
      this.#recall(event).catch(failed);
    }
  }

  // Through what was said before, from an empty field or from what was recalled.
  async #recall(event) {
    const isUp = event.key === "ArrowUp";
    const { value } = this.#field;
    if (this.#back < 0 && (!isUp || value !== "")) return;
    const back = this.#back + (isUp ? 1 : -1);
    if (back >= this.#said.length) return;
    event.preventDefault();
    const text = back < 0 ? "" : await this.#told.written(this.#said.at(-1 - back));
    // Somebody may have typed meanwhile.
    if (this.#field.value !== value) return;
    this.#set(text);
    this.#menu.close();
    this.#back = back;
  }

  #paste(event) {
    const files = [...(event.clipboardData?.files ?? [])];
    const text = event.clipboardData?.getData("text/plain").trim() ?? "";
    // Cells come with a picture of them; files may come with their names.
    if (files.length === 0 || (text && !files.some(({ name }) => text.endsWith(name)))) return;
    event.preventDefault();
    this.#files.add(files);
  }

  #submit() {
    const text = this.#field.value.trim();
    if (this.#files.isBusy) return;
    if (!text && this.#files.items.length === 0) return;
    const attachments = this.#files.take();
    this.#set("");
    this.#told.send(text, attachments);
  }
}
