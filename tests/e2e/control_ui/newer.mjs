// A message in the chat of a newer Control UI.
//
// args.text, args.answer   what is said, and what is answered
// Returns how often the answer is in the chat once nothing is awaited any more, and what was
// said and answered is there once: the page shows either before the gateway has it, too.
import { visit } from "../../node/control-ui.mjs";

export default visit(async ({ page, ui, args }) => {
  await page.goto(`${args.origin}/#token=${args.token}`);
  const box = page.locator("textarea:visible").first();
  await box.fill(args.text);
  await box.press("Enter");
  // What is only read out to those who cannot see says it once more.
  const seen = page.locator(":not([role=status])");
  const shown = (text) => page.locator("main").getByText(text, { exact: true }).and(seen);
  await shown(args.answer).waitFor();
  await ui.until("a chat that waits for nothing", async () => {
    const working = await page.getByText(/^Working/).count();
    const both = [await shown(args.text).count(), await shown(args.answer).count()];
    return working === 0 && both.every((count) => count === 1);
  });
  await ui.shot("newer-chat");
  return await shown(args.answer).count();
});
