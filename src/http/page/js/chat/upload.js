// Files that are too large for a message, sent to the gateway on their own.

import { CallError } from "../link.js";

// The gateway is one folder above the page, whatever stands before both.
const PLACE = new URL("../../../api/chat/uploads", import.meta.url);

async function headers(link) {
  const token = await link.bearer();
  return token ? { authorization: `Bearer ${token}` } : {};
}

// What may be uploaded: {maxBytes, maxImageBytes}.
export async function limits(link) {
  const answer = await fetch(PLACE, { headers: await headers(link), cache: "no-store" });
  if (!answer.ok) throw await failure(answer.status, await answer.text());
  return answer.json();
}

function failure(status, body) {
  let told = {};
  try {
    told = JSON.parse(body).error ?? {};
  } catch {
    // A proxy says it in its own words.
  }
  const message = told.message ?? (status === 0 ? "the connection was lost" : `the gateway answered ${status}`);
  return new CallError({ code: told.code ?? "UPLOAD_FAILED", message, details: told });
}

// Sends a file for messages of a session; `told(bytes)` says how far it is. Resolves
// to the gateway's answer; rejects with an "AbortError" when `signal` stops it. (No
// `fetch`: that tells nothing of what was sent.)
export async function upload(link, key, file, { told, signal }) {
  const place = new URL(PLACE);
  place.searchParams.set("sessionKey", key);
  place.searchParams.set("fileName", file.name);
  const lines = Object.entries(await headers(link));
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", place);
    for (const [name, value] of lines) request.setRequestHeader(name, value);
    request.setRequestHeader("content-type", file.type || "application/octet-stream");
    request.upload.onprogress = ({ loaded }) => told(loaded);
    request.onload = () => (request.status === 201 ? resolve(JSON.parse(request.responseText)) : reject(failure(request.status, request.responseText)));
    request.onerror = () => reject(failure(0, ""));
    request.onabort = () => reject(signal.reason);
    signal.addEventListener("abort", () => request.abort());
    if (signal.aborted) reject(signal.reason);
    else request.send(file);
  });
}
