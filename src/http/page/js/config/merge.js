// What two people have made of one config, put together.

import { changes, isObject } from "./check.js";

const isSame = (a, b) => changes(a, b).length === 0;
const isLeaf = (value) => value !== undefined && typeof value !== "object";

// Items by their ids; null where one has none of its own.
function byId(list) {
  if (!Array.isArray(list) || !list.every((item) => isObject(item) && typeof item.id === "string")) return null;
  const items = new Map(list.map((item) => [item.id, item]));
  return items.size === list.length ? items : null;
}

// `mine` on top of `theirs`, which were both made of `base`. Items of lists are told
// apart by their ids, never by their places. Where that cannot be, and where one has
// taken away what the other has changed, `choose(path, mine, theirs)` says what stays.
export function merge(base, mine, theirs, choose, path = []) {
  if (isSame(base, mine) || isSame(mine, theirs)) return theirs;
  if (isSame(base, theirs) || (isLeaf(mine) && isLeaf(theirs))) return mine;
  const both = (names, from, own, other) => names.map((name) => [name, merge(from(name), own(name), other(name), choose, [...path, name])]).filter(([, value]) => value !== undefined);
  if (isObject(mine) && isObject(theirs)) {
    const names = [...new Set([...Object.keys(theirs), ...Object.keys(mine)])];
    return Object.fromEntries(both(names, (name) => base?.[name], (name) => mine[name], (name) => theirs[name]));
  }
  const lists = [base ?? [], mine, theirs].map(byId);
  if (lists.includes(null)) return choose(path, mine, theirs);
  const [from, own, other] = lists.map((items) => (id) => items.get(id));
  const ids = [...new Set([...lists[2].keys(), ...lists[1].keys()])];
  return both(ids, from, own, other).map(([, item]) => item);
}
