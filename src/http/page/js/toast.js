// Short messages at the edge of the page.

import { button, h } from "./dom.js";

const LIFE_MS = 6000;
const SHOWN_MAX = 3;

let stack;

// kind: "info", or "bad" for what failed, which stays until it is closed.
export function toast(text, kind = "info") {
  if (!stack) {
    stack = h("div.toasts", { role: "status", "aria-live": "polite" });
    document.body.append(stack);
  }
  const item = h("div.toast", { class: kind }, h("span.grow", {}, text));
  item.append(button("Dismiss", { icon: "close", iconOnly: true, class: "plain icon", onclick: () => item.remove() }));
  // The newest ones, each text once.
  for (const other of [...stack.children]) if (other.textContent === item.textContent) other.remove();
  stack.append(item);
  if (stack.childElementCount > SHOWN_MAX) stack.firstElementChild.remove();
  if (kind !== "bad") setTimeout(() => item.remove(), LIFE_MS);
}

// For `.catch`: tells what failed. A lost connection is told by the page itself.
export function failed(error) {
  if (error.code !== "DISCONNECTED") toast(error.message, "bad");
}
