// Channels: those that this gateway has, and one that is configured by its form.
import { visit } from "../../node/control-ui.mjs";

export default visit(async ({ page, ui, args }) => {
  const card = (title) => page.locator(".grid > .card")
    .filter({ has: page.locator(".card-title", { hasText: title }) });
  const webhook = card("Webhook");
  const row = (label, within) => within.locator(".status-list > div")
    .filter({ hasText: label }).first();
  const field = (label) => webhook.locator(".cfg-field")
    .filter({ has: page.locator(".cfg-field__label", { hasText: new RegExp(`^${label}$`) }) })
    .locator("input");

  await ui.open("/channels");
  await row("Configured", webhook).getByText("No", { exact: true }).waitFor();
  // What is typed before the settings have come would be all that is saved.
  await field("Secret").waitFor();
  await ui.idle();
  const cards = await page.locator(".grid > .card .card-title").allInnerTexts();
  await field("Secret").fill(args.secret);
  await field("URL").fill("http://127.0.0.1:9/answers");
  await ui.shot("channels-form");
  await ui.saved("config.set", () =>
    webhook.getByRole("button", { name: "Save", exact: true }).click());
  await row("Configured", webhook).getByText("Yes", { exact: true }).waitFor();
  await row("Running", webhook).getByText("Yes", { exact: true }).waitFor();

  await page.reload();
  await ui.connected();
  await row("Running", webhook).getByText("Yes", { exact: true }).waitFor();
  await ui.answer("channels.status", () =>
    card("Telegram").getByRole("button", { name: "Probe", exact: true }).click());
  await ui.idle();
  await ui.shot("channels");
  const health = await page.locator(".code-block").innerText();
  return { cards, secretIsShown: (await page.content()).includes(args.secret), health };
});
