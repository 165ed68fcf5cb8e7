// What may stand where, and what is different.

// What stands in the place of a secret.
export const REDACTED = "__OPENCLAW_REDACTED__";

export const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

// A path as the gateway writes it: `agents.list[0].id`.
export function pathText(path) {
  return path.reduce((text, step) => {
    if (typeof step === "number") return `${text}[${step}]`;
    if (/[.["]/.test(step) || step === "") return `${text}[${JSON.stringify(step)}]`;
    return text ? `${text}.${step}` : step;
  }, "");
}

export const valueAt = (value, path) => path.reduce((at, step) => at?.[step], value);

// The same with another value at a place; undefined takes it away.
export function withValue(whole, [step, ...rest], value) {
  if (step === undefined) return value;
  if (typeof step === "number") {
    const list = [...(whole ?? [])];
    const next = withValue(list[step], rest, value);
    if (next === undefined) list.splice(step, 1);
    else list[step] = next;
    return list;
  }
  const { [step]: before, ...others } = isObject(whole) ? whole : {};
  const next = withValue(before, rest, value);
  if (next === undefined) return others;
  return isObject(whole) && step in whole ? { ...whole, [step]: next } : { ...others, [step]: next };
}

// Places with another value: [{path, before, after}]. Lists of equal length are
// compared item by item, and what is new is told member by member.
export function changes(before, after, path = []) {
  if (before === undefined && isObject(after) && Object.keys(after).length > 0) before = {};
  if (isObject(before) && isObject(after)) {
    return [...new Set([...Object.keys(before), ...Object.keys(after)])].flatMap((name) => changes(before[name], after[name], [...path, name]));
  }
  if (Array.isArray(before) && Array.isArray(after) && before.length === after.length) {
    return before.flatMap((item, index) => changes(item, after[index], [...path, index]));
  }
  return before === after || JSON.stringify(before) === JSON.stringify(after) ? [] : [{ path, before, after }];
}

const NAMES = { integer: "a whole number", number: "a number", string: "a text", boolean: "true or false", array: "a list", object: "an object" };
const FITS = {
  integer: Number.isInteger,
  number: (value) => typeof value === "number",
  string: (value) => typeof value === "string",
  boolean: (value) => typeof value === "boolean",
  array: Array.isArray,
  object: isObject,
};

// The words of a choice; null when it is another thing.
export function wordsOf(schema) {
  const words = schema.anyOf?.map((one) => one.const);
  return words?.every((word) => typeof word === "string") ? words : null;
}

// What is wrong with a value: [{path, message}]. Variables stand for anything.
export function check(schema, value, path = []) {
  const wrong = (message) => [{ path, message }];
  if (typeof value === "string" && /\$\{[^}]+\}/.test(value)) return [];
  const ways = schema.anyOf ?? schema.oneOf;
  if (ways) {
    const found = ways.map((way) => check(way, value, path));
    if (found.some((issues) => issues.length === 0)) return [];
    const words = wordsOf(schema);
    if (words) return wrong(`must be one of ${words.join(", ")}`);
    // The way that got furthest says most.
    const deep = found.find((issues) => issues[0].path.length > path.length);
    return deep ?? wrong(found.map(([issue]) => issue.message).join(", or "));
  }
  const types = [schema.type ?? []].flat();
  if (types.length > 0 && !types.some((type) => FITS[type](value))) return wrong(`must be ${types.map((type) => NAMES[type]).join(" or ")}`);
  if ("const" in schema && value !== schema.const) return wrong(`must be ${schema.const}`);
  if (schema.not && check(schema.not, value).length === 0) return wrong(`must not be ${value}`);
  if (typeof value === "number") {
    if (value < schema.minimum) return wrong(`must be at least ${schema.minimum}`);
    if (value > schema.maximum) return wrong(`must be at most ${schema.maximum}`);
  }
  if (Array.isArray(value)) return schema.items ? value.flatMap((item, index) => check(schema.items, item, [...path, index])) : [];
  if (!isObject(value)) return [];
  const missing = (schema.required ?? []).filter((name) => !(name in value) && !("$include" in value)).map((name) => ({ path: [...path, name], message: "is missing" }));
  const inner = Object.entries(value).flatMap(([name, item]) => {
    const own = schema.properties?.[name] ?? schema.additionalProperties;
    return isObject(own) ? check(own, item, [...path, name]) : [];
  });
  return [...missing, ...inner];
}
