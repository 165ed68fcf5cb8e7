// Steps of usage.rs.
import { readFile } from "node:fs/promises";
import { check, login, steps, until } from "../../node/page.mjs";

const chart = (page) => page.locator("figure.plot");

const choice = (page, label) => page.getByRole("combobox", { name: label, exact: true });

// The chart's table, as texts.
async function table(page) {
  const details = chart(page).locator("details");
  if (!(await details.evaluate((node) => node.open))) await details.locator("summary").click();
  await details.locator("table").waitFor();
  return details.locator("tr").evaluateAll((rows) => rows.map((row) => [...row.children].map((cell) => cell.textContent)));
}

const totals = (page) =>
  page.locator("dl[aria-label=Totals] .stat").evaluateAll((all) =>
    Object.fromEntries(all.map((stat) => [stat.querySelector("dt").textContent, [...stat.querySelector("dd").childNodes].map((node) => node.textContent).join(" ")])),
  );

async function choose(page, first, last) {
  await page.getByLabel("From").fill(first);
  await page.getByLabel("to", { exact: true }).fill(last);
}

export default steps({
  async shows({ page, args }) {
    await login(page, args, "#/usage");
    await page.getByLabel("Totals").waitFor();
    await choose(page, args.first, args.last);
    await until("transcripts are read", async () => (await totals(page)).Tokens?.startsWith("4.7K"));
    const told = { totals: await totals(page), missing: await page.locator(".notice.warn").textContent() };
    await choice(page, "by").selectOption("Model");
    told.byModel = await table(page);
    const slider = page.getByRole("slider");
    await slider.focus();
    await page.keyboard.press("Home");
    await page.keyboard.press("ArrowRight");
    told.point = await slider.getAttribute("aria-valuetext");
    check(await chart(page).locator(".tip").isVisible(), "the point is shown as well");
    await choice(page, "by").selectOption("Session");
    await choice(page, "Show").selectOption("Cost");
    await page.getByRole("heading", { name: "Cost per day by session" }).waitFor();
    told.costBySession = await table(page);
    const downloaded = page.waitForEvent("download");
    await page.getByRole("button", { name: "Download CSV" }).click();
    const download = await downloaded;
    told.file = download.suggestedFilename();
    told.csv = await readFile(await download.path(), "utf8");
    told.chat = await page.getByRole("link", { name: "=Taxes" }).getAttribute("href");
    return told;
  },

  async today({ page, args }) {
    await login(page, args, "#/usage");
    await until("all is counted", async () => (await totals(page)).Tokens?.includes(`${args.tokens.toLocaleString("en-US")} in all`));
    await page.keyboard.press("Tab");
    const slider = page.getByRole("slider");
    await slider.focus();
    await page.keyboard.press("End");
    const said = await slider.getAttribute("aria-valuetext");
    await choice(page, "Show").selectOption("Cost");
    await page.getByRole("heading", { name: "Cost per day by model" }).waitFor();
    const priced = await slider.getAttribute("aria-valuetext");
    return {
      today: { tokens: Number(/ (\d+) tokens$/.exec(said)[1]), cost: Number(/\$([\d.]+)$/.exec(priced)[1]) },
      model: await page.getByRole("region", { name: "Models" }).locator("tbody th").textContent(),
    };
  },
});
