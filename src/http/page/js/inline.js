// Text within a paragraph: emphasis, code, links. One pass over the text, then
// one over what was found, whatever the text is.

import { h } from "./dom.js";

// Elements may lie in each other this deep; what is deeper is shown as text.
const DEEPEST = 12;
// Longest address of a link.
const ADDRESS_MAX = 2000;
// Where the end of a text that still grows begins.
const TAIL = 2500;
const SAFE = /^(?:https?:\/\/|mailto:)/i;
const PICTURE = /^(?:data:image\/(?:png|jpeg|gif|webp);base64,|blob:)/i;
const BARE = new RegExp(`https?://[^\\s<>"'\`\\\\]{1,${ADDRESS_MAX}}`, "y");
const ANGLED = new RegExp(`<((?:https?://|mailto:)[^\\s<>]{1,${ADDRESS_MAX}})>`, "iy");
const SPECIAL = /[\\`*_~[\]!<\nh]/g;
// A link whose address is still coming.
const HALF_LINK = /\[([^[\]\n]{1,200})\]\([^\s()]{0,2000}$/;
const ESCAPABLE = /[!-/:-@[-`{-~]/;
const TAGS = { "*1": "em", "_1": "em", "*2": "strong", "_2": "strong", "~2": "del" };
const isWord = (char) => char !== undefined && /[\p{L}\p{N}_]/u.test(char);
const isSpace = (char) => char === undefined || /\s/.test(char);

// A link that leaves the page; text where the address is of another kind.
export function link(address, children) {
  if (!SAFE.test(address)) return children;
  return h("a", { href: address, target: "_blank", rel: "noopener noreferrer" }, children);
}

// Where each "[" of a text is closed.
function brackets(text) {
  const closes = new Map();
  const open = [];
  for (let at = 0; at < text.length; at++) {
    const char = text[at];
    if (char === "\\") at++;
    else if (char === "[") open.push(at);
    else if (char === "]" && open.length > 0) closes.set(open.pop(), at);
  }
  return closes;
}

// The runs of backticks: [{at, size}], and for each the next one of its size.
function fences(text) {
  const next = new Map();
  const last = new Map();
  for (const { 0: run, index } of text.matchAll(/`+/g)) {
    if (last.has(run.length)) next.set(last.get(run.length), index);
    last.set(run.length, index);
  }
  return next;
}

// "(address "title")" at a place: [address, where it ends].
function target(text, at) {
  const found = /\(\s{0,9}(?:<([^<>\n]{0,2000})>|([^\s()<>]{0,2000}(?:\([^\s()<>]{0,2000}\)[^\s()<>]{0,2000})?))(?:\s{1,9}"[^"\n]{0,500}")?\s{0,9}\)/y;
  found.lastIndex = at;
  const match = found.exec(text);
  return match ? [match[1] ?? match[2] ?? "", found.lastIndex] : null;
}

// Text and tags in a row. A mark that may begin something is text until its
// other half is found.
class Scanner {
  out = [];
  #text;
  #closes;
  #next;
  #open = [];
  // How many of each mark are open, so that none is searched for in vain.
  #waiting = new Map();
  #links = [];

  constructor(text) {
    this.#text = text;
    this.#closes = text.includes("[") ? brackets(text) : new Map();
    this.#next = text.includes("`") ? fences(text) : new Map();
  }

  // isOpen: more of the text may come, so a last half-open mark counts.
  run(isOpen) {
    const text = this.#text;
    let at = 0;
    while (at < text.length) {
      if (this.#links.at(-1)?.end <= at) {
        at = Math.max(at, this.#endLink());
        continue;
      }
      SPECIAL.lastIndex = at;
      const found = SPECIAL.exec(text)?.index ?? text.length;
      const end = Math.min(found, this.#links.at(-1)?.end ?? text.length);
      if (end > at) {
        this.#say(text.slice(at, end));
        at = end;
      } else {
        at = this.#special(at);
      }
    }
    if (isOpen) this.#closeAll();
    return this.out;
  }

  #say(text) {
    if (typeof this.out.at(-1) === "string") this.out[this.out.length - 1] += text;
    else this.out.push(text);
  }

  #special(at) {
    const text = this.#text;
    const char = text[at];
    if (char === "\n") return this.out.push({ line: true }), at + 1;
    if (char === "\\") return this.#escape(at);
    if (char === "`") return this.#code(at);
    if (char === "[") return this.#link(at, at);
    if (char === "!" && text[at + 1] === "[") return this.#picture(at);
    if (char === "<" || char === "h") return this.#address(at);
    if (char === "*" || char === "_" || char === "~") return this.#mark(at, char);
    this.#say(char);
    return at + 1;
  }

  #escape(at) {
    const next = this.#text[at + 1];
    if (next === "\n") return this.out.push({ line: true }), at + 2;
    if (next === undefined || !ESCAPABLE.test(next)) return this.#say("\\"), at + 1;
    this.#say(next);
    return at + 2;
  }

  #code(at) {
    const text = this.#text;
    let start = at;
    while (text[start] === "`") start++;
    const close = this.#next.get(at);
    const limit = this.#links.at(-1)?.end ?? text.length;
    if (close === undefined || close > limit) return this.#say(text.slice(at, start)), start;
    let inner = text.slice(start, close).replaceAll("\n", " ");
    if (inner.length > 2 && inner[0] === " " && inner.at(-1) === " ") inner = inner.slice(1, -1);
    this.out.push({ code: inner });
    return close + (start - at);
  }

  #address(at) {
    const text = this.#text;
    const pattern = text[at] === "<" ? ANGLED : BARE;
    pattern.lastIndex = at;
    const match = this.#links.length === 0 && !isWord(text[at - 1]) ? pattern.exec(text) : null;
    if (!match) return this.#say(text[at]), at + 1;
    if (match[1]) return this.out.push({ href: match[1], text: match[1].replace(/^mailto:/i, "") }), at + match[0].length;
    let address = match[0].replace(/[.,;:!?*_~]+$/, "");
    while (address.endsWith(")") && !address.includes("(")) address = address.slice(0, -1);
    address = address.replace(/[\]}]$/, "");
    this.out.push({ href: address, text: address });
    return at + address.length;
  }

  #picture(at) {
    const close = this.#closes.get(at + 1);
    const aim = close === undefined ? null : target(this.#text, close + 1);
    if (!aim) return this.#say("!"), at + 1;
    const alt = this.#text.slice(at + 2, Math.min(close, at + 2 + ADDRESS_MAX));
    this.out.push(PICTURE.test(aim[0]) ? { picture: aim[0], alt } : { href: aim[0], text: alt || aim[0] });
    return aim[1];
  }

  #link(at) {
    const close = this.#closes.get(at);
    const aim = close === undefined || this.#links.length > 0 ? null : target(this.#text, close + 1);
    if (!aim) return this.#say("["), at + 1;
    this.#links.push({ end: close, after: aim[1], open: this.#open, waiting: this.#waiting });
    // What is open outside of a link is not closed within it.
    this.#open = [];
    this.#waiting = new Map();
    this.out.push({ begin: "a", href: aim[0] });
    return at + 1;
  }

  #endLink() {
    const { after, open, waiting } = this.#links.pop();
    this.#open = open;
    this.#waiting = waiting;
    this.out.push({ end: "a" });
    return after;
  }

  #mark(at, char) {
    const text = this.#text;
    let end = at;
    while (text[end] === char) end++;
    const [before, after] = [text[at - 1], text[end]];
    const opens = !isSpace(after) && (char !== "_" || !isWord(before));
    const closes = !isSpace(before) && (char !== "_" || !isWord(after));
    let left = end - at;
    // A long row of marks is a line that somebody drew.
    if (left > 3 || (char === "~" && left !== 2)) return this.#say(text.slice(at, end)), end;
    while (closes && left > 0) {
      // The innermost first, then whichever is open at all.
      const inner = this.#open.at(-1)?.kind;
      const sizes = inner === `${char}1` ? [1, 2] : [2, 1];
      const size = sizes.find((size) => size <= left && this.#close(char + size));
      if (!size) break;
      left -= size;
    }
    for (const size of [2, 1]) {
      if (!opens || left < size || !TAGS[char + size]) continue;
      this.#begin(char + size, char.repeat(size));
      left -= size;
    }
    if (left > 0) this.#say(char.repeat(left));
    return end;
  }

  #begin(kind, mark) {
    this.#open.push({ kind, at: this.out.length });
    this.#waiting.set(kind, (this.#waiting.get(kind) ?? 0) + 1);
    this.out.push({ mark });
  }

  #drop() {
    const last = this.#open.pop();
    this.#waiting.set(last.kind, this.#waiting.get(last.kind) - 1);
    return last;
  }

  #close(kind) {
    if (!TAGS[kind] || !this.#waiting.get(kind)) return false;
    for (;;) {
      const last = this.#drop();
      if (last.kind !== kind) continue;
      if (last.at === this.out.length - 1) {
        // Nothing is between them.
        this.out[last.at] = this.out[last.at].mark.repeat(2);
        return true;
      }
      this.out[last.at] = { begin: TAGS[kind] };
      this.out.push({ end: TAGS[kind] });
      return true;
    }
  }

  #closeAll() {
    while (this.#open.length > 0 && this.#links.length === 0) {
      const { kind, at } = this.#drop();
      if (kind[1] !== "2" || at === this.out.length - 1) continue;
      this.out[at] = { begin: TAGS[kind] };
      this.out.push({ end: TAGS[kind] });
    }
  }
}

function leaf(piece) {
  if (typeof piece === "string") return piece;
  if (piece.mark) return piece.mark;
  if (piece.line) return h("br");
  if (piece.code !== undefined) return h("code", {}, piece.code);
  if (piece.picture) return h("img", { src: piece.picture, alt: piece.alt });
  return link(piece.href, piece.text);
}

// Appends text of a paragraph. budget: {left}, how many nodes may be made.
export function inline(parent, text, budget, isOpen = false) {
  if (budget.left <= 0) return parent.append(text);
  const stack = [parent];
  const shown = isOpen ? text.slice(0, -TAIL) + text.slice(-TAIL).replace(HALF_LINK, "$1") : text;
  for (const piece of new Scanner(shown).run(isOpen)) {
    const into = stack.at(-1);
    if (piece.begin) {
      const isShown = stack.length < DEEPEST && budget.left-- > 0;
      const made = !isShown ? null : piece.begin === "a" ? link(piece.href, []) : h(piece.begin);
      // A link to somewhere else than the web is its text.
      const element = made instanceof Element ? made : null;
      if (element) into.append(element);
      stack.push(element ?? into);
    } else if (piece.end) {
      stack.pop();
    } else if (budget.left-- > 0 || typeof piece === "string") {
      into.append(...[leaf(piece)].flat());
    } else {
      into.append(piece.code ?? piece.text ?? piece.mark ?? piece.alt ?? "\n");
    }
  }
}
