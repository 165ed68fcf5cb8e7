// Fields of forms: a label, a control, a hint, and beside it what is wrong with it.

import { h, replace } from "./dom.js";

let nextId = 1;

// {root, input, fail(text)}; `fail()` takes the complaint away.
export function field(label, input, hint) {
  const id = `field-${nextId++}`;
  const error = h("p.field-error", { id, role: "alert", hidden: true });
  const note = hint ? h("p.field-hint", { id: `${id}-hint` }, hint) : null;
  if (note) input.setAttribute("aria-describedby", note.id);
  const fail = (text) => {
    error.hidden = !text;
    replace(error, text ?? "");
    if (text) input.setAttribute("aria-invalid", "true");
    else input.removeAttribute("aria-invalid");
    input.setAttribute("aria-describedby", [text && id, note?.id].filter(Boolean).join(" "));
  };
  return { root: h("div.field-box", {}, h("label.field", {}, label, input), error, note), input, fail };
}

// A select of [value, words]; a value that is not among them is added.
export function choice(options, value, props) {
  const known = options.some(([name]) => name === value) ? options : [...options, [value, value]];
  return h("select", props, known.map(([name, words]) => h("option", { value: name, selected: name === value }, words)));
}

// An input with suggestions; `fill(values)` changes those.
export function suggested(props) {
  const list = h("datalist", { id: `list-${nextId++}` });
  const input = h("input", { list: list.id, autocomplete: "off", spellcheck: "false", ...props });
  const fill = (values) => replace(list, values.map((value) => h("option", { value })));
  return { input, list, fill };
}

// One of a few words, as a row of buttons; `onchange` of it tells.
export function tabs(label, options, value, onchange) {
  const name = `tabs-${nextId++}`;
  const item = ([key, words]) => {
    const input = h("input.sr-only", { type: "radio", name, value: key, checked: key === value, onchange: () => onchange(key) });
    return h("label.tab", {}, input, h("span", {}, words));
  };
  return h("div.tabs", { role: "radiogroup", "aria-label": label }, options.map(item));
}

export function check(label, checked, props) {
  const input = h("input", { type: "checkbox", checked, ...props });
  return { root: h("label.check", {}, input, label), input };
}
