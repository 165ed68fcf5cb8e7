// Steps of sessions.rs.
import { call, check, login, record, steps, until } from "../../node/page.mjs";

const rows = (page) => page.locator("main tbody tr");

export default steps({
  // More sessions than are listed at once. Returns how many are shown in the end.
  async lists({ page, args }) {
    await login(page, args, "#/sessions");
    const search = page.getByLabel("Search sessions");
    await until("the newest are shown", async () => (await rows(page).count()) === 300);
    const oldest = page.getByRole("link", { name: "the oldest needle", exact: true });
    check((await oldest.count()) === 0, "the oldest is not among them");
    await search.fill("Needle");
    await oldest.waitFor();
    check((await rows(page).count()) === 1, "nothing else is found");
    await search.fill("");
    await page.getByRole("button", { name: "Show more sessions" }).click();
    await oldest.waitFor();
    check((await page.getByRole("button", { name: "Show more sessions" }).count()) === 0, "these are all");
    return rows(page).count();
  },

  // More messages than `chat.history` tells. Returns how many are shown in the end.
  async goes_back({ page, args }) {
    const frames = record(page);
    await login(page, args);
    const notes = page.locator(".message.assistant:not(.live)");
    const note = (number) => page.locator(".messages").getByText(`note ${number}.`, { exact: true });
    await note(args.count).waitFor();
    const scroller = page.locator(".scroller");
    await until("the first is there", async () => {
      await scroller.evaluate((one) => one.scrollTo(0, 0));
      return (await note(1).count()) === 1;
    });
    check(Math.max(...frames.calls("chat.history").map(({ limit }) => limit)) === 1000, "as much as there is at once");
    // It stays when the newest are asked for again.
    await call(page, "chat.inject", { sessionKey: "main", message: "one more." });
    await page.getByRole("button", { name: "Latest" }).click();
    await page.getByText("one more.", { exact: true }).waitFor();
    const asked = frames.calls("chat.history").length;
    await page.getByRole("textbox", { name: "Message" }).fill("@mock text text=\"heard\"");
    await page.keyboard.press("Enter");
    await page.getByText("heard", { exact: true }).waitFor();
    await until("it is asked again", () => frames.calls("chat.history").length > asked);
    await until("nothing is under way", async () => (await page.locator(".message.pending, .live").count()) === 0);
    return notes.count();
  },
});
