// Skills: what they lack, switched off and on, a key, and a search in the registry.
import { visit } from "../../node/control-ui.mjs";

export default visit(async ({ page, ui, args }) => {
  const tab = (name) => page.locator(".agent-tab", { hasText: name });
  const skill = (name) => page.locator(".agent-skills-group .list-item")
    .filter({ has: page.getByText(name, { exact: true }) });
  const toggle = (within) => within.locator(".skill-toggle");
  const dialog = page.locator("dialog[open]");
  const counts = async () => {
    const labels = await page.locator(".agent-tab").allInnerTexts();
    return labels.map((label) => label.replace(/\s*(\d+)\s*$/, " $1").trim());
  };

  await ui.open("/skills");
  await skill("weather").waitFor();
  const before = await counts();
  await ui.answer("skills.update", () => toggle(skill("greet")).click());
  await ui.until("one that is off", async () => (await counts()).includes("Disabled 1"));

  await tab("Needs Setup").click();
  await skill("weather").click();
  await dialog.getByText("Missing requirements").waitFor();
  await ui.shot("skills-missing");
  await dialog.locator("input[type=password]").fill(args.key);
  await dialog.getByRole("button", { name: "Save key" }).click();
  await dialog.locator(".callout.success", { hasText: "API key saved" }).waitFor();
  await dialog.getByText("Missing requirements").waitFor({ state: "detached" });
  await ui.shot("skills-key");
  await dialog.getByRole("button", { name: "Close" }).click();
  await page.reload();
  await ui.connected();
  await page.getByPlaceholder("Filter installed skills").fill("fore");
  await page.getByText("1 shown").waitFor();
  const after = await counts();

  await page.getByPlaceholder("Search ClawHub skills…").fill("packing");
  await page.getByText("What to take along").click();
  await dialog.getByText("1.2.0").first().waitFor();
  await ui.idle();
  await ui.shot("skills-registry");
  return { before, after, keyIsShown: (await page.content()).includes(args.key) };
});
