// A visit on which everything fails that can be seen to fail.
import { visit } from "../../node/control-ui.mjs";

export default visit(async ({ page, ui, args }) => {
  const main = page.getByRole("main");
  await ui.open("/debug");
  const method = main.getByLabel("Method");
  await method.selectOption("sessions.resolve");
  await main.getByLabel("Params (JSON)").fill('{"key": 7}');
  await ui.answer("sessions.resolve", () => main.getByText("Call", { exact: true }).click());
  await main.locator(".callout.danger").waitFor();
  await page.evaluate(async (origin) => {
    await fetch(`${origin}/missing.png`);
    console.error("a script complains");
    setTimeout(() => { throw new Error("a script fails"); });
  }, args.origin);
  await ui.until("the failure of a script", () => ui.seen.errors.length === 2);
});
