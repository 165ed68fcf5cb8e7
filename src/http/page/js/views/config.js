// The config file: by fields, or as the text that it is.

import { REDACTED, changes, check, pathText, withValue } from "../config/check.js";
import { Form } from "../config/form.js";
import { parse } from "../config/json5.js";
import { merge } from "../config/merge.js";
import { button, h, openDialog, replace } from "../dom.js";
import { toast } from "../toast.js";

const STALE = "config changed since last load";
const ISSUES_SHOWN = 8;

// What is not saved yet stays while other views are looked at.
let kept = null;

addEventListener("beforeunload", (event) => kept?.isChanged() && event.preventDefault());

const shown = (value) => (value === undefined ? h("i.muted", {}, "nothing") : JSON.stringify(value));

// masked(path, value): without its secrets.
function diffTable(found, masked) {
  const row = ({ path, before, after }) => {
    const isSecret = before === REDACTED && typeof after === "string" && !after.startsWith("${");
    return h("tr", {}, h("th", { scope: "row" }, pathText(path) || "all of it"), h("td", {}, shown(masked(path, before))), h("td", {}, shown(isSecret ? "(a new secret)" : masked(path, after))));
  };
  const head = h("tr", {}, ["Setting", "Before", "After"].map((name) => h("th", { scope: "col" }, name)));
  return h("div.scroll.diff", { tabindex: "0", role: "region", "aria-label": "Changes" }, h("table", {}, h("thead", {}, head), h("tbody", {}, found.map(row))));
}

// A config that is being edited.
class Draft {
  mode = "form";
  section = null;
  query = "";
  // What the gateway said of the last try, and mistakes that are no values.
  refused = [];
  typed = new Map();

  constructor(snapshot, { schema, uiHints }) {
    Object.assign(this, { snapshot, schema, hints: uiHints });
    this.discard();
  }

  // The text of a file with secrets is not shown; its content is.
  get hidesText() {
    return typeof this.snapshot.raw !== "string";
  }

  discard() {
    this.value = this.snapshot.config;
    this.text = this.base = this.hidesText ? `${JSON.stringify(this.snapshot.parsed, null, 2)}\n` : this.snapshot.raw;
    this.refused = [];
    this.typed.clear();
  }

  changes() {
    if (this.mode === "form") return changes(this.snapshot.config, this.value);
    try {
      return changes(parse(this.base.trim() || "{}"), parse(this.text.trim() || "{}"));
    } catch {
      return [];
    }
  }

  isChanged() {
    return this.mode === "raw" ? this.text !== this.base : this.typed.size > 0 || this.changes().length > 0;
  }

  set(path, value, mistake) {
    const name = pathText(path);
    if (mistake) this.typed.set(name, mistake);
    else {
      this.typed.delete(name);
      this.value = withValue(this.value, path, value);
    }
    this.refused = [];
  }

  // What is wrong: [{path, message}], paths as texts, with the line in a raw text.
  issues() {
    let value = this.value;
    if (this.mode === "raw") {
      try {
        value = parse(this.text.trim() || "{}");
      } catch (error) {
        return [{ path: "", message: `${error.message} (line ${error.line}, column ${error.column})`, line: error.line }];
      }
    }
    const typed = [...this.typed].map(([path, message]) => ({ path, message }));
    return [...typed, ...check(this.schema, value).map(({ path, message }) => ({ path: pathText(path), message })), ...this.refused];
  }
}

function mount(root, { link }) {
  const head = h("header");
  const notices = h("div.stack");
  const body = h("div");
  const bar = h("div.savebar", { role: "region", "aria-label": "Changes" });
  replace(root, h("div.page", {}, head, notices, body, bar));
  let draft = kept;
  let isOver = false;
  let isDrawn = false;

  const form = () => new Form(draft.hints, () => draft.value, (...change) => {
    draft.set(...change);
    tell();
  }, () => draft.snapshot.config);
  const top = () => ({ path: [], hint: "", schema: draft.schema });
  const masked = (path, value) => {
    const fields = form();
    return fields.masked(path.reduce((place, step) => fields.below(place, step), top()), value);
  };

  async function load() {
    const [snapshot, schema] = await Promise.all([link.call("config.get"), draft ?? link.call("config.schema")]);
    if (isOver) return;
    if (!draft) draft = kept = new Draft(snapshot, schema);
    // Who is typing goes on typing where nothing is new.
    else if (snapshot.hash === draft.snapshot.hash && isDrawn) return;
    else if (snapshot.hash !== draft.snapshot.hash && draft.isChanged()) return conflict(snapshot);
    else if (!draft.isChanged()) take(snapshot);
    draw();
  }

  function take(snapshot) {
    draft.snapshot = snapshot;
    draft.discard();
  }

  function draw() {
    const modes = ["form", "raw"].map((mode) => button(mode === "form" ? "Fields" : "Text", { "aria-pressed": String(draft.mode === mode), onclick: () => turnTo(mode) }));
    replace(head, h("h1", {}, "Config"), h("div.row", { role: "group", "aria-label": "Show as" }, modes));
    const { valid, issues, warnings, path } = draft.snapshot;
    const list = (all) => h("ul", {}, all.map((issue) => h("li", {}, h("code", {}, issue.path || "the file"), `: ${issue.message}`)));
    replace(
      notices,
      h("p.small.muted", {}, "The file is ", h("code", {}, path), ". Comments stay when you save."),
      !valid && h("div.notice.bad", {}, "The file is not valid; the gateway goes on with the one before it.", list(issues)),
      warnings.length > 0 && h("div.notice.warn", {}, list(warnings)),
    );
    if (draft.mode === "raw") drawText();
    else drawForm();
    tell();
    isDrawn = true;
  }

  // Changes of one kind do not go over into the other.
  function turnTo(mode) {
    if (draft.mode !== mode && draft.isChanged()) return toast("Save or discard the changes first.");
    draft.mode = mode;
    draw();
    head.querySelector('[aria-pressed="true"]').focus();
  }

  function drawForm() {
    const order = (name) => draft.hints[name]?.order ?? 999;
    const sections = Object.keys(draft.schema.properties).filter((name) => draft.hints[name]?.order).sort((a, b) => order(a) - order(b));
    draft.section ??= sections[0];
    const content = h("div");
    const search = h("input", { type: "search", value: draft.query, placeholder: "Search settings", "aria-label": "Search settings", oninput: () => ((draft.query = search.value), fill()) });
    const open = (name) => {
      [draft.section, draft.query, search.value] = [name, "", ""];
      fill();
    };
    const items = sections.map((name) => button(draft.hints[name].label ?? name, { "data-section": name, onclick: () => open(name) }));
    const fill = () => {
      const fields = form();
      for (const item of items) {
        if (!draft.query && item.dataset.section === draft.section) item.setAttribute("aria-current", "true");
        else item.removeAttribute("aria-current");
      }
      if (draft.query) replace(content, fields.hits(top(), draft.query));
      else {
        const place = fields.below(top(), draft.section);
        const inner = place.schema.type === "object" ? fields.members(place) : fields.show(place);
        replace(content, h("h2", {}, fields.label(place)), h("p.muted.small", {}, place.schema.description), inner);
      }
      tell();
    };
    find = (path) => {
      [draft.query, search.value] = [path, path];
      fill();
      content.querySelector("input,select,textarea")?.focus();
    };
    replace(body, h("div.stack", {}, search, h("div.config", {}, h("nav", { "aria-label": "Sections" }, items), h("div.card.stack", {}, content))));
    fill();
  }
  let find = () => {};

  function drawText() {
    const numbers = h("pre", { "aria-hidden": "true" });
    const area = h("textarea", { "aria-label": "Text of the config file", value: draft.text, spellcheck: "false", autocapitalize: "off", "aria-describedby": "config-issues" });
    const number = () => {
      const wrong = draft.issues().find(({ line }) => line)?.line;
      replace(numbers, draft.text.split("\n").map((_, index) => (index + 1 === wrong ? h("b", {}, `${index + 1}\n`) : `${index + 1}\n`)));
      numbers.scrollTop = area.scrollTop;
    };
    area.addEventListener("scroll", () => (numbers.scrollTop = area.scrollTop));
    area.addEventListener("input", () => {
      draft.text = area.value;
      draft.refused = [];
      number();
      tell();
    });
    find = () => area.focus();
    const hidden = draft.hidesText && h("p.notice", {}, "The file has secrets, so what stands in it is shown without its comments. They stay, and so does each secret that you leave as it is.");
    replace(body, h("div.stack", {}, hidden, h("div.raw", {}, numbers, area)));
    number();
  }

  // What is wrong and what is different, beside the fields and in the bar.
  function tell() {
    const issues = draft.issues();
    const found = draft.changes();
    const covers = (path, other) => other === path || other.startsWith(`${path}.`) || other.startsWith(`${path}[`);
    const rows = [...body.querySelectorAll("[data-path]")];
    // Of a place with several fields it is told beside the first one.
    const rowOf = (issue) => rows.find(({ dataset }) => covers(dataset.path, issue.path)) ?? rows.find(({ dataset }) => issue.path && covers(issue.path, dataset.path));
    const placed = Map.groupBy(issues, rowOf);
    for (const row of rows) {
      const { path } = row.dataset;
      const own = placed.get(row) ?? [];
      const input = row.querySelector("input,select,textarea");
      if (own.length > 0) input.setAttribute("aria-invalid", "true");
      else input.removeAttribute("aria-invalid");
      replace(row.querySelector(".wrong"), own.map(({ message }) => message).join("; "));
      row.classList.toggle("changed", found.some((change) => covers(path, pathText(change.path)) || covers(pathText(change.path), path)));
    }
    const isChanged = draft.isChanged();
    bar.hidden = !isChanged && issues.length === 0;
    const said = isChanged ? (found.length === 0 ? "Changed" : `${found.length} ${found.length === 1 ? "change" : "changes"}`) : "";
    const go = ({ path, message }) => h("li", {}, path ? button(path, { class: "plain mono", onclick: () => find(path) }) : null, `${path ? " " : ""}${message}`);
    replace(
      bar,
      h("span.grow", { role: "status" }, said, issues.length > 0 && h("span.bad", {}, `${said ? ", " : ""}${issues.length} ${issues.length === 1 ? "mistake" : "mistakes"}`)),
      isChanged && button("Discard", { onclick: () => (draft.discard(), draw()) }),
      isChanged && button("Save…", { class: "primary", disabled: issues.length > draft.refused.length, onclick: () => save() }),
      h("ul.small", { id: "config-issues", style: { flexBasis: "100%", margin: "0" }, hidden: issues.length === 0 }, issues.slice(0, ISSUES_SHOWN).map(go)),
    );
  }

  async function save() {
    const found = draft.changes();
    const text = found.length === 0 ? h("p", {}, "Only comments or the layout are different.") : diffTable(found, masked);
    const isWanted = await openDialog(`Save ${found.length === 1 ? "this change" : "these changes"}?`, (close) => [
      text,
      h("div.actions", {}, button("Cancel", { onclick: () => close(false) }), button("Save", { class: "primary", onclick: () => close(true) })),
    ]);
    if (!isWanted) return;
    const raw = draft.mode === "raw" ? draft.text : JSON.stringify(draft.value, null, 2);
    try {
      const { requiresRestart } = await link.call("config.set", { raw, baseHash: draft.snapshot.hash });
      toast(requiresRestart ? "Saved. Some of it is used after a restart of the gateway." : "Saved, and in use.");
      take(await link.call("config.get"));
      draw();
    } catch (error) {
      await refuse(error);
    }
  }

  async function refuse(error) {
    if (error.message.startsWith(STALE)) return conflict(await link.call("config.get"));
    if (error.code === "DISCONNECTED") return toast("The connection was lost before the gateway answered. Look whether it is saved once it is back.", "bad");
    draft.refused = error.details.issues ?? [{ path: "", message: error.message }];
    if (error.retryAfterMs) toast(`The gateway takes only so many changes a minute: try again in ${Math.ceil(error.retryAfterMs / 1000)} s.`, "bad");
    tell();
    find(draft.refused[0].path);
  }

  // Somebody else has changed the file meanwhile: their changes are shown, and
  // ours are put on top of them or given up.
  async function conflict(snapshot) {
    const base = draft.snapshot.config;
    const theirs = changes(base, snapshot.config);
    const choices = new Map();
    const ask = (path, mine) => {
      const name = pathText(path);
      choices.set(name, h("select", {}, h("option", { value: "mine" }, "Mine"), h("option", { value: "theirs" }, "Theirs")));
      return mine;
    };
    if (draft.mode === "form") merge(base, draft.value, snapshot.config, ask);
    const keep = await openDialog("Somebody else has changed the config", (close) => [
      h("p", {}, theirs.length > 0 ? "This is different now:" : "Only comments or the layout of the file are different."),
      theirs.length > 0 && diffTable(theirs, masked),
      h("p.small.muted", {}, draft.mode === "raw" ? "If you keep your text, saving it overwrites these changes." : "If you keep your changes, they are put on top of these."),
      choices.size > 0 && h("div.stack", { style: { marginTop: "0.75rem" } }, h("p", {}, "Both of you have changed these, and they cannot be put together. Choose whose stays:"), [...choices].map(([name, choice]) => h("label.field", {}, name, choice))),
      h("div.actions", {}, button("Discard mine", { class: "danger", onclick: () => close(false) }), button("Keep mine", { class: "primary", onclick: () => close(true) })),
    ].filter(Boolean));
    if (isOver) return;
    if (keep === false) take(snapshot);
    else if (keep) {
      const { text, value } = draft;
      take(snapshot);
      if (draft.mode === "raw") draft.text = text;
      else draft.value = merge(base, value, snapshot.config, (path, mine, other) => (choices.get(pathText(path)).value === "mine" ? mine : other));
    }
    draw();
  }

  const failed = (error) => {
    isDrawn = false;
    replace(notices, h("p.notice.bad", {}, error.message));
  };
  const begin = () => load().catch(failed);
  const end = link.on("ready", begin);
  begin();
  return {
    leave() {
      isOver = true;
      end();
    },
  };
}

export const view = { id: "config", title: "Config", icon: "config", forget: () => (kept = null), mount };
