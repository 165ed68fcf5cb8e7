// Overview, instances, sessions, usage and debug.
//
// The gateway has the sessions `main` (with a tool), `long` (which can be
// compacted) and `old`. Returns what was shown of each tab.
import { visit } from "../../node/control-ui.mjs";

export default visit(async ({ page, ui }) => {
  const told = {};
  const main = page.getByRole("main");
  await ui.open("/overview");

  // Overview: the cards have numbers, the log has lines.
  const cards = main.locator(".ov-card");
  await cards.filter({ hasText: "tokens" }).waitFor();
  await main.locator(".ov-log-tail").waitFor();
  await ui.idle();
  told.overview = (await main.innerText()).split(/\s*\n\s*/);
  await ui.shot("overview");

  // Instances: the gateway, and this page.
  await ui.answer("system-presence", () => ui.tab("instances"));
  await main.locator(".list-item").nth(1).waitFor();
  told.instances = await main.locator(".list-item").allInnerTexts();
  await main.getByLabel("Toggle host visibility").click();
  await ui.idle();
  await ui.shot("instances");

  // Sessions: all are listed; found; named; changed.
  await ui.answer("sessions.list", () => ui.tab("sessions"));
  const rows = main.locator(".session-data-row");
  const row = (key) => rows.filter({ has: page.getByText(key, { exact: true }) });
  await row("agent:main:long").waitFor();
  await ui.idle();
  told.sessions = await main.locator(".session-data-row td.data-table-key-col").allInnerTexts();
  await ui.shot("sessions");
  await main.getByPlaceholder(/Filter by key/).fill("old");
  await ui.until("one row", async () => (await rows.count()) === 1);
  await main.getByPlaceholder(/Filter by key/).fill("");
  for (const filter of ["Unknown", "Show archived", "Show archived", "Global", "Global"]) {
    const toggle = main.locator(".session-filter-toggle", { hasText: filter });
    await ui.change(() => ui.answer("sessions.list", () => toggle.click()));
  }
  const long = row("agent:main:long");
  await ui.change(() => ui.answer("sessions.patch", async () => {
    await long.getByPlaceholder("(optional)").fill("The long one");
    await long.getByPlaceholder("(optional)").blur();
  }));
  const [thinking, fast, verbose, reasoning] = [0, 1, 2, 3].map((at) => long.locator("select").nth(at));
  told.thinking = await thinking.locator("option").allInnerTexts();
  for (const [select, value] of [
    [thinking, "low"], [fast, "on"], [verbose, "full"], [reasoning, "stream"],
    [thinking, ""], [fast, ""], [verbose, ""], [reasoning, ""],
    [thinking, "high"], [fast, "off"], [verbose, "off"], [reasoning, "on"],
  ]) {
    await ui.change(() => ui.answer("sessions.patch", () => select.selectOption(value)));
  }
  told.patched = ui.answers("sessions.patch").at(-1).payload.entry;

  // A checkpoint: looked at, branched from.
  await long.getByText("Show checkpoints").click();
  await main.getByText("They said hello.").waitFor();
  await ui.shot("sessions-checkpoints");
  page.once("dialog", (dialog) => dialog.accept());
  await ui.answer("sessions.compaction.branch", () =>
    main.getByRole("button", { name: "Branch from checkpoint" }).first().click());
  await page.waitForURL("**/chat?session=**");
  await page.locator(".chat-group").first().waitFor();
  await ui.idle();
  told.branch = page.url();
  await ui.tab("sessions");
  await ui.idle();

  // Restored.
  page.once("dialog", (dialog) => dialog.accept());
  await ui.answer("sessions.compaction.restore", () =>
    main.getByRole("button", { name: "Restore checkpoint" }).first().click());
  await ui.idle();

  // Deleted, and only this one.
  await row("agent:main:old").getByLabel("Select session").check();
  page.once("dialog", (dialog) => dialog.accept());
  await ui.answer("sessions.delete", () => main.getByText("Delete", { exact: true }).click());
  await row("agent:main:old").waitFor({ state: "detached" });
  await ui.idle();

  // Usage: totals, and one session in detail.
  await ui.answer("usage.cost", () => ui.tab("usage"));
  await main.locator(".session-bar-row").first().waitFor();
  await ui.idle();
  told.usage = (await main.innerText()).split(/\s*\n\s*/);
  await ui.shot("usage");
  const zone = main.locator("select").filter({ has: page.locator('option[value="utc"]') });
  await ui.change(() => ui.answer("usage.cost", () => zone.selectOption("utc")));
  await ui.answer("sessions.usage.logs", () =>
    main.locator('.session-bar-row[title="agent:main:main"]').click());
  await main.locator(".session-log-entry").first().waitFor();
  await main.locator(".timeseries-svg").waitFor();
  await ui.idle();
  told.logs = await main.locator(".session-log-entry").allInnerTexts();
  await ui.shot("usage-session");

  // Debug: snapshots, and a call by hand.
  await ui.answer("last-heartbeat", () => ui.tab("debug"));
  const method = main.getByLabel("Method");
  await method.locator("option").first().waitFor({ state: "attached" });
  told.methods = await method.locator("option").evaluateAll((all) => all.map((it) => it.value));
  await method.selectOption("sessions.resolve");
  await main.getByLabel("Params (JSON)").fill('{"key": "main"}');
  await ui.answer("sessions.resolve", () => main.getByText("Call", { exact: true }).click());
  await main.locator(".row + pre", { hasText: '"key": "agent:main:main"' }).waitFor();
  await ui.idle();
  told.debug = (await main.innerText()).split(/\s*\n\s*/);
  await ui.shot("debug");
  return told;
});
