// The original Control UI in a browser, with all that it says and hears.
//
// `visit(steps)` makes a module of steps for `browser.mjs`. Args of every visit:
//   origin     of the gateway (`http://127.0.0.1:1234`)
//   page       where the UI is opened (default: the origin)
//   files      folder of the UI; files of the page's origin come from here
//              where this is given, else from whoever serves them
//   token      the shared secret that the first address carries
//   shots      folder for screenshots, for people who want to look
// It returns {told, calls, refused, complaints, errors, http}:
//   told        what the steps return
//   calls       how often each RPC was asked
//   refused     {method, params, error} of every answer with `ok:false`
//   complaints  every error text that was ever shown in the page
//   errors      errors in the console, and of scripts
//   http        every answer of 400 and more: status and path
import { existsSync, readFileSync, statSync } from "node:fs";
import { extname, join, normalize } from "node:path";

const TYPES = {
  ".css": "text/css",
  ".html": "text/html",
  ".ico": "image/x-icon",
  ".js": "text/javascript",
  ".png": "image/png",
  ".svg": "image/svg+xml",
  ".webmanifest": "application/manifest+json",
};

// What the UI shows errors in.
const COMPLAINTS = [
  ".callout.danger",
  ".callout.warning",
  ".callout.error",
  ".pill.danger",
  ".exec-approval-error",
  ".lazy-view-state--error",
  ".cfg-field__error",
  ".qs-identity-card__error",
  ".dreams-diary__error",
  ".dreams__controls-error",
  ".ov-attention-item.danger",
  ".ov-attention-item.warn",
].join(",");

// How long anything may take that is waited for; nothing does where the machine
// is not busy.
const PATIENCE_MS = 45_000;

// A screen on which nothing is left out.
const SCREEN = { width: 1800, height: 1000 };

export function visit(steps) {
  return async (browser) => {
    const { page, context, args } = browser;
    const seen = { calls: {}, refused: [], complaints: [], errors: [], http: [], frames: [] };
    await context.exposeFunction("complain", (text) => seen.complaints.push(text));
    await context.addInitScript(watch, COMPLAINTS);
    listen(page, seen);
    await page.setViewportSize(SCREEN);
    if (args.files) await serve(context, new URL(args.page ?? args.origin).origin, args.files);
    const ui = new ControlUi(page, args, seen);
    try {
      seen.told = (await steps({ ...browser, ui })) ?? null;
    } catch (error) {
      await ui.shot("failure");
      const { frames: _, ...rest } = seen;
      const place = `${error}\nat ${page.url()}, having seen ${JSON.stringify(rest)}`;
      throw new Error(place, { cause: error });
    }
    const { frames: _, ...rest } = seen;
    return rest;
  };
}

// Writes down what a page says, hears and suffers. Another page of the same
// visit may be added.
export function listen(page, seen) {
  page.on("console", (message) => {
    // What could not be loaded is in `http`, with its address.
    const isNamed = message.text().startsWith("Failed to load resource");
    if (message.type() === "error" && !isNamed) seen.errors.push(message.text());
  });
  page.on("pageerror", (error) => seen.errors.push(String(error)));
  page.on("response", (response) => {
    if (response.status() >= 400) {
      const { pathname, search } = new URL(response.url());
      seen.http.push(`${response.status()} ${pathname}${search}`);
    }
  });
  page.on("websocket", (socket) => {
    const waiting = new Map();
    socket.on("framesent", ({ payload }) => {
      const frame = JSON.parse(payload);
      seen.frames.push(frame);
      if (frame.type !== "req") return;
      waiting.set(frame.id, frame);
      seen.calls[frame.method] = (seen.calls[frame.method] ?? 0) + 1;
    });
    socket.on("framereceived", ({ payload }) => {
      const frame = JSON.parse(payload);
      seen.frames.push(frame);
      if (frame.type !== "res") return;
      const asked = waiting.get(frame.id);
      waiting.delete(frame.id);
      frame.method = asked?.method;
      if (frame.ok) return;
      const { method, params } = asked ?? {};
      seen.refused.push({ method, params: secretless(params), error: frame.error });
    });
    // Nobody answers what was asked on a socket that is gone, or by a page that is.
    const lose = () => {
      for (const frame of waiting.values()) frame.isLost = true;
    };
    socket.on("close", lose);
    page.on("domcontentloaded", lose);
  });
}

function secretless(params) {
  const { auth: _, device: __, ...rest } = params ?? {};
  return rest;
}

// Runs in the page: tells every error text once it is visible.
function watch(complaints) {
  const told = new Set();
  const look = () => {
    for (const node of document.querySelectorAll(complaints)) {
      const text = node.textContent.replace(/\s+/g, " ").trim();
      if (!text || told.has(text) || !node.checkVisibility()) continue;
      told.add(text);
      globalThis.complain(text);
    }
  };
  const options = { subtree: true, childList: true, characterData: true, attributes: true };
  new MutationObserver(look).observe(document, options);
}

// Files of the UI at an origin; whatever is none of them goes on.
async function serve(context, origin, folder) {
  const index = join(folder, "index.html");
  // A page that comes from here is nowhere, and so is asked before it reaches a
  // gateway on this machine.
  await context.grantPermissions(["local-network-access"], { origin });
  await context.route(`${origin}/**`, (route) => {
    const { pathname } = new URL(route.request().url());
    const file = join(folder, normalize(pathname));
    const isFile = existsSync(file) && statSync(file).isFile();
    const isPage = route.request().isNavigationRequest();
    if (!isFile && !isPage) return route.fallback();
    const path = isFile ? file : index;
    // What a service worker fetches does not come by here: one that fetches nothing.
    const body = pathname === "/sw.js" ? "" : readFileSync(path);
    return route.fulfill({ contentType: TYPES[extname(path)], body });
  });
}

// What a person does with it.
export class ControlUi {
  constructor(page, args, seen) {
    Object.assign(this, { page, args, seen });
    page.setDefaultTimeout(PATIENCE_MS);
  }

  // Opens a tab by its address, logged in.
  async open(path = "/chat") {
    const token = this.args.token ? `#token=${this.args.token}` : "";
    await this.page.goto(`${this.args.page ?? this.args.origin}${path}${token}`);
    await this.connected();
  }

  async connected() {
    await this.page.locator(".shell .sidebar-version__text").waitFor();
  }

  // Opens a tab by the menu.
  async tab(name) {
    await this.page.locator(`.sidebar-nav a[href$="/${name}"]`).click();
    await this.page.waitForURL(`**/${name}**`);
  }

  // Says something in the chat.
  async say(text) {
    await this.page.locator(".agent-chat__input textarea").fill(text);
    await this.page.getByLabel(/^(Send|Queue) message$/).click();
  }

  // Waits until nothing runs in the chat that is shown.
  async rests() {
    await this.page.getByLabel("Stop generating").waitFor({ state: "detached" });
    await this.page.getByLabel("Send message").waitFor();
    await this.idle();
  }

  // Waits until the answer that is being written has come this far.
  async streams(text) {
    await this.page.locator(".chat-bubble.streaming", { hasText: text }).waitFor();
  }

  // Waits until this is so, asking again and again.
  async until(what, probe) {
    const deadline = Date.now() + PATIENCE_MS;
    for (;;) {
      const found = await probe();
      if (found) return found;
      if (Date.now() > deadline) throw new Error(`${what} does not happen`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  // The answers to a method that have come.
  answers(method) {
    return this.seen.frames.filter((frame) => frame.type === "res" && frame.method === method);
  }

  // Does something, and waits for the next answer of a method to it.
  async answer(method, act) {
    const before = this.answers(method).length;
    await act();
    await this.until(`an answer to ${method}`, () => this.answers(method).length > before);
    return this.answers(method).at(-1).payload;
  }

  // Changes something, and waits until nothing is busy any more.
  async change(act) {
    await act();
    await this.idle();
  }

  // The same for a method that writes, after which the UI reads what is there now:
  // who goes on before that works on what was there before.
  async saved(method, act) {
    const read = method.replace(/\.(set|apply)$/, ".get");
    return this.answer(read, () => this.answer(method, act));
  }

  // Waits until nothing that was asked is unanswered.
  async idle() {
    await this.until("an end of all requests", () => {
      const asked = this.seen.frames.filter((frame) => frame.type === "req" && !frame.isLost);
      const answered = new Set(
        this.seen.frames.filter((frame) => frame.type === "res").map((frame) => frame.id));
      return asked.every((frame) => answered.has(frame.id));
    });
  }

  async shot(name) {
    if (!this.args.shots) return;
    await this.page.screenshot({ path: join(this.args.shots, `${name}.png`) });
  }
}
