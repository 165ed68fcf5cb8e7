// Reads JSON5, and says where it is wrong.

// What is wrong with a text, and where: line and column from 1.
export class SyntaxProblem extends Error {
  constructor(message, text, at) {
    super(message);
    const before = text.slice(0, at).split("\n");
    this.line = before.length;
    this.column = before.at(-1).length + 1;
  }
}

// Deeper is nobody's config.
const DEPTH_MAX = 100;
const ESCAPES = { b: "\b", f: "\f", n: "\n", r: "\r", t: "\t", v: "\v", 0: "\0" };
const SPACE = /(?:\s|\uFEFF|\/\/[^\n\r\u2028\u2029]*|\/\*[^]*?\*\/)*/y;
const NUMBER = /[+-]?(?:0[xX][\da-fA-F]+|Infinity|NaN|(?:(?:0|[1-9]\d*)(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)/y;
const NAME = /[\p{L}\p{Nl}$_][\p{L}\p{Nl}\p{Mn}\p{Mc}\p{Nd}\p{Pc}$\u200C\u200D]*/uy;
const WORDS = { true: true, false: false, null: null };

// The value of a text.
export function parse(text) {
  let at = 0;
  const wrong = (message, where = at) => new SyntaxProblem(message, text, where);
  const match = (pattern) => {
    pattern.lastIndex = at;
    const found = pattern.exec(text)?.[0];
    if (found) at += found.length;
    return found;
  };
  const next = () => {
    match(SPACE);
    if (text.startsWith("/*", at)) throw wrong("this comment does not end");
    return text[at];
  };
  const instead = () => (at >= text.length ? "the text ends here" : `unexpected ${JSON.stringify(String.fromCodePoint(text.codePointAt(at)))}`);

  function value(depth) {
    if (depth > DEPTH_MAX) throw wrong("this is nested too deeply");
    const first = next();
    if (first === "{") return object(depth);
    if (first === "[") return list(depth);
    if (first === '"' || first === "'") return string();
    const number = match(NUMBER);
    if (number) return /^[+-]?0[xX]/.test(number) ? Number(number.replace(/^[+-]/, "")) * (number[0] === "-" ? -1 : 1) : Number(number);
    const start = at;
    const word = match(NAME);
    if (word && Object.hasOwn(WORDS, word)) return WORDS[word];
    throw word ? wrong(`${word} is no value; texts stand in quotes`, start) : wrong(instead());
  }

  // Items up to `end`, with commas between them.
  function items(end, one) {
    at++;
    while (next() !== end) {
      one();
      if (next() === ",") at++;
      else if (text[at] !== end) throw wrong(`${instead()}; a comma or ${end} is missing`);
    }
    at++;
  }

  function object(depth) {
    const found = {};
    items("}", () => {
      const start = at;
      const name = text[at] === '"' || text[at] === "'" ? string() : match(NAME);
      if (name === undefined) throw wrong(`${instead()}; here is the name of a key expected`);
      if (Object.hasOwn(found, name)) throw wrong(`${name} is there twice`, start);
      if (next() !== ":") throw wrong(`${instead()}; a colon is missing after ${name}`);
      at++;
      Object.defineProperty(found, name, { value: value(depth + 1), enumerable: true, writable: true, configurable: true });
    });
    return found;
  }

  function list(depth) {
    const found = [];
    items("]", () => found.push(value(depth + 1)));
    return found;
  }

  function string() {
    const [start, quote] = [at, text[at++]];
    let found = "";
    for (;;) {
      const char = text[at++];
      if (char === quote) return found;
      if (char === undefined || char === "\n" || char === "\r") throw wrong("this text does not end", start);
      found += char === "\\" ? escape() : char;
    }
  }

  function escape() {
    const char = text[at++];
    const digits = { x: 2, u: 4 }[char];
    if (digits) {
      const code = text.slice(at, at + digits);
      if (!/^[\da-fA-F]+$/.test(code) || code.length < digits) throw wrong(`\\${char} needs ${digits} digits`);
      at += digits;
      return String.fromCharCode(Number.parseInt(code, 16));
    }
    if (char === "\r" && text[at] === "\n") at++;
    return "\r\n\u2028\u2029".includes(char) ? "" : (ESCAPES[char] ?? char);
  }

  const whole = value(0);
  if (next() !== undefined) throw wrong(`${instead()} after the end`);
  return whole;
}
