// The settings: found, changed in the form and as text, saved and applied; what
// is wrong is told.
import { visit } from "../../node/control-ui.mjs";

export default visit(async ({ page, ui }) => {
  const button = (name) =>
    page.locator(".config-actions").getByRole("button", { name, exact: true });
  const field = (label) => page.locator(".cfg-field")
    .filter({ has: page.locator(".cfg-field__label", { hasText: new RegExp(`^${label}$`) }) });
  const changes = (count) => page.getByText(`${count} unsaved change`).waitFor();

  await ui.open("/communications");
  await page.getByPlaceholder("Search settings...").fill("debounce");
  await field("Debounce MS").first().waitFor();
  await ui.idle();
  const found = await page.locator(".cfg-field__label").allInnerTexts();
  await field("Debounce MS").first().locator("input").fill("750");
  await changes(1);
  await page.locator(".config-diff__summary").click();
  await page.locator(".config-diff__to", { hasText: "debounceMs" }).waitFor();
  await ui.shot("config-search");
  await ui.saved("config.set", () => button("Save").click());
  await page.getByText("No changes").waitFor();

  await ui.tab("config");
  await page.getByRole("button", { name: "Advanced" }).click();
  await ui.answer("config.openFile", () => button("Open").click());
  await page.locator(".config-mode-toggle").getByText("Raw").click();
  const raw = page.getByPlaceholder("Raw config (JSON/JSON5)");
  const reveal = page.getByLabel("Toggle raw config redaction");
  await reveal.click();
  await ui.idle();
  const shown = await raw.inputValue();
  const edited = (change) => {
    const config = JSON.parse(shown);
    change(config);
    return JSON.stringify(config, null, 2);
  };
  await raw.fill(edited((config) => (config.session = { mainKey: "chief" })));
  await page.getByText("Unsaved changes").waitFor();
  await ui.shot("config-raw");
  await ui.saved("config.apply", () => button("Apply").click());
  await page.getByText("No changes").waitFor();
  await page.reload();
  await ui.connected();
  await ui.idle();

  await ui.tab("infrastructure");
  await field("Port").first().waitFor();
  await ui.idle();
  await field("Port").first().locator("input").fill("70000");
  await changes(1);
  await ui.answer("config.set", () => button("Save").click());
  const refusal = await page.locator(".pill.danger").innerText();
  await ui.shot("config-invalid");
  await changes(1);
  await button("Clear").click();
  await page.getByText("No changes").waitFor();
  await ui.idle();
  return { found, shown, refusal };
});
