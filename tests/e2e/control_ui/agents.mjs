// An agent: its files, models, tools, skills, channels and jobs; the default one.
import { visit } from "../../node/control-ui.mjs";

export default visit(async ({ page, ui }) => {
  const panel = (name) => page.locator(".agents-main > .agent-tabs .agent-tab")
    .filter({ hasText: name }).click();
  const card = (title) => page.locator(".card")
    .filter({ has: page.locator(".card-title", { hasText: title }) });
  const button = (name, within = page) => within.getByRole("button", { name, exact: true });
  const save = (within) => ui.saved("config.set", () => button("Save", within).click());

  // The page of agents shows the files of the agents that the UI knows by then.
  const enter = async () => {
    await ui.idle();
    await ui.tab("agents");
  };

  await ui.open("/skills");
  await enter();
  await page.locator(".agent-tab--missing", { hasText: "SOUL" }).click();
  const text = page.locator(".agent-file-textarea");
  await text.fill("# Soul\n\nBe **kind**.\n");
  await ui.answer("agents.files.set", () => button("Save").click());
  await ui.tab("skills");
  await page.reload();
  await ui.connected();
  await enter();
  await page.locator(".agent-tab:not(.agent-tab--missing)", { hasText: "SOUL" }).click();
  await ui.until("the text", async () => (await text.inputValue()).includes("Be **kind**."));
  await page.getByRole("button", { name: "Preview" }).click();
  await page.locator("dialog[open] strong", { hasText: "kind" }).waitFor();
  await ui.shot("agents-preview");
  await page.keyboard.press("Escape");

  await panel("Overview");
  const overview = card("Overview");
  await ui.idle();
  await overview.locator("select").selectOption("mock/mock-2");
  await overview.locator(".agent-chip-input input").fill("mock/mock-1");
  await page.keyboard.press("Enter");
  await save(overview);
  await ui.shot("agents-overview");

  await panel("Tools");
  const tools = card("Tool Access");
  // What the main session has, in which nobody has written yet.
  await tools.locator(".agent-tools-runtime-chip", { hasText: "Edit" }).first().waitFor();
  await tools.locator("summary", { hasText: "Runtime" }).click();
  const exec = tools.locator(".agent-tool-card").filter({ hasText: "exec" }).first();
  await exec.locator(".agent-tool-toggle").click();
  await save(tools);
  await ui.shot("agents-tools");

  await panel("Skills");
  const skills = card("Skills");
  await skills.locator(".agent-skills-group > summary", { hasText: "Workspace" }).click();
  await skills.locator(".agent-skill-row, .list-item").filter({ hasText: "Says hello" })
    .locator(".cfg-toggle").click();
  await save(skills);
  await ui.shot("agents-skills");

  await panel("Channels");
  await card("Channels").getByText("Telegram").first().waitFor();
  await ui.shot("agents-channels");
  await panel("Cron Jobs");
  const job = card("Agent Cron Jobs").locator(".list-item");
  await job.getByText("Look around").waitFor();
  await ui.answer("cron.run", () => button("Run Now", job).click());
  await ui.until("a run that went well", async () => {
    await ui.answer("cron.list", () => button("Refresh", card("Scheduler")).click());
    return (await job.innerText()).includes("ok");
  });
  await ui.shot("agents-cron");

  await page.locator(".agents-select").selectOption("helper");
  await button("Set Default").click();
  await panel("Overview");
  await save(overview);
  const helper = page.locator(".agents-select option[value=helper]");
  await helper.getByText("(default)").waitFor({ state: "attached" });
  await ui.idle();
  return (await helper.innerText()).trim();
});
