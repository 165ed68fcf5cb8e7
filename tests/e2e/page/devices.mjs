// Steps of devices.rs.
import { ask, check, login, record, steps, until } from "../../node/page.mjs";

const card = (page, name) => page.locator("li.device").filter({ has: page.getByRole("heading", { name, exact: true }) });

export default steps({
  // Returns what the page has told of errors.
  async decides({ page, args }) {
    await login(page, args, "#/devices");
    await page.getByText("Nobody is waiting").waitFor();
    const own = card(page, "clawgate page");
    await own.getByText("this browser").waitFor();
    const badge = page.getByRole("navigation").locator("a[href='#/devices'] .count");

    await ask(args, "knock");
    const phone = card(page, "Ann's phone");
    await phone.getByText("chat and run agents").waitFor();
    await phone.getByText("203.0.113.9").waitFor();
    await until("a number in the navigation", async () => (await badge.textContent()) === "1");
    await page.getByRole("button", { name: "Approve Ann's phone" }).click();
    await page.getByText("Nobody is waiting").waitFor();
    await until("no number", async () => (await badge.textContent()) === "");
    await ask(args, "approved");

    await page.getByRole("button", { name: "Revoke Ann's phone as operator" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
    await phone.getByText("revoked").first().waitFor();
    await ask(args, "revoked");
    await page.getByRole("button", { name: "Remove Ann's phone" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Remove" }).click();
    await phone.waitFor({ state: "detached" });

    await page.getByRole("link", { name: "Logs" }).click();
    await ask(args, "knock-again");
    await until("a number while another view is shown", async () => (await badge.textContent()) === "1");
    await page.getByRole("link", { name: "Devices" }).click();
    await card(page, "A laptop").getByText("change everything").waitFor();
    await page.getByRole("button", { name: "Reject A laptop" }).click();
    await page.getByText("Nobody is waiting").waitFor();
    await ask(args, "rejected");

    // This browser gets another token, and is in by it after a reload.
    await own.getByRole("button", { name: /^Rotate/ }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Rotate" }).click();
    await page.getByText("clawgate page is rotated").waitFor();
    await page.reload();
    await own.getByText("this browser").waitFor();
    return { errors: await page.locator(".toast.bad").allTextContents() };
  },

  // Returns what is in the setup code.
  async welcomes({ page, args }) {
    await login(page, args, "#/devices");
    await ask(args, "node");
    await page.getByRole("button", { name: "Approve Camera" }).click();
    const node = page.getByRole("region", { name: "Nodes" }).locator("li.device");
    await node.getByText("camera", { exact: true }).waitFor();
    await node.getByRole("button", { name: "Rename" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Name").fill("Door camera");
    await dialog.getByRole("button", { name: "Rename" }).click();
    await page.getByRole("heading", { name: "Door camera" }).waitFor();

    await ask(args, "person");
    await page.reload();
    await page.getByRole("button", { name: "Approve Eve" }).click();
    await page.getByRole("region", { name: "People in chats" }).getByRole("cell", { name: "Eve eve" }).waitFor();

    await page.getByRole("button", { name: "Set up a phone" }).click();
    await dialog.getByLabel(/^Address/).fill("ws://127.0.0.1:1");
    await dialog.getByRole("button", { name: "Make a code" }).click();
    await dialog.getByText("A phone does not reach this address").waitFor();
    await dialog.getByLabel(/^Address/).fill("wss://gateway.example");
    await dialog.getByRole("button", { name: "Make a code" }).click();
    await dialog.getByRole("img", { name: "Setup code" }).waitFor();
    const code = await dialog.locator("[data-code]").textContent();
    check(/^[\w-]+$/.test(code), "a code", code);
    return { code: JSON.parse(Buffer.from(code, "base64url").toString()) };
  },

  // Nobody tells of people who wait: they are looked for while another view is shown.
  async looks_again({ page, args }) {
    const frames = record(page);
    const times = () => frames.calls("channels.pairing.list").length;
    await page.clock.install();
    await login(page, args, "#/logs");
    await until("it looks once", () => times() > 0);
    const before = times();
    await page.clock.fastForward(20_000);
    await until("it looks again", () => times() > before);
  },
});
