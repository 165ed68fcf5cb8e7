// Steps of overview.rs.
import { ask, login, record, steps, until } from "../../node/page.mjs";

// The newest value of a chart, as it is said.
const newest = (page, title) => page.getByRole("slider", { name: title }).getAttribute("aria-valuetext");

export default steps({
  async counts({ page, args }) {
    const frames = record(page);
    await login(page, args, "#/overview");
    const counts = [];
    const see = async (wanted) => {
      await until(`${wanted} connections`, async () => (await newest(page, "Connections")).endsWith(`Connections ${wanted}`));
      counts.push(wanted);
    };
    await see(1);
    await ask(args, "connect");
    await see(3);
    await ask(args, "disconnect");
    await see(1);
    const figure = page.locator("figure", { hasText: "Connections" }).first();
    await figure.locator("summary").click();
    await figure.locator("tbody tr").first().waitFor();
    const methods = page.getByRole("region", { name: "Slowest methods" }).locator("tbody th");
    await methods.first().waitFor();
    const named = await methods.allTextContents();
    const uncalled = named.filter((method) => method !== "connect" && frames.calls(method).length === 0);
    return { counts, rows: await figure.locator("tbody tr").count(), named: named.length, uncalled };
  },

  async degrades({ page, args }) {
    await login(page, args, "#/overview");
    const row = page.locator('tr[data-part="config"]');
    await row.getByText("well").waitFor();
    await ask(args, "break");
    // Whoever comes is told of it at once.
    await until("the part is degraded", async () => {
      await page.reload();
      await row.waitFor();
      return row.getByText("degraded").isVisible();
    });
    return { part: await row.textContent(), advice: await row.getByRole("link").getAttribute("href") };
  },

  async restarts({ page, args }) {
    const frames = record(page);
    await login(page, args, "#/overview");
    const wanted = () => frames.calls("gateway.restart.request").length;
    const restart = page.getByRole("button", { name: "Restart gateway" });
    const dialog = page.getByRole("dialog");
    await restart.click();
    await dialog.getByRole("button", { name: "Cancel" }).click();
    await dialog.waitFor({ state: "detached" });
    const cancelled = wanted();
    await restart.click();
    await dialog.getByRole("button", { name: /^Restart/ }).click();
    const hellos = () => frames.received.filter((frame) => frame.payload?.type === "hello-ok").length;
    await until("the page is back", async () => hellos() === 2);
    await page.getByRole("status").getByText("Connected").waitFor();
    return { cancelled, requests: wanted() };
  },
});
