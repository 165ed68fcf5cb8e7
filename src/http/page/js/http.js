// What is asked of the gateway by HTTP: what does not go over the connection.

import { CallError } from "./link.js";

// The gateway is one folder above the page, whatever stands before both.
export const place = (path) => new URL(`../../${path}`, import.meta.url);

export async function headers(link) {
  const token = await link.bearer();
  return token ? { authorization: `Bearer ${token}` } : {};
}

export function failure(status, body) {
  let told = {};
  try {
    told = JSON.parse(body).error ?? {};
  } catch {
    // A proxy says it in its own words.
  }
  const message = told.message ?? (status === 0 ? "the connection was lost" : `the gateway answered ${status}`);
  return new CallError({ code: told.code ?? "HTTP_FAILED", message, details: told });
}

// What is at a path; rejects with a `CallError`.
export async function get(link, path) {
  const answer = await fetch(place(path), { headers: await headers(link), cache: "no-store" });
  if (!answer.ok) throw failure(answer.status, await answer.text());
  return answer.json();
}
