// The log: followed, filtered and exported.
import { readFileSync } from "node:fs";
import { visit } from "../../node/control-ui.mjs";

export default visit(async ({ page, context, ui, args }) => {
  const row = page.locator(".log-row");

  await ui.open("/logs");
  await row.getByText("device paired from this machine").waitFor();
  // What happens from now on comes by itself.
  const before = await row.getByText("connected conn=").count();
  const other = await context.newPage();
  await other.goto(`${args.origin}/nodes#token=${args.token}`);
  await ui.until("a new line", async () =>
    (await row.getByText("connected conn=").count()) > before);
  await other.close();

  await page.getByPlaceholder("Search logs").fill("DEVICE PAIRED");
  await ui.until("one line", async () => (await row.count()) === 1);
  await ui.shot("logs");
  const download = page.waitForEvent("download");
  await page.getByRole("button", { name: /Export/ }).click();
  const exported = readFileSync(await (await download).path(), "utf8");
  await page.locator(".log-chip.info input").uncheck();
  await page.getByText("No log entries").waitFor();
  await ui.idle();
  return { exported, file: await page.getByText(/^File: /).innerText() };
});
