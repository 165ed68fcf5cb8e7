// Steps of axe.rs.
import { readFile } from "node:fs/promises";
import { check, login, steps, until } from "../../node/page.mjs";

const CONTROLS = 'a[href], button, input, select, textarea, summary, [tabindex="0"]';

const views = (page) => page.getByRole("navigation", { name: "Views" }).locator("a[href]").evaluateAll((all) => all.map((link) => link.getAttribute("href")));

// Shows a view, and waits until nothing of it is being loaded.
async function show(page, view) {
  await page.evaluate((view) => (location.hash = view), view);
  await page.locator("main h1, main h2, main textarea").first().waitFor();
  await until(`${view} is loaded`, async () => (await page.locator("main .spin:visible").count()) === 0);
}

async function findings(page, place) {
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  return violations.map(({ id, help, nodes }) => ({ place, id, help, nodes: nodes.slice(0, 3).map(({ html, failureSummary }) => `${html} ${failureSummary}`) }));
}

// Dialogs of our views: where they are, and how they are opened.
const DIALOGS = [
  ["#/overview", (page) => page.getByRole("button", { name: "Restart gateway" }).click()],
  [
    "#/config",
    async (page) => {
      await page.getByLabel("Search settings").fill("cron.maxConcurrentRuns");
      await page.locator('[data-path="cron.maxConcurrentRuns"] input').fill("0");
      await page.locator(".wrong:not(:empty)").waitFor();
      await page.locator('[data-path="cron.maxConcurrentRuns"] input').fill("3");
      await page.getByRole("button", { name: "Save…" }).click();
    },
  ],
];

// Each section of the config, with what is folded in it.
async function lookAtSections(page, run) {
  await show(page, "#/config");
  const sections = page.getByRole("navigation", { name: "Sections" }).getByRole("button");
  for (const section of await sections.all()) {
    await section.click();
    for (const summary of await page.locator("main summary:visible").all()) await summary.click();
    await run(`config ${await section.textContent()}`);
  }
}

async function look(page, run) {
  for (const view of await views(page)) {
    await show(page, view);
    // What is folded counts as well, and so do tables of charts.
    for (const summary of await page.locator("main summary:visible").all()) await summary.click();
    await run(view);
  }
  for (const [view, open] of DIALOGS) {
    await show(page, view);
    await open(page);
    const dialog = page.getByRole("dialog");
    await dialog.waitFor();
    await run(`${view} with its dialog`);
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
  }
}

// In the page: the controls that can be had by the Tab key, each as its kind and
// words. A view that shows itself anew has the same ones again; of radio buttons
// one stands for its group.
function list(wanted) {
  const text = (control) => `${control.localName} ${control.ariaLabel ?? control.labels?.[0]?.textContent ?? control.textContent}`.slice(0, 80);
  globalThis.controlText = text;
  const isOne = (control) => !control.disabled && control.tabIndex >= 0 && control.checkVisibility({ visibilityProperty: true }) && control.type !== "radio";
  return [...document.querySelectorAll(wanted)].filter(isOne).map(text);
}

// In the page: where the focus is, and whether that can be seen, be it by the frame
// around the control.
function now() {
  const { activeElement } = document;
  const frame = getComputedStyle(activeElement.parentElement);
  const isSeen = getComputedStyle(activeElement).outlineStyle !== "none" || frame.boxShadow !== "none";
  return { control: globalThis.controlText(activeElement), isSeen };
}

export default steps({
  async finds({ page, args: { axe, theme, width, height, ...args } }) {
    const violations = [];
    let looked = 0;
    const run = async (place) => {
      violations.push(...(await findings(page, place)));
      looked++;
    };
    await page.addInitScript(await readFile(axe, "utf8"));
    await page.setViewportSize({ width, height });
    await page.emulateMedia({ colorScheme: theme, reducedMotion: "reduce" });
    await page.goto(args.url);
    await page.getByLabel("Gateway token").waitFor();
    await run("login");
    await login(page, args);
    await look(page, run);
    if (width < 500) {
      await page.getByRole("button", { name: "More", exact: true }).click();
      await page.getByRole("dialog").waitFor();
      await run("what a phone has no room for");
    }
    // The same fields on each screen.
    if (width > 1000 && theme === "light") await lookAtSections(page, run);
    return { violations, looked };
  },

  // Goes through each view with the Tab key until the focus is back at its start.
  async by_keyboard({ page, args }) {
    await login(page, args);
    const told = { nameless: [], unreached: [], unseen: [] };
    for (const view of await views(page)) {
      const link = page.locator(`nav a[href="${view}"]`);
      await link.focus();
      await page.keyboard.press("Enter");
      await show(page, view);
      await page.locator(`nav a[href="${view}"][aria-current="page"]`).waitFor();
      const controls = await page.evaluate(list, CONTROLS);
      const reached = new Set();
      for (let press = 0; press < controls.length * 3 + 10; press++) {
        await page.keyboard.press("Tab");
        const at = await page.evaluate(now);
        if (!controls.includes(at.control)) continue;
        if (!at.isSeen) told.unseen.push(`${view}: ${at.control}`);
        reached.add(at.control);
        if (controls.every((control) => reached.has(control))) break;
      }
      told.unreached.push(...controls.filter((control) => !reached.has(control)).map((control) => `${view}: ${control}`));
      const tree = (await page.locator("body").ariaSnapshot()).split("\n");
      const isNameless = (line) => /^\s*- (link|button|textbox|combobox|searchbox|slider|checkbox|switch|spinbutton)\b(?! ")/.test(line);
      told.nameless.push(...tree.filter(isNameless).map((line) => `${view}: ${line}`));
      check(controls.length > 3, `${view} has controls`, controls);
    }
    return told;
  },
});
