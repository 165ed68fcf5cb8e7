// The identity that OpenClaw's Control UI has in this browser, as that UI keeps
// it: key and token in localStorage under the origin. Whoever is signed in here
// is signed in there.

import { Device } from "./device.js";

const IDENTITY = "openclaw-device-identity-v1";
const TOKENS = "openclaw.device.auth.v1";
const SETTINGS = "openclaw.control.settings.v1";
const TYPED_TOKEN = "openclaw.control.token.v1";
const ROLE = "operator";

function read(name) {
  try {
    const value = JSON.parse(localStorage.getItem(name));
    return value?.version === 1 ? value : null;
  } catch {
    return null;
  }
}

const write = (name, value) => localStorage.setItem(name, JSON.stringify(value));

// The key of that UI as one that signs; null when there is none, or no good one.
async function stored() {
  const { deviceId: id, publicKey, privateKey } = read(IDENTITY) ?? {};
  if (!id || !publicKey || !privateKey) return null;
  try {
    const jwk = { kty: "OKP", crv: "Ed25519", x: publicKey, d: privateKey };
    return { id, publicKey, privateKey: await crypto.subtle.importKey("jwk", jwk, "Ed25519", false, ["sign"]) };
  } catch (error) {
    if (error.name === "NotSupportedError") throw error;
    return null;
  }
}

async function make() {
  const { privateKey } = await crypto.subtle.generateKey("Ed25519", true, ["sign"]);
  const { x, d } = await crypto.subtle.exportKey("jwk", privateKey);
  const raw = Uint8Array.from(atob(x.replaceAll("-", "+").replaceAll("_", "/")), (char) => char.charCodeAt(0));
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", raw));
  const deviceId = [...digest].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  write(IDENTITY, { version: 1, deviceId, publicKey: x, privateKey: d, createdAtMs: Date.now() });
}

// That UI connects where its settings say: after this to the gateway that serves
// it at `page`.
export function pointAt(page) {
  const { protocol, host, pathname } = new URL(page);
  const here = `${protocol === "https:" ? "wss" : "ws"}://${host}${pathname.replace(/\/+$/, "")}`;
  for (const name of [`${SETTINGS}:${here}`, SETTINGS]) {
    let settings = null;
    try {
      settings = JSON.parse(localStorage.getItem(name));
    } catch {
      // That UI cannot read it either, and takes what it takes without settings.
    }
    if (settings && settings.gatewayUrl !== here) write(name, { ...settings, gatewayUrl: here });
  }
}

export class ControlDevice extends Device {
  // The device of that UI; with `makes`, one is made when there is none. Null
  // where the browser keeps none.
  static async load({ makes = false } = {}) {
    if (!globalThis.crypto?.subtle) return null;
    try {
      if (makes && !(await stored())) await make();
      const key = await stored();
      return key && new ControlDevice(key);
    } catch (error) {
      console.warn("this browser keeps no device key:", error.name);
      return null;
    }
  }

  // As that UI names it: another name would be another machine.
  get platform() {
    return navigator.platform || "web";
  }

  #tokens() {
    const known = read(TOKENS);
    return known?.deviceId === this.id ? { ...known.tokens } : {};
  }

  async token() {
    return this.#tokens()[ROLE]?.token;
  }

  async keep(token, { scopes = [] } = {}) {
    const own = { token, role: ROLE, scopes, updatedAtMs: Date.now() };
    write(TOKENS, { version: 1, deviceId: this.id, tokens: { ...this.#tokens(), [ROLE]: own } });
    this.#forgetTyped();
  }

  async forget() {
    const { [ROLE]: _, ...others } = this.#tokens();
    write(TOKENS, { version: 1, deviceId: this.id, tokens: others });
    this.#forgetTyped();
  }

  // A token that somebody typed in this tab comes before that of the device.
  #forgetTyped() {
    const names = Object.keys(sessionStorage).filter((name) => name.startsWith(TYPED_TOKEN));
    for (const name of names) sessionStorage.removeItem(name);
  }
}
