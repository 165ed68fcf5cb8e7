// Steps of chat.rs.
import { check, foreign, login, record, steps } from "../../node/page.mjs";

export default steps({
  // Returns what was asked of other places, and whether the token that was typed
  // is anywhere in the browser.
  async signs_in({ page, context, args }) {
    const asked = foreign(context, args);
    const frames = record(page);
    await login(page, args);
    await page.reload();
    await page.getByRole("navigation", { name: "Views" }).waitFor();
    const connects = frames.calls("connect");
    check(connects.at(-1).auth.deviceToken, "the device speaks for itself", connects);
    const stored = await page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }));
    return { foreign: asked, isTokenKept: stored.includes(args.token) };
  },
});
