// The identity of this browser: an Ed25519 key that cannot be exported, and the
// token that the gateway gave for it, in IndexedDB under the address of this page.

const DATABASE = "clawgate";
const STORE = "identity";
// Gateways behind different paths of one host are different ones.
const PLACE = new URL("..", import.meta.url).pathname;

const base64url = (bytes) =>
  btoa(String.fromCharCode(...new Uint8Array(bytes))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");

function done(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

async function store(mode) {
  const open = indexedDB.open(DATABASE, 1);
  open.onupgradeneeded = () => open.result.createObjectStore(STORE);
  const database = await done(open);
  return database.transaction(STORE, mode).objectStore(STORE);
}

const get = async (name) => done((await store("readonly")).get(`${PLACE} ${name}`));
const put = async (name, value) => done((await store("readwrite")).put(value, `${PLACE} ${name}`));
const remove = async (name) => done((await store("readwrite")).delete(`${PLACE} ${name}`));

async function makeKey() {
  const pair = await crypto.subtle.generateKey("Ed25519", false, ["sign"]);
  const raw = await crypto.subtle.exportKey("raw", pair.publicKey);
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", raw));
  const id = [...digest].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return { id, publicKey: base64url(raw), privateKey: pair.privateKey };
}

export class Device {
  #key;

  constructor(key) {
    this.#key = key;
  }

  // The device of this page, made when there is none yet; null where the browser
  // keeps no keys: a page that is neither https nor localhost.
  static async load() {
    try {
      if (!globalThis.crypto?.subtle || !globalThis.indexedDB) return null;
      let key = await get("key");
      if (!key) {
        key = await makeKey();
        await put("key", key);
      }
      return new Device(key);
    } catch (error) {
      console.warn("this browser keeps no device key:", error.name);
      return null;
    }
  }

  get id() {
    return this.#key.id;
  }

  get platform() {
    return "web";
  }

  token() {
    return get("token");
  }

  keep(token) {
    return put("token", token);
  }

  forget() {
    return remove("token");
  }

  // The member `device` of `connect`.
  async prove({ client, role, scopes, auth }, nonce) {
    const signedAt = Date.now();
    const token = auth?.token ?? auth?.deviceToken ?? auth?.bootstrapToken ?? "";
    const text = ["v3", this.id, client.id, client.mode, role, scopes.join(","), signedAt, token, nonce, client.platform.toLowerCase(), ""].join("|");
    const signature = await crypto.subtle.sign("Ed25519", this.#key.privateKey, new TextEncoder().encode(text));
    return { id: this.id, publicKey: this.#key.publicKey, signature: base64url(signature), signedAt, nonce };
  }
}
