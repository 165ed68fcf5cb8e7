// How a page comes in.
//
// args.way      `link`: by a link with the token; `form`: by typing the token;
//               `open`: nothing is asked for; `elsewhere`: a page of another
//               origin that is told the URL
// args.socket   what the page of another origin is told
// Returns {url, again, refused, stored}: the address after coming in and after
// coming again, what the form said before, and what the browser keeps for good.
import { ControlUi, listen, visit } from "../../node/control-ui.mjs";

const WAYS = {
  async link({ page, ui, args }) {
    await page.goto(`${args.origin}/#token=${args.token}`);
    await ui.connected();
  },

  async form({ page, ui, args }) {
    await page.goto(args.origin);
    const refused = await complaint(page, "token missing");
    await ui.shot("first-gate");
    await page.getByLabel("Gateway Token").fill(args.token);
    await page.getByRole("button", { name: "Connect", exact: true }).click();
    await ui.connected();
    return refused;
  },

  async open({ page, ui, args }) {
    await page.goto(args.origin);
    await ui.connected();
  },

  async elsewhere({ page, ui, args }) {
    const link = new URLSearchParams({ gatewayUrl: args.socket, token: args.token });
    await page.goto(`${args.page}/chat#${link}`);
    await page.locator(".exec-approval-command", { hasText: args.socket }).waitFor();
    await ui.shot("first-elsewhere");
    await page.getByRole("button", { name: "Confirm" }).click();
    const refused = await complaint(page, "pairing required");
    // A person lets the device in meanwhile.
    await ui.until("a device that is let in", async () => {
      const connect = page.getByRole("button", { name: "Connect", exact: true });
      await ui.answer("connect", () => connect.click());
      return ui.answers("connect").at(-1).ok;
    });
    await ui.connected();
    return refused;
  },
};

async function complaint(page, text) {
  const shown = page.locator(".login-gate .callout.danger", { hasText: text });
  await shown.waitFor();
  return shown.innerText();
}

export default visit(async (browser) => {
  const { page, context, ui, args } = browser;
  const refused = await WAYS[args.way](browser);
  await ui.idle();
  const url = page.url();

  // Again, and in another window, nothing is asked.
  await page.reload();
  await ui.connected();
  await ui.idle();
  const again = page.url();
  const other = await context.newPage();
  listen(other, ui.seen);
  await other.goto(args.page ?? args.origin);
  await new ControlUi(other, args, ui.seen).connected();
  await ui.idle();
  const stored = await page.evaluate(() => JSON.stringify(localStorage));
  return { url, again, refused, stored };
});
