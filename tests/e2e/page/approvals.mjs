// Steps of approvals.rs.
import { call, check, login, steps, until } from "../../node/page.mjs";

const panel = (page) => page.getByRole("region", { name: "Approvals" });
const card = (page, text) => panel(page).getByRole("group").filter({ hasText: text });
const deny = (page, text) => card(page, text).getByRole("button", { name: "Deny" });
const count = (page, wanted) => until(`${wanted} cards`, async () => (await panel(page).getByRole("group").count()) === wanted);

// A page, and another one that asks and decides.
async function open(page, context, args) {
  await login(page, args);
  const other = await context.newPage();
  await login(other, args);
  const request = (id, command) => call(other, "exec.approval.request", { id, command, twoPhase: true });
  const resolve = (id) => call(other, "exec.approval.resolve", { id, decision: "deny" });
  return { request, resolve };
}

export default steps({
  // Returns where the focus was in the end, of a card that somebody else has decided.
  async holds({ page, context, args }) {
    const { request, resolve } = await open(page, context, args);
    await request("one", "echo 1");
    await request("two", "echo 2");
    await count(page, 2);
    await deny(page, "echo 2").focus();
    await page.evaluate(() => (globalThis.held = document.activeElement));
    await request("three", "echo 3");
    await count(page, 3);
    check(await page.evaluate(() => document.activeElement === globalThis.held && globalThis.held.isConnected), "the focus stays");

    await resolve("two");
    await count(page, 2);
    const focused = await page.evaluate(() => [document.activeElement.localName, document.activeElement.closest(".approval")?.querySelector("code").textContent]);

    // A key that is still held down decides nothing.
    await deny(page, "echo 3").focus();
    const press = (repeat) => page.evaluate((repeat) => document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true, repeat })), repeat);
    check((await press(true)) === false && (await press(false)) === true, "only the first press counts");
    await page.keyboard.press("Enter");
    await count(page, 1);
    check((await page.evaluate(() => document.activeElement.closest(".approval")?.querySelector("code").textContent)) === "echo 1", "the next card has the focus");
    await resolve("one");
    await panel(page).waitFor({ state: "hidden" });
    check(await page.evaluate(() => document.activeElement.id === "main"), "and then the view");
    return focused;
  },

  // Lists are asked for a second time before the first ones have come, and then
  // somebody asks. Returns how many cards there are after each answer.
  async asks_again({ page, args }) {
    await login(page, args);
    return page.evaluate(async () => {
      const { Approvals } = await import("./js/approvals.js");
      const heard = {};
      const asked = [];
      const on = (name, listener) => {
        heard[name] = listener;
        return () => {};
      };
      const link = { state: "open", on, call: () => new Promise((resolve) => asked.push(resolve)) };
      const approvals = new Approvals({ link, count: () => {} });
      heard.gap();
      heard["exec.approval.requested"]({ id: "new", request: { command: "echo" }, expiresAtMs: Date.now() + 60_000 });
      const shown = [];
      for (const answers of [asked.slice(0, 2), asked.slice(2)]) {
        for (const answer of answers) answer([]);
        await new Promise((resolve) => setTimeout(resolve));
        shown.push(approvals.element.querySelectorAll(".approval").length);
      }
      approvals.end();
      return shown;
    });
  },

  // Returns what is shown of a command.
  async unmasks({ page, context, args }) {
    const { request } = await open(page, context, args);
    await request("hidden", args.command);
    const shown = card(page, "rm");
    await shown.waitFor();
    return shown.locator("code").textContent();
  },
});
