// Out of the page: the clipboard and files.

import { h } from "./dom.js";
import { toast } from "./toast.js";

export async function copy(text, what = "Copied") {
  try {
    await navigator.clipboard.writeText(text);
    toast(what);
  } catch {
    toast("The browser does not let this page copy.", "bad");
  }
}

// Offers text as a file.
export function download(name, text, type = "text/plain") {
  const href = URL.createObjectURL(new Blob([text], { type }));
  h("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 10_000);
}
