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
    await search.fill("Oldest needle");
    await oldest.waitFor();
    check((await rows(page).count()) === 1, "nothing else is found");
    // What was found is deleted by somebody else.
    const { sessions } = await call(page, "sessions.list", { search: "a needle that goes" });
    await search.fill("that goes");
    await page.getByRole("link", { name: "a needle that goes", exact: true }).waitFor();
    await call(page, "sessions.delete", { key: sessions[0].key });
    await page.getByText("No session like that.").waitFor();
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
    const toFirst = async () => {
      await scroller.evaluate((one) => one.scrollTo(0, 0));
      return (await note(1).count()) === 1;
    };
    await until("the first is there", toFirst, 60_000);
    check(Math.max(...frames.calls("chat.history").map(({ limit }) => limit)) === 1000, "as much as there is at once");
    // It stays when the newest are asked for again.
    await call(page, "chat.inject", { sessionKey: "main", message: "one more." });
    await page.getByRole("button", { name: "Latest" }).click();
    await page.locator(".messages").getByText("one more.", { exact: true }).waitFor();
    const asked = frames.calls("chat.history").length;
    await page.getByRole("textbox", { name: "Message" }).fill("@mock text text=\"heard\"");
    await page.keyboard.press("Enter");
    await page.locator(".messages").getByText("heard", { exact: true }).waitFor();
    const histories = () => frames.sent.filter(({ method }) => method === "chat.history");
    const isAnswered = ({ id }) => frames.received.some((frame) => frame.id === id);
    await until("it is told again", () => histories().length > asked && histories().every(isAnswered));
    await until("nothing is under way", async () => (await page.locator(".message.pending, .live").count()) === 0);
    await page.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))));
    return notes.count();
  },

  // More than `chat.history` tells has come while nobody listened. Returns the numbers
  // of what is shown: with what was read back, and then; and whether there are older ones.
  async has_no_hole({ page, args }) {
    await login(page, args);
    await page.route("**/sessions/*/history?*", (route) => {
      const before = Number(new URL(route.request().url()).searchParams.get("cursor"));
      return route.fulfill({ json: { messages: [{ role: "user", content: "old", __openclaw: { id: `m${before - 1}`, seq: before - 1 } }], hasMore: false } });
    });
    return page.evaluate(async () => {
      const { Conversation } = await import("./js/chat/conversation.js");
      let last = 1001;
      const history = (limit) => Array.from({ length: limit }, (_, at) => last - limit + 1 + at).map((seq) => ({ role: "user", content: "new", __openclaw: { id: `m${seq}`, seq } }));
      const link = { state: "open", on: () => () => {}, bearer: async () => null, call: async (_, { limit }) => (limit ? { sessionId: "one", messages: history(limit) } : { key: "main" }) };
      const outbox = { flush: async () => {}, acknowledged: () => new Set(), drop: () => {} };
      const conversation = new Conversation(link, "main", outbox, { changed: () => {}, failed: (error) => Promise.reject(error) });
      const told = () => [conversation.messages[0].__openclaw.seq, conversation.messages.length, conversation.hasOlder];
      for (let time = 0; time < 5; time++) await conversation.loadOlder();
      const all = [];
      for (const more of [0, 10, 5000]) {
        await conversation.load();
        while (more === 0 && conversation.hasOlder) await conversation.loadOlder();
        last += more;
        await conversation.load();
        all.push(told());
      }
      return all;
    });
  },
});
