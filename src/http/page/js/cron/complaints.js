// Which field an error of the gateway is about.

// Errors without a path, by what they say.
const WORDS = [
  [/CronPattern|never comes due/, "/schedule/expr"],
  [/time zone/, "/schedule/tz"],
  [/schedule\.at/, "/schedule/at"],
  [/delivery\.to|webhook delivery/, "/delivery/to"],
  [/sessionTarget/, "/sessionTarget"],
  [/agent/i, "/agentId"],
];

const PLAIN = [
  [/must NOT have fewer than 1 characters|must have 1 to/, "must not be empty"],
  [/must be (integer|number)/, "must be a number"],
];

// What is wrong with a field, in words for people.
export const plain = (text) => PLAIN.find(([words]) => words.test(text))?.[1] ?? text;

// Puts an error beside its fields (by path) and returns what is left of it for
// the whole form, nothing when all has a place.
export function complain(error, fields) {
  for (const field of Object.values(fields)) field.fail();
  const text = error.message.replace(/^Error: /, "").replace(/^invalid cron\.\w+ params: /, "")
    // An address that is empty is taken for none.
    .replace("/delivery: must have required property 'to'", "/delivery/to: must not be empty");
  const parts = text.split(/; (?=at \/)/).map((part) => /^at (?:\/patch)?(\/\S+): (.*)$/s.exec(part)).filter(Boolean);
  // A value that fits none of several forms is told once for each of them; what is
  // about a field of its own is about what was entered.
  const own = parts.filter(([, path]) => fields[path] && !fields[path].root.closest("[hidden]"));
  if (own.length > 0) {
    for (const [, path, what] of own) fields[path].fail(plain(what));
  } else {
    const path = WORDS.find(([words, path]) => words.test(text) && fields[path])?.[1];
    if (!path) return text;
    fields[path].fail(text);
  }
  const first = Object.values(fields).find(({ input }) => input.getAttribute("aria-invalid"));
  first?.input.focus();
  return undefined;
}
