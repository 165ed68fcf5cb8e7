// What a browser remembers for convenience. A storage that is full, that is refused, or
// that holds something else, is no reason to stop.

class Memory {
  getItem(name) {
    return this[name] ?? null;
  }

  setItem(name, value) {
    this[name] = value;
  }

  removeItem(name) {
    delete this[name];
  }
}

// Where a browser keeps nothing for pages, what lasts as long as the page.
function open(name) {
  try {
    return globalThis[name] ?? new Memory();
  } catch {
    return new Memory();
  }
}

export const local = open("localStorage");
export const session = open("sessionStorage");

// What they have no room for lasts as long as the page, too.
const unkept = new Map([local, session].map((storage) => [storage, new Map()]));

// The names under which something is remembered.
export const names = (storage) => [...Object.keys(storage), ...unkept.get(storage).keys()];

// The text that was remembered under a name, or null.
export function recallText(storage, name) {
  try {
    return unkept.get(storage).get(name) ?? storage.getItem(name);
  } catch {
    return null;
  }
}

// Remembers a text; undefined forgets it.
export function rememberText(storage, name, text) {
  try {
    if (text === undefined) storage.removeItem(name);
    else storage.setItem(name, text);
    unkept.get(storage).delete(name);
  } catch (error) {
    unkept.get(storage).set(name, text);
    console.warn(`${name} is not remembered:`, error.name);
  }
}

// The same for a value.
export function recall(storage, name, otherwise) {
  try {
    return JSON.parse(recallText(storage, name)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

export const remember = (storage, name, value) => rememberText(storage, name, JSON.stringify(value));
