// Markdown to elements. The text may be anybody's: it becomes text nodes and a
// few kinds of elements, never HTML, and takes time in proportion to its length.

import { button, h } from "./dom.js";
import { inline } from "./inline.js";
import { failed } from "./toast.js";

// Lists and quotes in each other; deeper ones are paragraphs.
const DEEPEST = 8;
// Elements of one text; what comes after them is shown without any.
const NODES_MAX = 20_000;
const CELLS_MAX = 50;
// Characters of a cell that is not pressed into a column of single words.
const CELL_LONG = 40;
// Indentation that counts; more of it is code or text.
const FENCE = /^ {0,3}(`{3,}|~{3,})\s{0,9}([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t](.*)|$)/;
const ITEM = /^( {0,40})([-*+]|\d{1,9}[.)])(?:[ \t](.*)|$)/;
const TASK = /^\[([ xX])\] /;
// What a tab at the beginning of a line stands for. Within code it stays one: a Makefile
// that is copied is of no use without.
const TAB = "    ";
const isBlank = (line) => line.trim() === "";
const itemOf = (line) => ITEM.exec(spaced(line));
const indent = (line) => spaced(line).length - line.trimStart().length;

// A line whose indentation is of spaces.
function spaced(line) {
  if (!line.includes("\t")) return line;
  const inner = line.trimStart();
  return line.slice(0, line.length - inner.length).replaceAll("\t", TAB) + inner;
}

// A line without so much of its indentation.
function outdent(line, columns) {
  let [at, left] = [0, Math.min(columns, indent(line))];
  if (left === 0) return line;
  while (left > 0) left -= line[at++] === "\t" ? TAB.length : 1;
  return " ".repeat(-left) + line.slice(at);
}

function isRule(line) {
  const first = line.trimStart()[0];
  return "-*_".includes(first ?? "x") && /^(?:-{3,}|\*{3,}|_{3,})$/.test(line.replace(/\s/g, ""));
}

// The cells of a line of a table.
function cells(line) {
  const found = line.trim().replace(/^\|/, "").replace(/(^|[^\\])\|$/, "$1").split("|", CELLS_MAX);
  const joined = [];
  for (const cell of found) {
    if (joined.at(-1)?.endsWith("\\")) joined.push(`${joined.pop().slice(0, -1)}|${cell}`);
    else joined.push(cell);
  }
  return joined.map((cell) => cell.trim());
}

function columns(line) {
  if (line === undefined || !line.includes("-") || !/^[\s|:-]+$/.test(line)) return null;
  const all = cells(line);
  if (!all.every((cell) => /^:?-+:?$/.test(cell))) return null;
  return all.map((cell) => (cell.endsWith(":") ? (cell.startsWith(":") ? "center" : "right") : null));
}

// Whether a line begins something else than a paragraph.
function begins(line) {
  return FENCE.test(line) || HEADING.test(line) || itemOf(line) || /^ {0,3}>/.test(line) || isRule(line);
}

// The blocks of some lines, each with the number of its first one, `line`.
function parse(lines, depth) {
  const blocks = [];
  let at = 0;
  while (at < lines.length) {
    if (isBlank(lines[at])) {
      at++;
      continue;
    }
    const block = one(lines, at, depth);
    blocks.push({ ...block, line: at });
    at = block.next;
  }
  return blocks;
}

function one(lines, at, depth) {
  const line = lines[at];
  const fence = FENCE.exec(line);
  if (fence) return code(lines, at, fence);
  const heading = HEADING.exec(line);
  if (heading) return { kind: "heading", level: heading[1].length, text: (heading[2] ?? "").replace(/\s#+\s*$/, "").trim(), next: at + 1 };
  if (isRule(line)) return { kind: "rule", next: at + 1 };
  if (depth < DEEPEST && /^ {0,3}>/.test(line)) return quote(lines, at, depth);
  if (depth < DEEPEST && itemOf(line)) return list(lines, at, depth);
  const aligned = line.includes("|") ? columns(lines[at + 1]) : null;
  if (aligned && aligned.length === cells(line).length) return table(lines, at, aligned);
  return paragraph(lines, at);
}

function code(lines, at, [, mark, info]) {
  const margin = indent(lines[at]);
  let end = at + 1;
  const isEnd = (line) => {
    const text = line.trim();
    return text.length >= mark.length && text[0] === mark[0] && indent(line) < 4 && text === mark[0].repeat(text.length);
  };
  while (end < lines.length && !isEnd(lines[end])) end++;
  const inner = lines.slice(at + 1, end).map((line) => outdent(line, margin));
  return { kind: "code", language: info.trim().split(/\s/, 1)[0].slice(0, 40), text: inner.join("\n"), next: end + 1 };
}

function quote(lines, at, depth) {
  const inner = [];
  let end = at;
  while (end < lines.length && (/^ {0,3}>/.test(lines[end]) || (!isBlank(lines[end]) && !begins(lines[end])))) {
    inner.push(lines[end].replace(/^ {0,3}> ?/, ""));
    end++;
  }
  return { kind: "quote", blocks: parse(inner, depth + 1), next: end };
}

function list(lines, at, depth) {
  const [, margin, first] = itemOf(lines[at]);
  const isOrdered = first.length > 1;
  const isOurs = (item) => item && item[1].length < margin.length + 2 && item[2].length > 1 === isOrdered && (isOrdered || item[2] === first);
  const items = [];
  let end = at;
  let isLoose = false;
  while (end < lines.length) {
    const item = isRule(lines[end]) ? null : itemOf(lines[end]);
    if (!isOurs(item)) break;
    const inside = item[1].length + item[2].length + 1;
    const inner = [item[3] ?? ""];
    end++;
    for (let next; (next = written(lines, end)), belongs(lines, end, next, Math.min(inside, item[1].length + 2)); ) {
      do inner.push(outdent(lines[end++], inside));
      while (end < next);
    }
    const blanks = inner.length;
    while (inner.length > 1 && isBlank(inner.at(-1))) inner.pop();
    isLoose ||= inner.length < blanks && isOurs(itemOf(lines[end] ?? ""));
    const task = TASK.exec(inner[0]);
    if (task) inner[0] = inner[0].slice(4);
    items.push({ task: task?.[1], blocks: parse(inner, depth + 1), lines: inner });
  }
  return { kind: "list", isOrdered, isLoose, start: parseInt(first, 10) || 0, items, next: end };
}

// The first line from there on that is not blank.
function written(lines, at) {
  while (at < lines.length && isBlank(lines[at])) at++;
  return at;
}

// Whether what is written next goes on with the item of a list, or blank lines before it
// are between two items.
function belongs(lines, at, next, inside) {
  const line = lines[next];
  if (line === undefined) return false;
  if (indent(line) >= inside) return true;
  return next > at ? itemOf(line) !== null : !isBlank(lines[at - 1]) && !begins(line);
}

function table(lines, at, aligned) {
  let end = at + 2;
  while (end < lines.length && lines[end].includes("|") && !isBlank(lines[end])) end++;
  return { kind: "table", aligned, head: cells(lines[at]), rows: lines.slice(at + 2, end).map(cells), next: end };
}

function paragraph(lines, at) {
  let end = at + 1;
  while (end < lines.length && !isBlank(lines[end]) && !begins(lines[end])) {
    if (lines[end].includes("|") && columns(lines[end + 1])) break;
    end++;
  }
  return { kind: "paragraph", text: lines.slice(at, end).map((line) => line.trim()).join("\n"), next: end };
}

// Copies a text, which may have to be asked for, and says so on the button for a
// moment; null where the browser lets no page copy.
export function copyButton(label, text) {
  if (!navigator.clipboard) return null;
  const copy = button(label, { icon: "copy", iconOnly: true, class: "plain copy" });
  copy.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(await text());
    } catch (error) {
      return failed(error);
    }
    copy.classList.add("done");
    copy.setAttribute("aria-label", "Copied");
    setTimeout(() => {
      copy.classList.remove("done");
      copy.setAttribute("aria-label", label);
    }, 1500);
  });
  return copy;
}

function codeBlock({ language, text }) {
  const bar = h("div.bar", {}, h("span", {}, language || "text"), copyButton("Copy code", () => text));
  return h("div.code", { dir: "ltr" }, bar, h("pre", { tabindex: "0", "aria-label": `Code, ${language || "text"}` }, h("code", {}, text)));
}

// What there are no more elements for.
const plainText = (lines) => h("div.plain-text", {}, lines.join("\n"));

function tableBlock({ aligned, head, rows }, budget) {
  const cell = (name) => (text, column) => {
    const made = h(name, { class: text.length > CELL_LONG ? "long" : null, style: { textAlign: aligned[column] ?? "" } });
    budget.left--;
    inline(made, text, budget);
    return made;
  };
  const row = (texts) => h("tr", {}, texts.slice(0, aligned.length).map(cell("td")));
  const shown = rows.slice(0, Math.max(0, Math.floor(budget.left / aligned.length)));
  const rest = rows.slice(shown.length).map((texts) => texts.join(" | "));
  const made = h("div.scroll-x", { tabindex: "0", role: "group", "aria-label": "Table" }, h("table", {}, h("thead", {}, h("tr", {}, head.map(cell("th")))), h("tbody", {}, shown.map(row))));
  if (rest.length > 0) made.append(plainText(rest));
  return made;
}

function listBlock({ isOrdered, isLoose, start, items }, budget) {
  const item = ({ task, blocks }) => {
    const box = task === undefined ? null : h("input", { type: "checkbox", checked: task !== " ", disabled: true, "aria-label": task === " " ? "to do" : "done" });
    const made = h("li", { class: box ? "task" : null }, box);
    const isTight = !isLoose && blocks.filter((block) => block.kind === "paragraph").length < 2;
    for (const block of blocks) {
      // Items of a tight list have no paragraphs of their own.
      if (block.kind === "paragraph" && isTight) inline(made, block.text, budget);
      else made.append(element(block, budget));
    }
    return made;
  };
  const shown = items.slice(0, Math.max(0, budget.left));
  budget.left -= shown.length;
  const rest = items.slice(shown.length).flatMap(({ lines }) => lines);
  const made = h(isOrdered ? "ol" : "ul", { start: isOrdered && start !== 1 ? String(start) : null }, shown.map(item));
  if (rest.length > 0) made.append(h("li", {}, plainText(rest)));
  return made;
}

function element(block, budget, isOpen = false) {
  budget.left--;
  switch (block.kind) {
    case "code":
      return codeBlock(block);
    case "rule":
      return h("hr");
    case "quote":
      return h("blockquote", {}, block.blocks.map((inner) => element(inner, budget)));
    case "list":
      return listBlock(block, budget);
    case "table":
      return tableBlock(block, budget);
    default: {
      const made = block.kind === "heading" ? h(`h${Math.min(6, block.level + 2)}`, { class: `l${block.level}` }) : h("p");
      inline(made, block.text, budget, isOpen);
      return made;
    }
  }
}

// A text that may grow: only its last block is made anew then.
export class Markdown {
  element = h("div.md");
  #text = "";
  // Where the last block begins, and how much may still be made.
  #stable = 0;
  #left = NODES_MAX;
  #last = null;

  constructor(text = "", isOpen = false) {
    this.set(text, isOpen);
  }

  get text() {
    return this.#text;
  }

  // isOpen: more is to come.
  set(text, isOpen = false) {
    if (!this.#last || !text.startsWith(this.#text.slice(0, this.#stable))) this.#clear();
    this.#text = text;
    this.#last?.remove();
    const lines = text.slice(this.#stable).replaceAll("\r\n", "\n").split("\n");
    const blocks = parse(lines, 0);
    const budget = { left: this.#left };
    let made = null;
    // What begins here is made anew next time: the last block, or all that there are
    // no elements left for.
    let begin = 0;
    for (const [index, block] of blocks.entries()) {
      const isLast = index === blocks.length - 1;
      const isTooMuch = budget.left <= 0;
      if (isLast || isTooMuch) [begin, this.#left] = [block.line, Math.max(0, budget.left)];
      made = isTooMuch ? plainText(lines.slice(block.line)) : element(block, budget, isOpen && isLast);
      // Lists, quotes and tables begin where their script does.
      made.dir ||= "auto";
      this.element.append(made);
      if (isTooMuch) break;
    }
    this.#last = isOpen ? made : null;
    if (begin > 0) this.#stable = this.#after(begin);
  }

  #clear() {
    this.element.replaceChildren();
    this.#stable = 0;
    this.#left = NODES_MAX;
    this.#last = null;
  }

  // Where a line begins, counted from the last block.
  #after(lines) {
    let at = this.#stable;
    for (let line = 0; line < lines; line++) at = this.#text.indexOf("\n", at) + 1;
    return at;
  }
}
