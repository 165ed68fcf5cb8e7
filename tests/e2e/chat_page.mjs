// The smallest client of the action chat, in a browser.
//
// args: {page, control, session, runs, refused, pictures, picture}
//   page      address of the page
//   control   where the test is asked to do something
//   runs      a message upon which a command is asked about
//   pictures  a message whose answer shows a picture
//   picture   where a picture of the page is put, if anywhere
// Returns what the page has shown.
import { ask } from "../node/page.mjs";

export default async function ({ page, args }) {
  await page.goto(args.page);
  const state = page.locator("#state");
  const ready = () => state.filter({ hasText: "ready" }).waitFor();
  const last = (kind) => page.locator(`#log .${kind}`).last();
  const session = () => page.evaluate(() => document.body.dataset.session);
  const say = async (text) => {
    await page.getByLabel("Message").fill(text);
    await page.getByRole("button", { name: "Send" }).click();
  };
  const told = {};

  await ready();
  told.first = await session();
  await say("hello there");
  await last("assistant").filter({ hasText: "Echo: hello there" }).waitFor();
  await ready();

  await say(args.runs);
  await page.getByRole("button", { name: "Approve" }).click();
  await page.locator(".asks").filter({ hasText: "Approved" }).waitFor();
  await ready();
  told.approved = await last("event").textContent();

  await say(args.runs);
  await page.getByRole("button", { name: "Reject" }).click();
  await page.locator(".asks").filter({ hasText: "Rejected" }).waitFor();
  await ready();
  told.rejected = await last("event").textContent();

  await say(args.pictures);
  const picture = page.locator(".media img");
  await picture.waitFor();
  await page.waitForFunction(() => document.querySelector(".media img").complete);
  told.picture = await picture.evaluate((img) => img.naturalWidth);
  await ready();

  // In the middle of an answer the gateway is killed, and comes back.
  await say("@mock stream n=4000 delay=40");
  await last("assistant").filter({ hasText: "w5 " }).waitFor();
  await ask(args, "restart");
  await ready();
  told.again = await session();
  await say("@mock text text=\"back again\"");
  await last("assistant").filter({ hasText: "back again" }).waitFor();
  await ready();
  await say("/help");
  told.help = await last("message").textContent();
  if (args.picture) await page.screenshot({ path: args.picture, fullPage: true });
  told.errors = await page.locator("#log .error").count();
  return told;
}
