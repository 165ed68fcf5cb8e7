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
    // A proxy says it in its own words, also that there is no gateway behind it.
    if (status === 502 || status === 503) return lost();
  }
  return new CallError({ code: told.code ?? "HTTP_FAILED", message: told.message ?? `the gateway answered ${status}`, details: told });
}

// That there was no answer.
export const lost = () => new CallError({ code: "DISCONNECTED", message: "the connection to the gateway was lost" });

// What is at a path; rejects with a `CallError`.
export async function get(link, path) {
  const asked = { headers: await headers(link), cache: "no-store" };
  let answer;
  let body;
  try {
    answer = await fetch(place(path), asked);
    body = await answer.text();
  } catch {
    throw lost();
  }
  if (!answer.ok) throw failure(answer.status, body);
  return JSON.parse(body);
}
