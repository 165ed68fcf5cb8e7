// Steps of sessions.rs.
import { call, check, login, record, steps, until } from "../../node/page.mjs";

const rows = (page) => page.locator("main tbody tr");

// What has the focus, and in which row.
const focused = (page) => page.evaluate(() => {
  const { tagName, ariaLabel, parentElement } = document.activeElement;
  return `${ariaLabel ?? tagName} ${parentElement.closest("tbody tr")?.sectionRowIndex ?? "nowhere"}`;
});

// A row is used by keyboard while something happens to it and to others.
async function keepsFocus(page) {
  const { key } = await call(page, "sessions.create", { agentId: "main", label: "quiet" });
  const menu = page.getByRole("button", { name: "Menu of quiet" });
  await menu.focus();
  await call(page, "sessions.create", { agentId: "main", label: "fresh" });
  await page.getByRole("link", { name: "fresh", exact: true }).waitFor();
  check((await focused(page)) === "Menu of quiet 1", "another one has come", await focused(page));
  await call(page, "sessions.patch", { key, label: "still" });
  await page.getByRole("link", { name: "still", exact: true }).waitFor();
  await until("it has another name", async () => /^Menu of still /.test(await focused(page)));
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Rename" }).press("Enter");
  // It is something else while a dialog is above it.
  await call(page, "sessions.patch", { key, label: "calm" });
  await page.getByRole("link", { name: "calm", exact: true, includeHidden: true }).waitFor();
  await page.keyboard.press("Escape");
  await until("after a dialog", async () => /^Menu of calm /.test(await focused(page)));
  check((await page.getByRole("link", { name: "calm", exact: true }).getAttribute("dir")) === "auto", "its name has a direction of its own");

  // Nothing happens, and the time goes on.
  const changed = rows(page).filter({ hasText: "calm" }).locator("time");
  await until("it gets older", async () => /\b([3-9]|\d\d) sec|min/.test(await changed.textContent()));

  const row = (await focused(page)).split(" ").at(-1);
  await page.getByRole("button", { name: "Delete calm" }).press("Enter");
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).press("Enter");
  await until("one goes on with the next one", async () => (await focused(page)) === `A ${row}`);
  await page.getByRole("button", { name: "Delete fresh" }).press("Enter");
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).press("Enter");
  await until("both are gone", async () => (await rows(page).filter({ hasText: "fresh" }).count()) === 0);
}

export default steps({
  // More sessions than are listed at once. Returns how many are shown in the end.
  async lists({ page, args }) {
    await login(page, args, "#/sessions");
    const search = page.getByLabel("Search sessions");
    await until("the newest are shown", async () => (await rows(page).count()) === 300);
    await keepsFocus(page);
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
    await page.getByRole("button", { name: "Show more sessions" }).press("Enter");
    await oldest.waitFor();
    await until("one goes on with the first of these", async () => (await focused(page)) === "A 300");
    check((await page.getByRole("button", { name: "Show more sessions" }).count()) === 0, "these are all");
    return rows(page).count();
  },

  // A session at the side is pressed on while another one gets another name.
  async is_pressed({ page, args }) {
    await login(page, args);
    const { key } = await call(page, "sessions.create", { agentId: "main", label: "quiet" });
    const busy = await call(page, "sessions.create", { agentId: "main", label: "busy" });
    const row = (key) => page.locator(`aside a[data-key='${key}']`);
    await row(busy.key).waitFor();
    await row(key).hover();
    await page.mouse.down();
    await call(page, "sessions.patch", { key: busy.key, label: "busier" });
    await row(busy.key).getByText("busier").waitFor();
    await page.mouse.up();
    await until("it is shown", () => page.evaluate((key) => location.hash === `#/chat/${encodeURIComponent(key)}`, key));
  },

  // A conversation that is shown when the next day begins, and in which something is said
  // then. Returns what its days are called: before, then, and after that.
  async names_days({ page, args }) {
    await login(page, args);
    return page.evaluate(async () => {
      const { Transcript } = await import("./js/chat/transcript.js");
      const said = (seq) => ({ role: "user", content: `message ${seq}`, timestamp: Date.now(), __openclaw: { id: `m${seq}`, seq } });
      const conversation = { messages: [said(1)], tools: new Map(), run: null, outbox: { items: [] }, isLoaded: true, hasOlder: false };
      const transcript = new Transcript(conversation, { row: () => ({}) });
      document.body.append(transcript.element);
      transcript.update();
      const days = () => [...transcript.element.querySelectorAll(".day")].map((one) => one.textContent);
      const shown = async (isWanted) => {
        const end = performance.now() + 10_000;
        while (!isWanted(days()) && performance.now() < end) await new Promise((resolve) => setTimeout(resolve, 20));
        return days();
      };
      const told = [await shown((all) => all.length === 1)];
      const { now } = Date;
      Date.now = () => now.call(Date) + 86_400_000;
      told.push(await shown(([first]) => first !== "Today"));
      conversation.messages.push(said(2));
      transcript.update();
      told.push(await shown((all) => all.length === 2));
      transcript.end();
      return told;
    });
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
