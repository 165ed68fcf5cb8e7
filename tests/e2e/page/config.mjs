// Steps of config.rs.
import { ask, check, login, record, steps, until } from "../../node/page.mjs";

async function open(page, args) {
  await login(page, args, "#/config");
  await page.getByRole("navigation", { name: "Sections" }).waitFor();
}

const field = (page, path) => page.locator(`[data-path="${path}"]`);
const section = (page, name) => page.getByRole("navigation", { name: "Sections" }).getByRole("button", { name, exact: true }).click();
const rows = (page) => page.getByRole("dialog").locator("tbody tr").evaluateAll((all) => all.map((row) => [...row.children].map((cell) => cell.textContent)));

async function setRuns(page, value) {
  await page.getByLabel("Search settings").fill("cron.maxConcurrentRuns");
  await field(page, "cron.maxConcurrentRuns").locator("input").fill(value);
}

// Asks to save; what the dialog shows is returned once it is confirmed.
async function save(page) {
  await page.getByRole("button", { name: "Save…" }).click();
  const shown = await rows(page);
  await page.getByRole("dialog").getByRole("button", { name: "Save", exact: true }).click();
  return shown;
}

export default steps({
  async by_fields({ page, args }) {
    await open(page, args);
    await section(page, "Gateway");
    const port = field(page, "gateway.port");
    await port.locator("input").fill("70000");
    const told = { mistake: await port.locator(".wrong").textContent() };
    told.canSave = await page.getByRole("button", { name: "Save…" }).isEnabled();
    await port.locator("input").fill("");
    await page.getByLabel("Search settings").fill("gateway.auth.token");
    const token = field(page, "gateway.auth.token").locator("input");
    told.secret = await token.inputValue();
    check((await token.getAttribute("type")) === "password", "a secret is masked");
    await setRuns(page, "3");
    // What is not saved yet is still there after a look at something else.
    await page.goto(`${args.url}#/usage`);
    await page.getByRole("heading", { name: "Usage" }).waitFor();
    await page.goto(`${args.url}#/config`);
    await page.getByText("1 change", { exact: true }).waitFor();
    await section(page, "Logging");
    await field(page, "logging.level").locator("select").selectOption("debug");
    told.diff = await save(page);
    await page.getByText(/^Saved/).waitFor();
    await page.getByRole("button", { name: "Save…" }).waitFor({ state: "hidden" });
    return told;
  },

  async is_refused({ page, args }) {
    await open(page, args);
    await page.getByLabel("Search settings").fill("agents.defaults.model.primary");
    const primary = field(page, "agents.defaults.model.primary");
    await primary.locator("input").fill("nowhere/none");
    await save(page);
    const beside = page.locator(".wrong:not(:empty)");
    await beside.waitFor();
    return { beside: await beside.textContent(), invalid: await page.locator("[data-path] input").first().getAttribute("aria-invalid") };
  },

  async goes_on({ page, args }) {
    const frames = record(page);
    const times = () => frames.calls("config.get").length;
    await open(page, args);
    check(times() === 1, "it is loaded once", times());
    await page.getByLabel("Search settings").fill("cron.maxConcurrentRuns");
    const runs = field(page, "cron.maxConcurrentRuns").locator("input");
    await runs.focus();
    await page.keyboard.type("1");
    await ask(args, "restart");
    await until("it is loaded again", () => times() === 2);
    await page.locator(".link-state", { hasText: "Connected" }).waitFor();
    await until("it is answered", () => frames.received.some(({ id }) => id === frames.sent.findLast(({ method }) => method === "config.get").id));
    // What comes of the answer has come after the next turn of the page.
    await page.evaluate(() => new Promise((resolve) => setTimeout(resolve)));
    await page.keyboard.type("2");
    return { typed: await runs.inputValue(), diff: await save(page) };
  },

  async by_text({ page, args }) {
    await open(page, args);
    await page.getByRole("button", { name: "Text", exact: true }).click();
    const area = page.getByLabel("Text of the config file");
    const before = await area.inputValue();
    const told = {};
    await area.fill(`? ${before}`);
    const issues = page.locator("#config-issues li");
    await issues.waitFor();
    told.syntax = await issues.textContent();
    told.marked = (await page.locator(".raw pre b").textContent()).trim();
    const withCron = (enabled) => `${args.comment}\n${before.replace("{", `{ cron: { enabled: ${enabled} }, // later\n`)}`;
    await area.fill(withCron("1"));
    await issues.getByText("cron.enabled").waitFor();
    told.type = await issues.textContent();
    await area.fill(withCron("false"));
    await save(page);
    await page.getByText(/^Saved/).waitFor();
    return told;
  },

  async meets_another({ page, args }) {
    await open(page, args);
    await setRuns(page, "3");
    await ask(args, "change");
    await save(page);
    const dialog = page.getByRole("dialog", { name: "Somebody else has changed the config" });
    await dialog.waitFor();
    const theirs = await rows(page);
    await dialog.getByRole("button", { name: "Keep mine" }).click();
    await dialog.waitFor({ state: "detached" });
    const kept = (await page.getByText("1 change", { exact: true }).count()) === 1;
    await save(page);
    await page.getByText(/^Saved/).waitFor();
    return { theirs, kept };
  },

  // Lists that two have changed: by ids, and by the choice of a person. Returns what
  // was asked.
  async merges({ page, args }) {
    await open(page, args);
    const search = page.getByLabel("Search settings");
    await search.fill("agents.list[1].name");
    await field(page, "agents.list[1].name").locator("input").fill("Bee");
    await search.fill("tools.deny");
    await page.locator("main summary").filter({ has: page.locator(".badge") }).click();
    await field(page, "tools.deny[0]").locator("input").fill("browser");
    await setRuns(page, "");
    await ask(args, "change");
    await save(page);
    const dialog = page.getByRole("dialog", { name: "Somebody else has changed the config" });
    await dialog.waitFor();
    const choices = await dialog.locator("label.field").evaluateAll((all) => all.map((one) => one.firstChild.textContent));
    for (const name of choices) await dialog.getByLabel(name).selectOption("Theirs");
    await dialog.getByRole("button", { name: "Keep mine" }).click();
    await dialog.waitFor({ state: "detached" });
    await save(page);
    await page.getByText(/^Saved/).waitFor();
    return choices;
  },

  // A secret that is typed, looked at again, and given up.
  async masks({ page, args }) {
    await open(page, args);
    const search = page.getByLabel("Search settings");
    const find = async () => {
      await search.fill("logging.level");
      await search.fill("gateway.auth.token");
    };
    await find();
    const token = field(page, "gateway.auth.token").locator("input");
    await token.fill("typed-secret");
    await find();
    check((await token.inputValue()) === "typed-secret", "what is typed stays in its field");
    const saving = page.getByRole("button", { name: "Save…" });
    await saving.click();
    const told = { rows: await rows(page), text: await page.getByRole("dialog").textContent() };
    await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
    await token.fill("");
    await saving.waitFor({ state: "hidden" });
    await field(page, "gateway.auth.token").getByRole("button").click();
    await find();
    told.removed = [await token.getAttribute("placeholder"), await saving.isVisible()];
    return told;
  },
});
