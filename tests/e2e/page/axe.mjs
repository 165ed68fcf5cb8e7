// Steps of axe.rs.
import { readFile } from "node:fs/promises";
import { check, login, steps, until } from "../../node/page.mjs";

const SCREENS = [{ width: 1280, height: 800 }, { width: 390, height: 844 }];
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

async function look(page, violations, screen) {
  let looked = 0;
  const run = async (place) => {
    violations.push(...(await findings(page, `${place} ${screen}`)));
    looked++;
  };
  for (const view of await views(page)) {
    await show(page, view);
    await run(view);
    // What is folded counts as well, and so do tables of charts.
    for (const summary of await page.locator("main summary:visible").all()) await summary.click();
    await run(`${view} unfolded`);
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
  return looked;
}

export default steps({
  async finds({ page, args }) {
    const source = await readFile(args.axe, "utf8");
    const violations = [];
    let looked = 0;
    await page.addInitScript(source);
    for (const viewport of SCREENS) {
      await page.setViewportSize(viewport);
      for (const colorScheme of ["light", "dark"]) {
        const screen = `${colorScheme} ${viewport.width}`;
        await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
        if (looked === 0) await page.goto(args.url);
        else {
          await page.reload();
          await page.getByRole("navigation", { name: "Views" }).waitFor();
        }
        if (looked === 0) {
          await page.getByLabel("Gateway token").waitFor();
          violations.push(...(await findings(page, `login ${screen}`)));
          await login(page, args);
        }
        looked += 1 + (await look(page, violations, screen));
      }
    }
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
      const controls = await page.evaluate((wanted) => {
        const all = [...document.querySelectorAll(wanted)].filter((control) => !control.disabled && control.tabIndex >= 0 && control.checkVisibility() && !control.closest("[hidden]"));
        all.forEach((control, index) => (control.dataset.control = index));
        return all.map((control) => control.outerHTML.slice(0, 120));
      }, CONTROLS);
      const reached = new Set();
      for (let press = 0; press < controls.length * 3 + 10; press++) {
        await page.keyboard.press("Tab");
        const at = await page.evaluate(() => {
          const { activeElement: now } = document;
          const style = getComputedStyle(now);
          return { index: now.dataset.control, html: now.outerHTML.slice(0, 120), isSeen: style.outlineStyle !== "none" };
        });
        if (at.index === undefined) continue;
        if (!at.isSeen) told.unseen.push(`${view}: ${at.html}`);
        reached.add(Number(at.index));
        if (reached.size === controls.length) break;
      }
      const missing = controls.filter((_, index) => !reached.has(index));
      // One radio button of a group stands for all of them.
      told.unreached.push(...missing.filter((html) => !html.includes('type="radio"')).map((html) => `${view}: ${html}`));
      for (const control of await page.locator("[data-control]").all()) {
        const name = await control.ariaSnapshot();
        if (!/"|: \S/.test(name)) told.nameless.push(`${view}: ${name}`);
      }
      check(controls.length > 3, `${view} has controls`, controls);
    }
    return told;
  },
});
