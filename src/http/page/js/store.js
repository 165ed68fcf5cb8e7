// What a browser remembers for convenience. A storage that is full, or that holds
// something else, is no reason to stop.

// What was remembered under a name.
export function recall(storage, name, otherwise) {
  try {
    return JSON.parse(storage.getItem(name)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

// Remembers a value; undefined forgets it.
export function remember(storage, name, value) {
  try {
    if (value === undefined) storage.removeItem(name);
    else storage.setItem(name, JSON.stringify(value));
  } catch (error) {
    console.warn(`${name} is not remembered:`, error.name);
  }
}
