// Jobs: made, run, changed, switched off, copied and removed; their history.
import { visit } from "../../node/control-ui.mjs";

export default visit(async ({ page, ui }) => {
  const form = (id) => page.locator(`#cron-${id}`);
  const job = (name) =>
    page.locator(".cron-job").filter({ has: page.getByText(name, { exact: true }) });
  const press = (name, button) =>
    job(name).getByRole("button", { name: button, exact: true }).click();

  await ui.open("/cron");
  await form("name").fill("Morning brief");
  await form("every-amount").fill("45");
  await form("payload-text").fill("Say what is new");
  await form("delivery-mode").selectOption("none");
  await page.getByRole("button", { name: "Add job" }).click();
  await job("Morning brief").getByText("Every 45m").waitFor();

  await press("Morning brief", "Run");
  const entry = page.locator(".cron-run-entry");
  await entry.getByText(/^Echo: /).waitFor();
  await job("Morning brief").locator(".cron-job-status-ok").waitFor();
  const run = await entry.innerText();
  await ui.shot("cron-run");

  await press("Morning brief", "Edit");
  await form("name").fill("Evening brief");
  await form("schedule-kind").selectOption("cron");
  await form("cron-expr").fill("0 18 * * *");
  await page.getByRole("button", { name: "Save changes" }).click();
  await job("Evening brief").getByText("Cron 0 18 * * *").waitFor();

  await press("Evening brief", "Disable");
  await job("Evening brief").getByText("disabled", { exact: true }).waitFor();
  const { ran } = await ui.answer("cron.run", () => press("Evening brief", "Run if due"));

  // With what the form says of delivery by itself: an announcement.
  await press("Evening brief", "Clone");
  await form("delivery-mode").selectOption("announce");
  await page.getByRole("button", { name: "Add job" }).click();
  await job("Evening brief copy").waitFor();
  await press("Evening brief copy", "Enable");
  await job("Evening brief copy").getByText("enabled", { exact: true }).waitFor();

  await page.reload();
  await ui.connected();
  await job("Evening brief copy").waitFor();
  // All runs of all jobs.
  await entry.getByText(/^Echo: /).waitFor();
  await ui.answer("cron.remove", () => press("Evening brief", "Remove"));
  await job("Evening brief").waitFor({ state: "detached" });
  await ui.idle();
  await ui.shot("cron");
  return { run, ran, jobs: await page.locator(".cron-job .list-title").allInnerTexts() };
});
