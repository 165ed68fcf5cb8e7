// Fields for what a schema describes.
//
// A place is {path, hint, schema}: where it stands in the config, where its hint
// stands (`*` for free names and items), and what may stand there.

import { button, h, openDialog, replace } from "../dom.js";
import { REDACTED, isObject, pathText, valueAt, wordsOf } from "./check.js";
import { parse } from "./json5.js";

// More hits of a search are too many to look at.
const HITS_MAX = 40;
const SCALARS = ["string", "number", "integer", "boolean"];
const MASKED = "kept unless you type";
const REMOVED = "removed when you save";

const typesOf = (schema) => [schema.type ?? (schema.anyOf ?? schema.oneOf ?? []).flatMap(typesOf)].flat();
const isMap = (schema) => isObject(schema.additionalProperties);
const text = (value) => (typeof value === "string" ? value : JSON.stringify(value));

export class Form {
  #hints;
  #get;
  #set;
  #stored;
  #count = 0;

  // hints: those of `config.schema`. get(): the config as it is edited. set(path,
  // value): changes it; undefined takes away. stored(): the config as it is saved.
  constructor(hints, get, set, stored) {
    [this.#hints, this.#get, this.#set, this.#stored] = [hints, get, set, stored];
  }

  below({ path, hint, schema }, step) {
    const own = typeof step === "string" && schema.properties?.[step];
    const name = own ? step : "*";
    return { path: [...path, step], hint: hint ? `${hint}.${name}` : name, schema: own || (typeof step === "number" ? schema.items : schema.additionalProperties) || {} };
  }

  #isSecret({ hint, schema }) {
    return this.#hints[hint]?.sensitive || typesOf(schema).join() === "string,object,object,object";
  }

  // A value of a place in which no secret can be read.
  masked(place, value) {
    if (Array.isArray(value)) return value.map((item, index) => this.masked(this.below(place, index), item));
    if (isObject(value)) return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, this.masked(this.below(place, name), item)]));
    if (value === REDACTED) return "(a secret)";
    return typeof value === "string" && !value.startsWith("${") && this.#isSecret(place) ? "(a new secret)" : value;
  }

  label(place) {
    const last = place.path.at(-1);
    const { label } = this.#hints[place.hint] ?? {};
    return label && !place.hint.endsWith("*") ? label : typeof last === "number" ? `Item ${last + 1}` : last;
  }

  #value(place) {
    return valueAt(this.#get(), place.path);
  }

  #kind(place) {
    const { schema } = place;
    const value = this.#value(place);
    const types = typesOf(schema);
    if (this.#isSecret(place) && !isObject(value)) return "secret";
    if (wordsOf(schema)) return "words";
    if (schema.type === "array") return "list";
    if ((schema.properties || isMap(schema)) && (schema.type === "object" || isObject(value))) return "object";
    if (types.join() === "boolean" && typeof value !== "string") return "boolean";
    const isPlain = value === undefined || typeof value !== "object";
    return isPlain && types.some((type) => SCALARS.includes(type)) ? "scalar" : "json";
  }

  // A place with all that is below it.
  show(place) {
    const kind = this.#kind(place);
    if (kind === "object") return this.#group(place, () => this.members(place));
    if (kind === "list") return this.#group(place, () => this.#items(place));
    return this.#row(place, this.#control(place, kind));
  }

  // What is in an object: what most people want first, then groups, then the rest.
  members(place) {
    const { schema } = place;
    const names = Object.keys(schema.properties ?? {});
    const isAdvanced = (name) => this.#hints[this.below(place, name).hint]?.advanced && this.#value(this.below(place, name)) === undefined;
    const isLeaf = (name) => !["object", "list"].includes(this.#kind(this.below(place, name)));
    const usual = names.filter((name) => !isAdvanced(name));
    const shown = [...usual.filter(isLeaf), ...usual.filter((name) => !isLeaf(name))];
    const rest = names.filter(isAdvanced);
    const field = (name) => this.show(this.below(place, name));
    return h("div.fields", {}, shown.map(field), isMap(schema) && this.#entries(place), rest.length > 0 && this.#fold(`Advanced (${rest.length})`, () => h("div.fields", {}, rest.map(field))));
  }

  // Leaves whose name, help or path has all words, of everything below a place.
  *find(place, words) {
    const kind = this.#kind(place);
    const value = this.#value(place);
    if (kind === "object" || (kind === "list" && typesOf(place.schema.items ?? {}).includes("object"))) {
      const free = kind === "list" ? [...(value ?? []).keys()] : isMap(place.schema) ? Object.keys(value ?? {}) : [];
      for (const step of new Set([...Object.keys(place.schema.properties ?? {}), ...free])) yield* this.find(this.below(place, step), words);
      return;
    }
    const about = `${pathText(place.path)} ${this.label(place)} ${place.schema.description ?? ""}`.toLowerCase();
    if (words.every((word) => about.includes(word))) yield place;
  }

  hits(place, query) {
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    const found = [...this.find(place, words)];
    if (found.length === 0) return h("p.empty", {}, `Nothing is called “${query}”.`);
    const more = found.length > HITS_MAX && h("p.muted.small", {}, `${found.length - HITS_MAX} more; type more of the name.`);
    return h("div.fields", {}, found.slice(0, HITS_MAX).map((hit) => this.show(hit)), more);
  }

  // Filled when it is opened: all of a config would be thousands of fields.
  #fold(title, build, isOpen = false) {
    const fold = h("details", { ontoggle: () => fold.open && fold.children.length === 1 && fold.append(build()) }, h("summary", {}, title));
    fold.open = isOpen;
    return fold;
  }

  #group(place, build) {
    const value = this.#value(place);
    const size = Array.isArray(value) ? value.length : isMap(place.schema) && isObject(value) ? Object.keys(value).length : 0;
    const build2 = () => h("div", {}, h("p.small.muted", {}, place.schema.description), build());
    return this.#fold([this.label(place), size > 0 && h("span.badge", {}, String(size))], build2, typeof place.path.at(-1) === "number");
  }

  #row(place, control) {
    const { path, schema, hint } = place;
    const id = `field-${++this.#count}`;
    const input = control.matches("input,select,textarea") ? control : control.querySelector("input,select,textarea");
    input.id = id;
    input.setAttribute("aria-describedby", `${id}-help ${id}-wrong`);
    const help = h("div", { id: `${id}-help` }, schema.description ?? this.#hints[hint]?.help, schema.default !== undefined && [" Default: ", h("code", {}, text(schema.default)), "."]);
    const about = h("div.about", {}, h("label", { for: id }, this.label(place)), h("div.mono", {}, pathText(path)), help);
    return h("div.field-row", { "data-path": pathText(path) }, about, h("div", {}, control, h("p.wrong", { id: `${id}-wrong` })));
  }

  #control(place, kind) {
    return { secret: () => this.#secret(place), words: () => this.#choice(place, wordsOf(place.schema)), boolean: () => this.#choice(place, [true, false]), scalar: () => this.#text(place), json: () => this.#json(place) }[kind]();
  }

  #choice(place, words) {
    const value = this.#value(place);
    const usual = place.schema.default;
    // Something else may stand there: a variable, or a mistake.
    const all = value === undefined || words.includes(value) ? words : [...words, value];
    const name = (word) => (word === true ? "on" : word === false ? "off" : text(word));
    const options = [h("option", { value: "" }, usual === undefined ? "not set" : `default (${name(usual)})`), all.map((word, index) => h("option", { value: String(index), selected: word === value }, name(word)))];
    return h("select", { onchange: ({ target }) => this.#set(place.path, target.value === "" ? undefined : all[target.value]) }, options);
  }

  #text(place) {
    const types = typesOf(place.schema);
    const isNumber = types.includes("number") || types.includes("integer");
    const read = (typed) => {
      if (typed === "") return typeof place.path.at(-1) === "number" ? "" : undefined;
      if (isNumber && /^[+-]?(\d+\.?\d*|\.\d+)$/.test(typed.trim())) return Number(typed);
      return types.includes("boolean") && /^(true|false)$/.test(typed) ? typed === "true" : typed;
    };
    const value = this.#value(place);
    const example = this.#hints[place.hint]?.placeholder;
    const usual = place.schema.default !== undefined ? text(place.schema.default) : example ? `such as ${example}` : null;
    const props = { value: value === undefined ? "" : text(value), placeholder: usual, spellcheck: "false", autocomplete: "off", oninput: ({ target }) => this.#set(place.path, read(target.value)) };
    if (String(value ?? "").includes("\n")) return h("textarea", { rows: 4, ...props });
    return h("input", { type: "text", inputmode: types.every((type) => type === "integer") ? "numeric" : null, ...props });
  }

  #secret(place) {
    const now = this.#value(place);
    const isStored = valueAt(this.#stored(), place.path) === REDACTED || now === REDACTED;
    const shows = typeof now === "string" && now.startsWith("${");
    const input = h("input", { type: shows ? "text" : "password", value: now === REDACTED ? "" : (now ?? ""), autocomplete: "new-password", spellcheck: "false" });
    const change = (value) => {
      this.#set(place.path, value);
      hint();
    };
    const hint = () => (input.placeholder = !isStored ? "not set" : this.#value(place) === undefined ? REMOVED : MASKED);
    input.addEventListener("input", () => change(input.value || (isStored ? REDACTED : undefined)));
    const clear = () => {
      input.value = "";
      change(undefined);
    };
    hint();
    return h("div.entry", {}, input, isStored && button(`Remove ${this.label(place)}`, { icon: "trash", iconOnly: true, onclick: clear }));
  }

  #json(place) {
    const value = this.#value(place);
    const input = h("textarea", { rows: 4, class: "mono", spellcheck: "false", placeholder: "JSON", value: value === undefined ? "" : JSON.stringify(value, null, 2) });
    input.addEventListener("input", () => {
      try {
        this.#set(place.path, input.value.trim() === "" ? undefined : parse(input.value));
      } catch (error) {
        this.#set(place.path, value, `${error.message} (line ${error.line})`);
      }
    });
    return input;
  }

  // Removing one item gives the others new places: all are built anew.
  #listing(place, steps, add) {
    const build = () => {
      const entry = (step) => {
        const one = this.below(place, step);
        const remove = () => {
          this.#set(one.path, undefined);
          rebuild();
        };
        return h("div.entry", {}, h("div.grow", {}, this.show(one)), button(`Remove ${this.label(one)}`, { icon: "trash", iconOnly: true, onclick: remove }));
      };
      return [steps().map(entry), button(`Add to ${this.label(place)}`, { icon: "plus", onclick: async () => (await add()) && rebuild() })];
    };
    const box = h("div");
    const rebuild = () => replace(box, build());
    rebuild();
    return box;
  }

  #items(place) {
    const fresh = () => ({ object: {}, array: [], boolean: false, integer: place.schema.items?.minimum ?? 0 })[typesOf(place.schema.items ?? {})[0]] ?? "";
    const list = () => this.#value(place) ?? [];
    return this.#listing(place, () => [...list().keys()], () => {
      this.#set([...place.path, list().length], fresh());
      return true;
    });
  }

  #entries(place) {
    const names = () => Object.keys(this.#value(place) ?? {}).filter((name) => !place.schema.properties?.[name]);
    const add = async () => {
      const name = await openDialog(`Add to ${this.label(place)}`, (close) => {
        const input = h("input", { required: true, autofocus: true, autocomplete: "off" });
        const submit = (event) => {
          event.preventDefault();
          close(input.value.trim());
        };
        return h("form.stack", { onsubmit: submit }, h("label.field", {}, "Name", input), h("div.actions", {}, button("Cancel", { onclick: () => close() }), h("button.primary", {}, "Add")));
      });
      if (!name || names().includes(name)) return false;
      const { schema } = this.below(place, name);
      this.#set([...place.path, name], typesOf(schema).includes("object") || Object.keys(schema).length === 0 ? {} : "");
      return true;
    };
    return this.#listing(place, names, add);
  }
}
