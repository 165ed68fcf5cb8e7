// Steps of logs.rs.
import { readFileSync } from "node:fs";
import { ask, check, login, record, steps, until } from "../../node/page.mjs";

export default steps({
  // Returns a line that the gateway wrote meanwhile, its fields, and what was
  // copied of the lines that were found.
  async follows({ page, context, args }) {
    const frames = record(page);
    await context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: new URL(args.url).origin });
    await login(page, args, "#/logs");
    const lines = page.getByRole("log").locator("details");
    const starts = lines.filter({ hasText: "ready address=" });
    await starts.first().waitFor();
    const waits = lines.filter({ hasText: "a device waits for approval" });
    check((await waits.count()) === 0, "nobody waits yet");

    await ask(args, "knock");
    await waits.waitFor();
    const line = await waits.textContent();
    check((await waits.getAttribute("data-level")) === "warn", "it is a warning");
    const warn = page.getByRole("button", { name: "warn" });
    await warn.click();
    await waits.waitFor({ state: "detached" });
    check((await starts.count()) === 1, "other levels are shown");
    await warn.click();
    await waits.waitFor();

    const search = page.getByLabel("Search the log");
    await search.fill("WAITS for approval");
    await until("only what is found", async () => (await lines.count()) === 1);
    check((await page.locator("mark").textContent()) === "waits for approval", "it is marked");
    await waits.locator("summary").click();
    const opened = waits.locator("pre", { hasText: '"source"' });
    await opened.waitFor();
    const fields = await opened.textContent();
    await page.getByRole("button", { name: "Copy" }).click();
    await page.getByText("The lines that are shown are copied").waitFor();
    const file = await page.evaluate(() => navigator.clipboard.readText());
    const download = page.waitForEvent("download");
    await page.getByRole("button", { name: "Download" }).click();
    const saved = readFileSync(await (await download).path(), "utf8");
    check(JSON.parse(saved).message.includes("a device waits"), "the file has the line", saved);
    await search.fill("no such words");
    await page.getByText("No line fits").waitFor();
    await search.fill("");

    await ask(args, "restart");
    await until("the lines of the next process", async () => (await starts.count()) === 2);
    check((await waits.count()) === 1, "each line is there once");
    const cursors = frames.calls("logs.tail").slice(1).map(({ cursor }) => cursor);
    check(cursors.every((cursor, at) => cursor !== undefined && cursor >= (cursors[at - 1] ?? 0)), "it goes on where it was", cursors);

    const follow = page.getByRole("button", { name: "Follow" });
    const isAtEnd = () => page.getByRole("log").evaluate((log) => log.scrollTop > 0 && log.scrollHeight - log.scrollTop - log.clientHeight < 2);
    await page.setViewportSize({ width: 600, height: 360 });
    await until("the end is kept", isAtEnd);
    await page.getByRole("log").evaluate((log) => log.scrollTo(0, 0));
    await page.locator("button[aria-pressed='false']", { hasText: "Follow" }).waitFor();
    await follow.click();
    await until("the end", isAtEnd);
    return { line, fields, file };
  },
});
