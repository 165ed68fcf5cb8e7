// Steps of shell.rs.
import { check, login, steps, until } from "../../node/page.mjs";

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
});
