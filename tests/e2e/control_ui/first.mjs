// How a page comes in.
//
// args.way      `link`: by a link with the token; `form`: by typing the token;
//               `elsewhere`: a page of another origin that is told the URL;
//               `open`: nothing is asked for
// args.socket   what the page of another origin is told
// Returns {urls, first, gate}: addresses that were shown after each step, the
// first answer to `connect`, and what the form said before.
import { listen, visit, ControlUi } from "../../node/control-ui.mjs";

const WAYS = {
  async link({ page, ui, args }) {
    await page.goto(`${args.origin}/#token=${args.token}`);
    await ui.connected();
  },

  async form({ page, ui, args, told }) {
    await page.goto(args.origin);
    await page.locator(".login-gate .callout.danger").waitFor();
    told.gate = await page.locator(".login-gate .callout.danger").innerText();
    await ui.shot("first-gate");
    await page.getByLabel("Gateway Token").fill(args.token);
    await page.getByRole("button", { name: "Connect", exact: true }).click();
    await ui.connected();
  },

  async elsewhere({ page, ui, args, told }) {
    const link = new URLSearchParams({ gatewayUrl: args.socket, token: args.token });
    await page.goto(`${args.page}/chat#${link}`);
    await page.getByText(args.socket, { exact: true }).waitFor();
    await ui.shot("first-elsewhere");
    await page.getByRole("button", { name: "Confirm" }).click();
    // A person lets the device in; the page comes again by itself or is told to.
    await page.getByText("pairing required").first().waitFor();
    told.gate = await page.locator(".login-gate .callout.danger").innerText();
    await page.waitForFunction(() => globalThis.approved);
    await page.getByRole("button", { name: "Connect", exact: true }).click();
    await ui.connected();
  },

  async open({ page, ui, args }) {
    await page.goto(args.origin);
    await ui.connected();
  },
};

export default visit(async (browser) => {
  const { page, context, ui, args } = browser;
  const told = { urls: [], gate: null };
  await WAYS[args.way]({ ...browser, told });
  await ui.idle();
  told.urls.push(page.url());
  told.first = ui.answers("connect")[0];

  // Again, and in another window, nothing is asked.
  await page.reload();
  await ui.connected();
  await ui.idle();
  told.urls.push(page.url());
  const other = await context.newPage();
  listen(other, ui.seen);
  await other.goto(args.page ?? args.origin);
  await new ControlUi(other, args, ui.seen).connected();
  await ui.idle();
  told.stored = await page.evaluate(() => JSON.stringify(localStorage));
  return told;
});
