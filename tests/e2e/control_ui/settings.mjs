// Every page of settings and every section of them; how the UI looks.
import { visit } from "../../node/control-ui.mjs";

const PAGES = ["communications", "automation", "infrastructure", "ai-agents", "appearance"];

export default visit(async ({ page, ui }) => {
  const sections = {};
  const theme = () => page.evaluate(() => document.documentElement.dataset.theme);
  const radius = () => page.evaluate(() =>
    getComputedStyle(document.documentElement).getPropertyValue("--radius-md").trim());

  await ui.open("/dreaming");
  await page.getByText("Dreaming off").waitFor();
  for (const name of PAGES) {
    await ui.tab(name);
    const tabs = page.locator(".config-top-tabs__tab");
    await tabs.nth(1).waitFor();
    sections[name] = (await tabs.allInnerTexts()).map((label) => label.trim());
    for (const label of sections[name]) {
      // A page of many fields takes long to be still, which a click would wait for.
      const tab = page.getByRole("tab", { name: label, exact: true });
      await tab.dispatchEvent("click");
      await page.locator(".config-top-tabs__tab.active", { hasText: label }).first().waitFor();
    }
    await ui.shot(`settings-${name}`);
  }

  await page.getByRole("tab", { name: "Theme", exact: true }).click();
  const before = { theme: await theme(), radius: await radius() };
  await page.locator(".settings-theme-card", { hasText: "Knot" }).click();
  await page.getByRole("button", { name: "Full", exact: true }).click();
  await page.reload();
  await ui.connected();
  await page.getByText("Connected", { exact: true }).waitFor();
  const after = { theme: await theme(), radius: await radius() };
  await ui.shot("settings-appearance-knot");

  await ui.tab("config");
  await page.getByText("Model & Thinking").waitFor();
  await ui.idle();
  const thinking = page.locator(".qs-segmented__btn", { hasText: "Low" });
  await ui.answer("sessions.patch", () => thinking.click());
  await page.getByText("Code Agent").first().click();
  await ui.shot("settings-quick");
  await ui.saved("config.set", () =>
    page.getByRole("button", { name: "Save Profile" }).click());
  await page.getByText("Saved and ready.").waitFor();
  await page.getByRole("button", { name: "Advanced" }).click();
  const groups = page.locator(".config-accordion-group__header");
  await groups.first().waitFor();
  sections.config = [];
  for (let group = 0; group < (await groups.count()); group += 1) {
    await groups.nth(group).click();
    const items = page.locator(".config-accordion-group__item");
    for (let item = 0; item < (await items.count()); item += 1) {
      await items.nth(item).click();
      sections.config.push((await items.nth(item).innerText()).trim());
    }
  }
  await ui.shot("settings-advanced");
  await ui.idle();
  return { sections, before, after };
});
