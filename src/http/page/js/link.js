// The connection to the gateway: handshake, calls, events, and coming back after
// it was lost.
//
// States, told by the event "state": "connecting", "open", "lost" (it tries again
// at `retryAt`) and "refused" (`refusal` says why; it waits for `login`).
// "ready" follows each handshake, "gap" a hole in the numbers of events: whoever
// shows something loads it anew at both. "ready" comes before "open" is told: what
// is made because of that loads once, by itself.

import { bytes } from "./format.js";

const VERSIONS = { minProtocol: 3, maxProtocol: 3 };
const SCOPES = ["operator.read", "operator.write", "operator.admin", "operator.approvals", "operator.pairing"];
// A wait doubles from the first to the last of these.
const RETRY_FIRST_MS = 400;
const RETRY_LAST_MS = 15_000;
// Ticks that may be missing until the connection counts as dead.
const MISSED_TICKS = 2.5;
const CALL_LIMIT_MS = 30_000;
// The same for a connection that may have died while the browser was elsewhere.
const PROBE_MS = 5000;
// Of a character of a text, as it is sent.
const BYTES_MAX = 3;
// Refusals that another try mends: somebody approves the device, or time passes.
const PASSING = ["PAIRING_REQUIRED", "AUTH_RATE_LIMITED"];

// An answer that is not `ok`, or none: code "DISCONNECTED" or "TIMEOUT" then, or
// "TOO_LARGE" where nothing was asked.
export class CallError extends Error {
  constructor({ code, message, details, retryAfterMs }) {
    super(message);
    this.code = code;
    this.details = details ?? {};
    this.retryAfterMs = retryAfterMs;
  }
}

// The gateway is where the page is, whatever stands before it.
export function address() {
  const url = new URL("..", import.meta.url);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  return url.href;
}

// A browser that keeps nothing for pages may have nothing between its tabs either.
function channel(name) {
  try {
    return new BroadcastChannel(name);
  } catch {
    return { postMessage() {} };
  }
}

export class Link {
  state = "connecting";
  hello = null;
  refusal = null;
  retryAt = 0;
  // Whether the gateway has said that it stops: it takes no message any more.
  isStopping = false;

  #device;
  #credential;
  #listeners = new Map();
  #calls = new Map();
  #nextId = 1;
  #socket = null;
  #attempts = 0;
  #lastSeq = null;
  #heard = 0;
  #watch = null;
  #retry = null;
  // The token of the last handshake, on its way into the browser's memory.
  #keeping = null;
  // Tabs of a browser sign out together. Gateways behind other paths are other ones.
  #others = channel(`clawgate.signed-out ${new URL("..", import.meta.url).pathname}`);

  // device: a `Device` or null. credential: the member `auth` of `connect`; without
  // one the token that the device has is used.
  constructor(device, credential) {
    this.#device = device;
    this.#credential = credential;
    this.#others.onmessage = ({ data: mode }) => this.#leave(mode);
    addEventListener("online", () => this.#hurry());
    document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && this.#hurry());
  }

  // Calls `listener(payload, frame)` for events of that name, those of the gateway
  // and our own; returns a function that ends it.
  on(name, listener) {
    if (!this.#listeners.has(name)) this.#listeners.set(name, new Set());
    this.#listeners.get(name).add(listener);
    return () => this.#listeners.get(name).delete(listener);
  }

  // Asks the gateway; rejects with a `CallError`.
  call(method, params = {}, { limitMs = CALL_LIMIT_MS } = {}) {
    if (this.state !== "open") return Promise.reject(new CallError({ code: "DISCONNECTED", message: "not connected to the gateway" }));
    return this.#ask(method, params, limitMs);
  }

  start() {
    this.#open();
  }

  // What requests by HTTP show, if there is anything.
  async bearer() {
    const { token, password, deviceToken } = this.#credential ?? {};
    return token ?? password ?? deviceToken ?? (await this.#device?.token());
  }

  // Tries at once with what the user entered.
  login(credential) {
    this.#credential = credential;
    this.#attempts = 0;
    this.#open();
  }

  // Forgets the token of this device and goes away.
  async logout() {
    const mode = this.hello?.snapshot?.authMode;
    await this.#device?.forget();
    this.#others.postMessage(mode);
    await this.#leave(mode);
  }

  // mode: how the gateway lets in, which a tab that was never in does not know.
  async #leave(mode) {
    this.#credential = undefined;
    this.#end();
    this.#refuse({ code: "SIGNED_OUT", message: "You are signed out.", mode });
    // A handshake that was under way may keep one meanwhile.
    await this.#keeping;
    await this.#device?.forget();
  }

  #tell(name, payload, frame) {
    for (const listener of [...(this.#listeners.get(name) ?? [])]) {
      try {
        listener(payload, frame);
      } catch (error) {
        console.error(`a listener of ${name} failed`, error);
      }
    }
  }

  #become(state) {
    this.state = state;
    this.#tell("state", state);
  }

  #refuse(error) {
    this.refusal = error;
    this.#become("refused");
  }

  #ask(method, params, limitMs) {
    const id = String(this.#nextId++);
    const frame = JSON.stringify({ type: "req", id, method, params });
    // A larger one would end the connection.
    const most = this.hello?.policy?.maxPayload ?? Infinity;
    const size = frame.length > most / BYTES_MAX ? new Blob([frame]).size : 0;
    if (size > most) return Promise.reject(new CallError({ code: "TOO_LARGE", message: `it is too large, ${bytes(size)} of ${bytes(most)}` }));
    return new Promise((resolve, reject) => {
      const late = setTimeout(() => {
        this.#calls.delete(id);
        reject(new CallError({ code: "TIMEOUT", message: `${method}: no answer from the gateway` }));
      }, limitMs);
      this.#calls.set(id, { resolve, reject, late });
      this.#socket.send(frame);
    });
  }

  // Ends what there is of a connection; calls under way fail.
  #end() {
    clearTimeout(this.#retry);
    clearInterval(this.#watch);
    const socket = this.#socket;
    this.#socket = null;
    if (socket) {
      socket.onmessage = socket.onclose = null;
      socket.close(1000);
    }
    const calls = [...this.#calls.values()];
    this.#calls.clear();
    for (const { reject, late } of calls) {
      clearTimeout(late);
      reject(new CallError({ code: "DISCONNECTED", message: "the connection to the gateway was lost" }));
    }
  }

  #open() {
    this.#end();
    this.#lastSeq = null;
    this.#heard = Date.now();
    this.#become("connecting");
    const socket = new WebSocket(address());
    this.#socket = socket;
    socket.onmessage = ({ data }) => this.#take(JSON.parse(data));
    socket.onclose = () => this.#lose();
    // A handshake that says nothing is as dead as a connection without ticks.
    this.#watchOver(RETRY_LAST_MS);
  }

  #watchOver(silenceMs) {
    clearInterval(this.#watch);
    this.#watch = setInterval(() => Date.now() - this.#heard > silenceMs && this.#lose(), 1000);
  }

  #lose() {
    this.#end();
    const wait = Math.min(RETRY_LAST_MS, RETRY_FIRST_MS * 2 ** this.#attempts++) * (0.7 + Math.random() * 0.6);
    this.#tryLater(wait);
    this.#become("lost");
  }

  #tryLater(ms) {
    clearTimeout(this.#retry);
    this.retryAt = Date.now() + ms;
    this.#retry = setTimeout(() => this.#open(), ms);
  }

  // The browser is online again, perhaps by another network, or somebody looks: what
  // there was may have gone without a word.
  async #hurry() {
    if (this.state === "lost") return this.#open();
    const asked = Date.now();
    try {
      await this.call("health", {}, { limitMs: PROBE_MS });
    } catch ({ code }) {
      if (code !== "TIMEOUT") return;
      // What came since may be from before it died, and what is large and still on its
      // way is in front of the question: it is asked once more.
      if (this.#heard >= asked || this.#socket.bufferedAmount) return this.#hurry();
      this.#lose();
    }
  }

  #take(frame) {
    this.#heard = Date.now();
    if (frame.type === "res") return this.#settle(frame);
    if (frame.type !== "event") return;
    if (frame.event === "connect.challenge") return void this.#connect(frame.payload.nonce);
    const { seq } = frame;
    const isGap = seq !== undefined && this.#lastSeq !== null && seq !== this.#lastSeq + 1;
    if (seq !== undefined) this.#lastSeq = seq;
    if (frame.event === "shutdown") this.isStopping = true;
    this.#tell(frame.event, frame.payload, frame);
    if (isGap) this.#tell("gap");
  }

  #settle({ id, ok, payload, error }) {
    const call = this.#calls.get(id);
    if (!call) return;
    this.#calls.delete(id);
    clearTimeout(call.late);
    if (ok) call.resolve(payload);
    else call.reject(new CallError(error));
  }

  async #connect(nonce) {
    const socket = this.#socket;
    const stored = this.#credential ? undefined : await this.#device?.token();
    const auth = this.#credential ?? (stored ? { deviceToken: stored } : undefined);
    const params = {
      ...VERSIONS,
      client: { id: "openclaw-control-ui", version: "clawgate", platform: this.#device?.platform ?? "web", mode: "webchat", displayName: "clawgate page" },
      role: "operator",
      scopes: SCOPES,
      caps: ["tool-events"],
      locale: navigator.language,
      userAgent: navigator.userAgent,
      ...(auth ? { auth } : {}),
    };
    try {
      if (this.#device) params.device = await this.#device.prove(params, nonce);
      if (socket !== this.#socket) return;
      await this.#enter(await this.#ask("connect", params, CALL_LIMIT_MS), socket);
    } catch (error) {
      if (socket === this.#socket) await this.#reject(error, stored !== undefined);
    }
  }

  async #enter(hello, socket) {
    this.hello = hello;
    this.refusal = null;
    this.isStopping = false;
    this.#attempts = 0;
    const token = hello.auth?.deviceToken;
    if (this.#device && token) {
      this.#keeping = this.#device.keep(token, hello.auth);
      await this.#keeping;
      // Signed out, or lost, meanwhile.
      if (socket !== this.#socket) return;
      // From here on the device speaks for itself; what was typed is forgotten.
      this.#credential = undefined;
    }
    this.#watchOver((hello.policy?.tickIntervalMs ?? RETRY_LAST_MS) * MISSED_TICKS);
    this.state = "open";
    this.#tell("ready", hello);
    this.#tell("state", "open");
  }

  async #reject(error, isStored) {
    if (!(error instanceof CallError)) throw error;
    if (error.code === "DISCONNECTED" || error.code === "TIMEOUT") return this.#lose();
    const code = error.details.code ?? error.code;
    // A token that was taken back is of no use any more.
    if (isStored && code === "AUTH_DEVICE_TOKEN_MISMATCH") await this.#device.forget();
    this.#end();
    if (PASSING.includes(code)) this.#tryLater(error.retryAfterMs ?? error.details.retryAfterMs ?? 2000);
    else if (error.code === "UNAVAILABLE") return this.#lose();
    this.#refuse({ code, message: error.message, details: error.details });
  }
}
