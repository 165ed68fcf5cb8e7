// Steps of shell.rs.
import { check, login, record, steps, until } from "../../node/page.mjs";

const nav = (page) => page.getByRole("navigation", { name: "Views" });
const field = (page) => page.getByRole("textbox", { name: "Message" });
const signOut = (page) => page.getByRole("button", { name: "Sign out" }).click();
const card = (page) => page.locator(".card[data-refusal]");
const kept = (page) => page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }));

async function enterPassword(page, password) {
  await page.getByLabel("Gateway password").fill(password);
  await page.getByRole("button", { name: "Connect" }).click();
  await nav(page).waitFor();
}

// The browser refuses its storages from now on, and what is between its tabs.
const refuse = (page) => page.addInitScript(() => {
  const get = () => {
    throw new DOMException("not here", "SecurityError");
  };
  for (const name of ["localStorage", "sessionStorage", "BroadcastChannel"]) Object.defineProperty(globalThis, name, { get });
});

// And so they are full.
const fill = (page) => page.evaluate(() => {
  for (const storage of [localStorage, sessionStorage]) {
    for (let size = 1 << 20; size >= 1; size >>= 1) {
      try {
        for (let at = 0; ; at++) storage.setItem(`${size} ${at}`, "x".repeat(size));
      } catch {
        // Smaller ones may still fit.
      }
    }
  }
});

export default steps({
  // With a password, in two tabs and a third one that was never in. Returns what is
  // kept of what was written.
  async by_password({ page, context, args }) {
    const third = await context.newPage();
    await third.goto(args.url);
    await third.getByLabel("Gateway password").waitFor();
    await page.goto(args.url);
    await enterPassword(page, args.token);
    await field(page).fill("a secret draft");
    const other = await context.newPage();
    await other.goto(args.url);
    await field(other).waitFor();
    await signOut(page);
    for (const one of [page, other, third]) {
      await one.locator('.card[data-refusal="SIGNED_OUT"]').waitFor();
      check((await one.getByLabel("Gateway password").count()) === 1, "the password is asked for");
      check((await one.getByLabel("Gateway token").count()) === 0, "no token is asked for");
    }
    const told = [await kept(page), await kept(other)];
    await enterPassword(page, args.token);
    check((await field(page).inputValue()) === "", "the draft is gone");
    return told;
  },

  // In one tab, while another one comes in.
  async while_another_comes({ page, context, args }) {
    await login(page, args);
    const other = await context.newPage();
    await other.route("**/js/app.js", async (route) => {
      const response = await route.fetch();
      const slow = `{ const { keep } = Device.prototype; Device.prototype.keep = async function (token) {
        await new Promise((resolve) => (globalThis.goOn = resolve));
        await keep.call(this, token);
        globalThis.isKept = true;
      }; }\n`;
      const text = await response.text();
      await route.fulfill({ response, body: text.replace("const link = new Link", `${slow}const link = new Link`) });
    });
    await other.goto(args.url);
    await until("it has a token to keep", () => other.evaluate(() => globalThis.goOn !== undefined));
    await signOut(page);
    const isOut = other.locator('.card[data-refusal="SIGNED_OUT"]');
    await isOut.waitFor();
    await other.evaluate(() => globalThis.goOn());
    await until("it is kept", () => other.evaluate(() => globalThis.isKept));
    const token = () => other.evaluate(async () => (await (await import("./js/device.js")).Device.load()).token());
    await until("and forgotten", async () => (await token()) === undefined);
    check(await isOut.isVisible(), "it stays signed out");
  },

  // Connections that nothing goes through any more, and that do not end.
  async is_cut_off({ page, args }) {
    let [opened, dead, asked] = [0, 0, 0];
    await page.routeWebSocket(/.*/, (socket) => {
      const server = socket.connectToServer();
      const number = ++opened;
      socket.onMessage((data) => {
        if (number > dead) return server.send(data);
        // What the browser had received before it looked comes after the question.
        if (JSON.parse(data).method === "health" && ++asked === 1) socket.send(JSON.stringify({ type: "event", event: "tick", payload: {} }));
      });
      server.onMessage((data) => number > dead && socket.send(data));
    });
    await page.clock.install();
    await login(page, args);
    await nav(page).getByText("Connected").waitFor();
    dead = opened;
    await page.evaluate(() => dispatchEvent(new Event("online")));
    await until("it asks", () => asked > 0);
    // Long before it would miss the ticks.
    for (let seconds = 0; seconds < 12; seconds++) await page.clock.runFor(1000);
    await until("it connects anew", () => opened > dead);
    await nav(page).getByText("Connected").waitFor();
    // One that is alive stays.
    await page.evaluate(() => dispatchEvent(new Event("online")));
    await field(page).fill('@mock text text="heard"');
    await page.keyboard.press("Enter");
    await page.locator(".messages").getByText("heard", { exact: true }).waitFor();
    check(opened === dead + 1, "it is one connection", opened, dead);
  },

  // Where everybody of this machine is let in.
  async by_nothing({ page, args }) {
    await page.goto(args.url);
    await nav(page).waitFor();
    await signOut(page);
    await card(page).waitFor();
    check((await page.locator("input").count()) === 0, "nothing is asked for");
    await page.getByRole("button", { name: "Connect again" }).click();
    await nav(page).waitFor();
  },

  // In a browser that keeps no keys, as for a page by plain http from another machine,
  // where the gateway wants no device of pages.
  async without_keys({ page, args }) {
    await page.addInitScript(() => Object.defineProperty(Crypto.prototype, "subtle", { value: undefined }));
    await login(page, args);
    await field(page).waitFor();
    await signOut(page);
    await page.getByLabel("Gateway token").waitFor();
  },

  // On a phone: what has no room below is behind "More". Returns which views are there.
  async phone({ page, args }) {
    await page.setViewportSize({ width: 390, height: 844 });
    await login(page, args);
    await field(page).fill("@mock tool name=exec args={\"command\":\"hostname\"} then=\"Over.\"");
    await page.keyboard.press("Enter");
    const badge = nav(page).getByRole("link", { name: "Chat" }).locator(".badge");
    await badge.waitFor();
    const box = (locator) => locator.boundingBox();
    const icon = await box(nav(page).getByRole("link", { name: "Chat" }).locator("svg"));
    check((await box(badge)).x >= icon.x + icon.width, "the number leaves the icon free");
    const isWithin = await nav(page).evaluate((one) => one.scrollWidth <= one.clientWidth);
    check(isWithin, "nothing is beside the screen");
    const shown = await nav(page).getByRole("link").allTextContents();

    const more = nav(page).getByRole("button", { name: "More" });
    const dialog = page.getByRole("dialog", { name: "More" });
    await more.click();
    await dialog.getByText("Connected").waitFor();
    const hidden = await dialog.getByRole("link").allTextContents();
    await dialog.getByRole("link", { name: "Logs" }).click();
    await page.getByRole("heading", { name: "Logs" }).waitFor();
    check((await dialog.count()) === 0, "it is closed");
    check((await more.getAttribute("aria-current")) === "true", "it says where one is");
    await more.click();
    await dialog.getByRole("button", { name: "Theme" }).click();
    await page.locator(":root[data-theme]").waitFor({ state: "attached" });
    await signOut(page);
    await page.getByLabel("Gateway token").waitFor();
    check((await dialog.count()) === 0, "nothing stays above the login");
    return [...shown.map((name) => name.replace(/\d/g, "")), ...hidden];
  },

  // An address that is none, and Back with a dialog open.
  async goes({ page, args }) {
    await login(page, args, "#/chat/%");
    await field(page).waitFor();
    await page.getByRole("link", { name: "Cron" }).click();
    await page.getByRole("button", { name: "New job" }).first().click();
    await page.getByRole("dialog").waitFor();
    await page.goBack();
    await field(page).waitFor();
    await until("no dialog stays above it", async () => (await page.getByRole("dialog").count()) === 0);
  },

  // Storages are "full" or "refused". Returns what was sent, and to which session.
  async forgetful({ page, args }) {
    if (args.kind === "refused") await refuse(page);
    const frames = record(page);
    await login(page, args);
    await field(page).waitFor();
    if (args.kind === "full") {
      await fill(page);
      await page.reload();
      await nav(page).waitFor();
    }
    await page.evaluate(() => (location.hash = "#/chat/agent%3Amain%3Awriting-desk"));
    await page.getByRole("heading", { name: "writing-desk" }).waitFor();
    await field(page).fill("for the desk");
    await field(page).press("Enter");
    await page.locator(".message.assistant:not(.live)").waitFor();
    await field(page).fill("a draft");
    await page.evaluate(() => (location.hash = "#/logs"));
    await page.getByRole("heading", { name: "Logs" }).waitFor();
    await page.getByRole("button", { name: "Theme" }).click();
    await page.locator(":root[data-theme=light]").waitFor({ state: "attached" });
    await page.getByRole("button", { name: "Theme" }).click();
    await page.locator(":root[data-theme=dark]").waitFor({ state: "attached" });
    await page.evaluate(() => (location.hash = "#/chat"));
    await until("the draft is there", async () => (await field(page).inputValue()) === "a draft");
    await signOut(page);
    await page.getByLabel("Gateway token").fill(args.token);
    await page.getByRole("button", { name: "Connect" }).click();
    await page.evaluate(() => (location.hash = "#/chat/agent%3Amain%3Awriting-desk"));
    await page.locator(".message.assistant:not(.live)").waitFor();
    check((await field(page).inputValue()) === "", "the draft is gone");
    return frames.calls("chat.send").map(({ sessionKey, message }) => [sessionKey, message]);
  },

  // What is stored as it is: the theme and the last session.
  async remembers({ page, args }) {
    await page.goto(args.url);
    await page.evaluate(() => {
      localStorage.setItem("clawgate.theme", "dark");
      localStorage.setItem("clawgate.session", "agent:main:desk");
    });
    const dark = page.locator(":root[data-theme=dark]");
    await page.goto(`${args.url}login`);
    await dark.waitFor({ state: "attached" });
    await login(page, args);
    await dark.waitFor({ state: "attached" });
    const desk = page.getByRole("heading", { name: "desk" });
    await desk.waitFor();
    check((await desk.getAttribute("dir")) === "auto", "its name has a direction of its own");
    // Back leads to it, and so does "Chat".
    await page.evaluate(() => (location.hash = "#/chat/agent%3Amain%3Aother"));
    await page.getByRole("heading", { name: "other" }).waitFor();
    await page.goBack();
    await desk.waitFor();
    for (const view of ["Logs", "Chat", "Chat"]) await nav(page).getByRole("link", { name: view }).click();
    await until("the address names it", () => page.evaluate(() => location.hash === "#/chat/agent%3Amain%3Adesk"));
    await desk.waitFor();
    await page.goBack();
    await until("the second press is nothing to go back from", () => page.evaluate(() => location.hash === "#/logs"));
    await page.getByRole("button", { name: "Theme" }).click();
    const stored = () => page.evaluate(() => ["theme", "session"].map((name) => localStorage.getItem(`clawgate.${name}`)));
    await until("it is written like that", async () => (await stored()).join(" ") === "auto agent:main:desk");
  },

  // The Control UI has its key in a storage; the link is not used up by that.
  async enters({ page, args }) {
    await refuse(page);
    await page.goto(`${args.link}&ui=control`);
    await page.getByRole("heading", { name: "This browser keeps no keys for pages" }).waitFor();
    await page.getByText("it still works").waitFor();
    await page.goto("about:blank");
    await page.goto(args.link);
    await nav(page).waitFor();
  },

  // By keyboard alone, from the first wrong token on.
  async types_again({ page, args }) {
    await page.goto(args.url);
    await page.getByLabel("Gateway token").fill("not this one");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "That token is not right" }).waitFor();
    check((await card(page).getAttribute("role")) === "status", "it is said");
    await page.keyboard.type(args.token);
    await page.keyboard.press("Enter");
    await nav(page).waitFor();
  },
});
