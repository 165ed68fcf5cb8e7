// Files that are too large for a message, sent to the gateway on their own.

import { failure, get, headers, lost, place } from "../http.js";

const PATH = "api/chat/uploads";

// What may be uploaded: {maxBytes, maxImageBytes}.
export const limits = (link) => get(link, PATH);

// Sends a file for messages of a session; `told(bytes)` says how far it is. Resolves
// to the gateway's answer; rejects with an "AbortError" when `signal` stops it, with
// "DISCONNECTED" when there is no answer. (No `fetch`: that tells nothing of what was
// sent.)
export async function upload(link, key, file, { told, signal }) {
  const to = place(PATH);
  to.searchParams.set("sessionKey", key);
  to.searchParams.set("fileName", file.name);
  const lines = Object.entries(await headers(link));
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", to);
    for (const [name, value] of lines) request.setRequestHeader(name, value);
    request.setRequestHeader("content-type", file.type || "application/octet-stream");
    request.upload.onprogress = ({ loaded }) => told(loaded);
    request.onload = () => (request.status === 201 ? resolve(JSON.parse(request.responseText)) : reject(failure(request.status, request.responseText)));
    request.onerror = () => reject(lost());
    request.onabort = () => reject(signal.reason);
    signal.addEventListener("abort", () => request.abort());
    if (signal.aborted) reject(signal.reason);
    else request.send(file);
  });
}
