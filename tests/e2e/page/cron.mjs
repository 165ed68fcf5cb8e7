// Steps of cron.rs.
import { ask, check, login, record, steps, until } from "../../node/page.mjs";

const EXPR = "Minute, hour, day, month, weekday";

// What is told beside a field once something is.
async function complaint(dialog, label) {
  const error = dialog.locator(".field-box", { has: dialog.page().getByLabel(label, { exact: true }) }).locator(".field-error");
  await error.waitFor();
  return error.textContent();
}

async function open(page, args) {
  await login(page, args, "#/cron");
  await page.getByRole("button", { name: "New job" }).first().click();
  return page.getByRole("dialog");
}

export default steps({
  // Returns the first of the next runs that the form has shown, the next run of
  // the job in the list, and the address of the session of its run.
  async plans({ page, args }) {
    const frames = record(page);
    const form = await open(page, args);
    await form.getByLabel("Name").fill("Morning news");
    await form.getByText("By the calendar").click();
    await form.getByLabel("Time zone").fill("Europe/Paris");
    await form.getByLabel(EXPR).fill("30 8 * * 1-5");
    const asked = await until("the calendar is asked for", () => frames.sent.find(({ params }) => params.schedule?.expr === "30 8 * * 1-5" && params.schedule.tz === "Europe/Paris"));
    const { payload } = await until("its instants", () => frames.received.find(({ id }) => id === asked.id));
    const first = form.locator(".preview li time").first();
    const shownAt = async () => Date.parse(await first.getAttribute("datetime"));
    await until("next runs", async () => (await first.isVisible()) && (await shownAt()) === payload.instants[0]);
    const previewed = await shownAt();
    check((await form.locator(".preview li").count()) === 3, "three next runs");
    await form.getByLabel("Message").fill(args.said);
    await form.getByLabel("Stop after").fill("90");
    await form.getByRole("button", { name: "Add job" }).click();
    const job = page.getByRole("listitem").filter({ has: page.getByRole("heading", { name: "Morning news" }) });
    await job.waitFor();
    await ask(args, "added");
    await job.getByText("Monday to Friday at 08:30 · Europe/Paris").waitFor();
    const next = Date.parse(await job.locator("dd time").first().getAttribute("datetime"));

    await job.getByRole("button", { name: "Run now" }).click();
    const run = page.locator("li.run");
    await run.getByText("Good morning").waitFor();
    check((await run.getAttribute("data-status")) === "ok", "the run is good");
    const session = await run.getByRole("link", { name: "Open its session" }).getAttribute("href");
    await job.locator(".badge.good", { hasText: "ok" }).first().waitFor();

    await job.getByRole("button", { name: "Edit" }).click();
    check((await form.getByLabel(EXPR).inputValue()) === "30 8 * * 1-5", "the form has the job");
    await form.getByLabel("Name").fill("News");
    await form.getByText("Again and again").click();
    await form.getByLabel("Every", { exact: true }).fill("30");
    await form.getByLabel("Unit").selectOption("minutes");
    await form.getByLabel("Session", { exact: true }).fill("agent:main:news");
    await form.getByRole("button", { name: "Save" }).click();
    await page.getByRole("heading", { name: "News", exact: true }).waitFor();
    await page.getByText("Every 30 minutes").waitFor();
    await ask(args, "edited");

    const news = page.locator("li.job").filter({ has: page.getByRole("heading", { name: "News", exact: true }) });
    await news.getByRole("button", { name: "Duplicate" }).click();
    await form.getByRole("button", { name: "Add job" }).click();
    await page.getByRole("heading", { name: "News (copy)" }).waitFor();
    await page.getByRole("switch", { name: "Enabled: News", exact: true }).click();
    await news.getByText("turned off").waitFor();
    await ask(args, "turned-off");

    await news.getByRole("button", { name: "Delete" }).click();
    await form.getByRole("button", { name: "Delete" }).click();
    await news.waitFor({ state: "detached" });
    await ask(args, "deleted");
    await page.getByRole("heading", { name: "From elsewhere" }).waitFor();
    await page.getByText("2 jobs, 2 enabled").waitFor();
    return { previewed, next, session };
  },

  // Returns what was told beside the fields.
  async keeps({ page, args }) {
    const form = await open(page, args);
    const add = form.getByRole("button", { name: "Add job" });
    const told = {};
    await form.locator(".preview li").first().waitFor();
    await add.click();
    told.message = await complaint(form, "Message");
    await form.getByText("By the calendar").click();
    await form.getByLabel(EXPR).fill("61 * * * *");
    told.expr = await complaint(form, EXPR);
    await form.getByLabel(EXPR).fill("0 9 * * *");
    await form.getByLabel("Time zone").fill("Mars/Base");
    told.zone = await complaint(form, "Time zone");
    await form.getByLabel("Name").fill("Kept");
    await form.getByLabel("Message").fill("typed before the restart");
    const limit = form.getByLabel("Stop after");
    await limit.fill("-5");
    await form.getByLabel("Answer goes").selectOption("To a web address");
    await add.click();
    told.none = await complaint(form, "To");
    told.limit = await complaint(form, "Stop after (seconds)");
    told.wrong = await form.locator("[aria-invalid]").count();
    const isSeen = () => limit.evaluate((one) => one === document.activeElement && one.getBoundingClientRect().bottom < one.form.lastElementChild.getBoundingClientRect().top);
    await until("one sees where to begin", isSeen);
    await limit.fill("");
    await form.getByLabel("To", { exact: true }).fill("nowhere");
    await add.click();
    told.zone = await complaint(form, "Time zone");
    await form.getByLabel("Time zone").fill("");
    await form.locator(".preview li").first().waitFor();
    await add.click();
    told.address = await complaint(form, "To");
    await ask(args, "restart");
    await page.locator(".link-state", { hasText: "Connected" }).waitFor();
    check((await form.getByLabel("Message").inputValue()) === "typed before the restart", "what was typed is there");
    await form.getByLabel("To", { exact: true }).fill("https://hook.example/in");
    await until("it is added", async () => {
      if (await add.isVisible()) await add.click({ timeout: 1000 }).catch(() => {});
      return page.getByRole("heading", { name: "Kept" }).isVisible();
    });
    return told;
  },

  // A reminder is renamed and copied; another job becomes one.
  async reminds({ page, args }) {
    await login(page, args, "#/cron");
    const form = page.getByRole("dialog");
    const job = (name) => page.getByRole("listitem").filter({ has: page.getByRole("heading", { name, exact: true }) });
    await job("Tea").getByRole("button", { name: "Edit" }).click();
    await form.getByLabel("Name").fill("Coffee");
    await form.getByRole("button", { name: "Save" }).click();
    await job("Coffee").getByRole("button", { name: "Duplicate" }).click();
    await form.getByRole("button", { name: "Add job" }).click();
    await job("Coffee (copy)").waitFor();
    await job("News").getByRole("button", { name: "Edit" }).click();
    await form.getByText("Tell the main session").click();
    await form.getByRole("button", { name: "Save" }).click();
    await form.waitFor({ state: "detached" });
  },

  // Copies of a job: one as it is, one for another chat, one for a web address, one that runs
  // once, and of that one that runs again and again.
  async copies({ page, args }) {
    await login(page, args, "#/cron");
    const form = page.getByRole("dialog");
    const job = (name) => page.locator("li.job").filter({ has: page.getByRole("heading", { name: new RegExp(`^${name}`) }) });
    const copy = async (of, name, change) => {
      await job(of).getByRole("button", { name: "Duplicate" }).click();
      await form.getByLabel("Name").fill(name);
      await change();
      await form.getByRole("button", { name: "Add job" }).click();
      await form.waitFor({ state: "detached" });
      await job(name).waitFor();
    };
    await copy("News", "A copy", () => {});
    await copy("News", "Elsewhere", () => form.getByLabel("To", { exact: true }).fill("8"));
    await copy("News", "Posted", async () => {
      await form.getByLabel("Answer goes").selectOption("To a web address");
      await form.getByLabel("To", { exact: true }).fill("https://hook.example/copy");
    });
    await copy("News", "Once", () => form.getByText("Once", { exact: true }).click());
    await copy("Once", "Again", () => form.getByText("Again and again").click());
  },

  // A job is removed elsewhere while it runs, then another is added there.
  async loses({ page, args }) {
    await login(page, args, "#/cron");
    const job = (name) => page.getByRole("heading", { name, exact: true });
    await job("Long").waitFor();
    await ask(args, "shown");
    await job("Later").waitFor();
    check((await job("Long").count()) === 0, "the removed job stays away");
  },

  // A job that was not there when the list was asked for is changed.
  async hears({ page, args }) {
    await page.routeWebSocket(/.*/, (socket) => {
      const server = socket.connectToServer();
      const lists = new Set();
      socket.onMessage((data) => {
        const { id, method } = JSON.parse(data);
        if (method === "cron.list") lists.add(id);
        server.send(data);
      });
      server.onMessage((data) => {
        const frame = JSON.parse(data);
        if (lists.has(frame.id)) frame.payload.jobs = [];
        socket.send(JSON.stringify(frame));
      });
    });
    await login(page, args, "#/cron");
    await page.getByText("0 jobs, 0 enabled").waitFor();
    await ask(args, "shown");
    await page.getByRole("heading", { name: "Adopted", exact: true }).waitFor();
  },

  // What the gateway takes, and no browser has a date for.
  async far({ page, args }) {
    const form = await open(page, args);
    await form.getByLabel("Name").fill("One day");
    await form.getByLabel("Message").fill("It is time");
    await form.getByLabel("Every", { exact: true }).fill("99999999999");
    await form.locator(".preview li", { hasText: "275760" }).first().waitFor();
    await form.getByRole("button", { name: "Add job" }).click();
    await form.waitFor({ state: "detached" });
    await page.reload();
    await page.getByRole("heading", { name: "One day" }).waitFor();
    await page.getByText("1 job, 1 enabled").waitFor();
    await page.getByRole("button", { name: "Delete" }).click();
    await form.getByRole("button", { name: "Delete" }).click();
    await page.getByText("0 jobs, 0 enabled").waitFor();
  },

  async empties({ page, args }) {
    const form = await open(page, args);
    await form.getByText("By the calendar").click();
    await form.getByLabel(EXPR).fill("");
    return complaint(form, EXPR);
  },

  // Escape asks before it takes away what was typed.
  async asks_first({ page, args }) {
    const form = await open(page, args);
    await page.keyboard.press("Escape");
    await form.waitFor({ state: "detached" });
    await page.getByRole("button", { name: "New job" }).first().click();
    const message = page.getByLabel("Message");
    await message.fill("a long text");
    await page.keyboard.press("Escape");
    const question = page.getByRole("dialog", { name: "Discard what you typed?" });
    await question.getByRole("button", { name: "Cancel" }).click();
    await question.waitFor({ state: "detached" });
    // A browser that was refused once closes the dialog the next time.
    for (let time = 0; time < 4; time++) {
      await message.press("Escape");
      await question.waitFor();
      await page.keyboard.press("Escape");
      await question.waitFor({ state: "detached" });
    }
    check((await message.inputValue()) === "a long text", "it is still there");
    await message.press("Escape");
    await question.getByRole("button", { name: "Discard" }).click();
    await until("the form is closed", async () => (await page.getByRole("dialog").count()) === 0);
  },

  // A year has four digits; what is typed next is the hour.
  async types_a_time({ page, args }) {
    const form = await open(page, args);
    await form.getByText("Once", { exact: true }).click();
    const at = form.locator('input[type="datetime-local"]');
    await at.focus();
    await page.keyboard.type("060120270900AM");
    return at.inputValue();
  },
});
