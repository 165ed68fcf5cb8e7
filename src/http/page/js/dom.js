// Building the page. Text only ever becomes text: nothing here, and nothing in
// any view, takes HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.setAttribute("class", value);
    else if (name === "style") Object.assign(element.style, value);
    else if (name === "value" || name === "checked" || name === "selected") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

// An element: `h("a.button", {href, onclick}, "text", otherNode)`. Children may be
// lists; null, undefined and false are left out. Boolean attributes are true or
// absent; `aria-…` values are strings.
export function h(tag, props, ...children) {
  const [name, ...classes] = tag.split(".");
  const element = document.createElement(name || "div");
  if (classes.length > 0) props = { ...props, class: [...classes, props?.class].filter(Boolean).join(" ") };
  return fill(element, props, children);
}

// The same for SVG.
export function svg(name, props, ...children) {
  return fill(document.createElementNS(SVG, name), props, children);
}

// Puts other children in the place of those that an element has.
export function replace(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

// The same with a list of elements, and moves only what is at another place than before.
export function place(element, wanted) {
  const keep = new Set(wanted);
  for (const child of [...element.children]) if (!keep.has(child)) child.remove();
  let next = element.firstElementChild;
  for (const child of wanted) {
    if (child === next) next = next.nextElementSibling;
    else element.insertBefore(child, next);
  }
}

// Icons are strokes on a field of 24; decoration only, the words are beside them.
const ICONS = {
  chat: "M4 5h16v11H9l-5 4z",
  sessions: "M4 6h16M4 12h16M4 18h10",
  cron: "M12 7v5l3 2M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18",
  devices: "M7 3h10v18H7zM11 18h2",
  logs: "M5 4h14v16H5zM8 9h8M8 13h8M8 17h4",
  usage: "M4 20V10M10 20V4M16 20v-8M21 20H3",
  overview: "M3 12a9 9 0 0 1 18 0M12 12l4-4M5 18h14",
  config: "M4 7h9M17 7h3M15 4v6M4 17h3M11 17h9M9 14v6",
  stop: "M7 7h10v10H7z",
  attach: "M8 12l6-6a3 3 0 0 1 4 4l-8 8a5 5 0 0 1-7-7l7-7",
  plus: "M12 5v14M5 12h14",
  close: "M6 6l12 12M18 6 6 18",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  down: "M6 9l6 6 6-6",
  tool: "M14 6a4 4 0 0 0-5 5l-6 6 4 4 6-6a4 4 0 0 0 5-5l-3 2-3-3z",
  edit: "M4 20h4L19 9l-4-4L4 16z",
  trash: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
  play: "M7 5l12 7-12 7z",
  refresh: "M20 11a8 8 0 1 0-2 6M20 4v7h-7",
  theme: "M12 3a9 9 0 1 0 0 18zM12 3a9 9 0 0 1 0 18",
  more: "M5 12h.01M12 12h.01M19 12h.01",
};

export function icon(name) {
  const shape = svg("path", { d: ICONS[name], fill: "none", stroke: "currentColor", "stroke-width": "1.8", "stroke-linecap": "round", "stroke-linejoin": "round" });
  return svg("svg", { viewBox: "0 0 24 24", width: "18", height: "18", "aria-hidden": "true" }, shape);
}

// A button; `label` is its accessible name, and shown unless `iconOnly`.
export function button(label, { icon: name, iconOnly, ...props } = {}) {
  const shape = name ? icon(name) : null;
  if (iconOnly) return h("button.icon", { type: "button", "aria-label": label, title: label, ...props }, shape);
  return h("button", { type: "button", ...props }, shape, label);
}

// Whether a key is one of an input method, which has a use of its own for it. (Safari
// says so by its code only.)
export const isComposing = (event) => event.isComposing || event.keyCode === 229;

// Opens a dialog and resolves to what its `close(value)` is called with, or to
// undefined when it is dismissed, or when another place of the page is gone to.
// `build(close)` returns its children. isForm: Escape asks first once something was
// typed.
export function openDialog(title, build, { isForm = false } = {}) {
  return new Promise((resolve) => {
    let answer;
    let isTyped = false;
    const box = h("dialog", { "aria-label": title });
    const close = (value) => {
      answer = value;
      box.close();
    };
    const leave = () => close();
    box.append(h("h2", {}, title), ...[build(close)].flat());
    box.addEventListener("input", () => (isTyped = true));
    const ask = async (event) => {
      if (!isForm || !isTyped) return;
      event.preventDefault();
      if (await confirm("Discard what you typed?", "It is not saved.", "Discard")) close();
    };
    // A browser lets a page refuse "cancel" once; the key can be refused each time.
    box.addEventListener("keydown", (event) => event.key === "Escape" && !isComposing(event) && !event.defaultPrevented && ask(event));
    box.addEventListener("cancel", (event) => event.target === box && event.cancelable && ask(event));
    box.addEventListener("close", () => {
      removeEventListener("hashchange", leave);
      box.remove();
      resolve(answer);
    });
    addEventListener("hashchange", leave);
    document.body.append(box);
    box.showModal();
  });
}

// Asks before something that cannot be undone; true when it is wanted.
export async function confirm(title, text, action) {
  const answer = await openDialog(title, (close) => [
    h("p", { style: { marginTop: "0.75rem" } }, text),
    h("div.actions", {}, button("Cancel", { onclick: () => close(false) }), button(action, { class: "danger", onclick: () => close(true) })),
  ]);
  return answer === true;
}
