// Model and thinking level of a session.

import { button, h, icon, isComposing, openDialog, replace } from "../dom.js";
import { compact } from "../format.js";
import { failed } from "../toast.js";

const nameOf = ({ modelProvider, model }) => (modelProvider && model ? `${modelProvider}/${model}` : (model ?? ""));

// Asks for a model; resolves to "provider/id", to null for the default one, or to
// undefined when it stays.
function chooseModel(models, current, standard) {
  return openDialog("Model", (close) => {
    const list = h("div.models", { role: "group", "aria-label": "Models" });
    const search = h("input", { type: "search", placeholder: "Search models", "aria-label": "Search models", autofocus: true });
    const row = (model) => {
      const id = `${model.provider}/${model.id}`;
      const marks = [id === current && h("span.badge.accent", {}, "current"), id === standard && h("span.badge", {}, "default"), model.reasoning && h("span.badge", {}, "thinks")];
      const size = model.contextWindow ? h("span.muted.small", {}, compact(model.contextWindow)) : null;
      return h("button.plain", { type: "button", "aria-current": id === current ? "true" : null, onclick: () => close(id) }, h("span.grow.ellipsis", {}, model.name ?? model.id), marks, size);
    };
    const draw = () => {
      const wanted = search.value.toLowerCase();
      const found = models.filter((model) => `${model.provider}/${model.id} ${model.name ?? ""}`.toLowerCase().includes(wanted));
      const groups = Map.groupBy(found, (model) => model.provider);
      replace(list, found.length === 0 ? h("p.muted", {}, "No such model.") : [...groups].map(([provider, own]) => [h("h3", {}, provider), own.map(row)]));
    };
    search.addEventListener("input", draw);
    search.addEventListener("keydown", (event) => {
      if (isComposing(event) || (event.key !== "Enter" && event.key !== "ArrowDown")) return;
      // The key must not go on to what gets the focus.
      event.preventDefault();
      const first = list.querySelector("button");
      if (event.key === "Enter") first?.click();
      else first?.focus();
    });
    draw();
    const actions = h("div.actions", {}, button("Use the default", { onclick: () => close(null) }), button("Cancel", { onclick: () => close() }));
    return h("div.stack.picker", {}, search, list, actions);
  });
}

export class Pickers {
  element = h("div.row.pickers");
  #link;
  #sessions;
  #key;
  #name = h("span.ellipsis");
  #level = h("select", { "aria-label": "Thinking level", title: "Thinking level" });

  constructor(link, sessions, key) {
    this.#link = link;
    this.#sessions = sessions;
    this.#key = key;
    const model = h("button.plain.model", { type: "button", title: "Model", "aria-label": "Model" }, this.#name, icon("down"));
    model.addEventListener("click", () => this.#chooseModel().catch(failed));
    this.#level.addEventListener("change", () => this.#patch({ thinkingLevel: this.#level.value || null }));
    this.element.append(model, this.#level);
  }

  update() {
    const row = this.#sessions.find(this.#key) ?? this.#sessions.defaults;
    const name = nameOf(row);
    if (this.#name.textContent !== name) {
      this.#name.textContent = name;
      this.#name.parentElement.setAttribute("aria-label", `Model: ${name}`);
    }
    const levels = row.thinkingLevels ?? this.#sessions.defaults.thinkingLevels ?? [];
    const standard = this.#sessions.defaults.thinkingDefault ?? "off";
    const options = [["", `Thinking: default`], ...levels.map(({ id, label }) => [id, `Thinking: ${label}`])];
    if (this.#level.options.length !== options.length) replace(this.#level, options.map(([value, text]) => h("option", { value }, text)));
    this.#level.title = `Thinking level; the default is ${standard}`;
    if (document.activeElement !== this.#level) this.#level.value = row.thinkingLevel ?? "";
  }

  async #chooseModel() {
    const { models } = await this.#link.call("models.list");
    const { modelProvider, model } = this.#sessions.defaults;
    const current = nameOf(this.#sessions.find(this.#key) ?? this.#sessions.defaults);
    const chosen = await chooseModel(models, current, nameOf({ modelProvider, model }));
    if (chosen !== undefined) await this.#patch({ model: chosen });
  }

  async #patch(settings) {
    try {
      await this.#link.call("sessions.patch", { key: this.#key, ...settings });
    } catch (error) {
      failed(error);
    }
    await this.#sessions.load().catch(failed);
  }
}
