// Steps of chat.rs.
import { ask, check, foreign, login, record, steps, until } from "../../node/page.mjs";

const field = (page) => page.getByRole("textbox", { name: "Message" });
const mine = (page) => page.locator(".message.user");
const answers = (page) => page.locator(".message.assistant:not(.live)");
const texts = (locator) => locator.evaluateAll((all) => all.map((one) => one.querySelector(".md, .plain-text, .notice")?.textContent ?? ""));

async function say(page, text) {
  await field(page).fill(text);
  await page.keyboard.press("Enter");
}

// What stands in the conversation, once nothing runs and waits any more.
async function settled(page, count) {
  await until("the run ends", () => page.evaluate(() => !document.querySelector(".live, .message.pending")));
  await until(`${count} answers`, async () => (await answers(page).count()) === count);
  return { mine: await texts(mine(page)), answers: await texts(answers(page)) };
}

// The text of the answer so far, empty when none is under way.
const liveText = async (page) => (await page.locator(".message.live .md").allTextContents()).join("");

// An answer that takes half a minute, unless somebody stops it.
const LONG = "@mock stream n=600 delay=50";

const scripted = (text, more = "") => `@mock text text=${JSON.stringify(text)} ${more}`;

// Markdown by somebody who means harm.
const HOSTILE = [
  "<script>globalThis.harm = 1</script><img src=x onerror='globalThis.harm = 2'>",
  "[a](javascript:globalThis.harm=3) [b](JaVaScRiPt:harm) [c](data:text/html,x) ![d](https://tracker.example/pixel.png)",
  "![e](data:image/svg+xml;base64,PHN2Zy8+) [fine](https://example.com/?a=b) <https://example.org>",
  `${"> ".repeat(300)}deep`,
  `${"**a *b ".repeat(200)}`,
  "```html\n<b onclick='harm()'>code</b>\n```",
].join("\n\n");

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

  // Returns what was asked of other places.
  async hostile({ page, context, args }) {
    const asked = foreign(context, args);
    await login(page, args);
    await say(page, scripted(HOSTILE, "n=40 delay=5"));
    await settled(page, 1);
    const told = await answers(page).last().evaluate((element) => ({
      links: [...element.querySelectorAll("a")].map((a) => [a.getAttribute("href"), a.rel, a.target]),
      kinds: [...new Set([...element.querySelector(".md").querySelectorAll("*")].map((one) => one.localName))],
      handlers: [...element.querySelectorAll("*")].flatMap((one) => one.getAttributeNames()).filter((name) => name.startsWith("on")),
      code: element.querySelector(".code code").textContent,
      harm: globalThis.harm ?? null,
    }));
    // Texts of a megabyte do not stop the page.
    const ms = await page.evaluate(async () => {
      const { Markdown } = await import("./js/markdown.js");
      const started = performance.now();
      for (const piece of ["[a](", "**a*b ", "- a\n", "> "]) new Markdown(piece.repeat(1_000_000 / piece.length), true);
      return performance.now() - started;
    });
    check(ms < 20_000, "they take a moment", ms);
    // Of a text that grows beyond what there are elements for nothing is lost.
    const isWhole = await page.evaluate(async () => {
      const { Markdown } = await import("./js/markdown.js");
      const text = "a *b*\n\n".repeat(12_000) + "the end";
      const growing = new Markdown();
      for (let part = 1; part <= 6; part++) growing.set(text.slice(0, (text.length * part) / 6), true);
      const words = (made) => made.element.textContent.replace(/[\s*]/g, "");
      return words(growing) === words(new Markdown(text)) && words(growing).endsWith("theend");
    });
    check(isWhole, "a long text is shown to its end");
    return { asked, ...told };
  },

  // Code within a list, with blank lines, and code with tabs. Returns what is copied of both,
  // and how the list and the text after them are shown.
  async shows_code({ page, args }) {
    await page.addInitScript(() => (navigator.clipboard.writeText = async (text) => void (globalThis.copied = text)));
    await login(page, args);
    const indented = args.python.split("\n").map((line) => line && `   ${line}`);
    const list = ["1. Write:", "   ```python", ...indented, "   ```", "2. Build:"];
    await say(page, scripted([...list, "", "```make", args.make, "```", "", "That is *all*."].join("\n")));
    await settled(page, 1);
    const answer = answers(page).last();
    const copied = [];
    for (const button of await answer.locator(".code button.copy").all()) {
      await button.dispatchEvent("click");
      copied.push(await until("it is copied", () => page.evaluate(() => [globalThis.copied, delete globalThis.copied][0])));
    }
    return { copied, items: await answer.locator(".md > ol > li").count(), last: await answer.locator(".md > p").allTextContents() };
  },

  // Streaming, the card of a tool, Esc, what is written meanwhile.
  async talks({ page, args }) {
    await login(page, args);
    await say(page, LONG);
    await until("text comes", async () => (await liveText(page)).includes("w3"));
    check(await page.getByRole("button", { name: "Stop" }).isVisible(), "there is a way to stop it");
    await page.keyboard.press("Escape");
    const stopped = await settled(page, 1);
    check(stopped.answers[0].startsWith("w1 w2 w3") && !stopped.answers[0].includes("w600"), "it was stopped", stopped);
    check((await answers(page).last().textContent()).includes("Stopped."), "and says so");

    await say(page, `@mock tool name=exec args={"command":"echo first; sleep 3; echo second"} then="All *done*."`);
    const card = page.locator("details.tool").last();
    await card.locator("summary").click();
    const output = card.locator("pre").last();
    await until("output", async () => /^first/.test(await output.textContent()));
    await until("all of it", async () => /^first\s+second/.test(await output.textContent()));
    const after = await settled(page, 3);
    check(after.answers.at(-1) === "All done.", "the answer", after);
    check((await card.textContent()).includes("Result"), "the card keeps the result");
    check((await answers(page).last().locator(".usage").textContent()).includes("mock-1"), "usage and model");

    // A message while a run is active goes into it.
    await say(page, "@mock stream n=80 delay=50");
    await until("text comes", async () => (await liveText(page)).includes("w3"));
    await say(page, scripted("to the second"));
    const last = await settled(page, 5);
    check(last.mine.length === 4, "each message once", last);
    check(last.answers.at(-1) === "to the second", "the second is answered", last);
    await page.reload();
    const again = await settled(page, 5);
    check(JSON.stringify(again) === JSON.stringify(last), "the same after a reload", again, last);

    // What the provider refuses is told.
    await say(page, "@mock err status=400 msg=\"no such thing\"");
    const failed = page.locator(".notice.bad:visible").filter({ hasText: "no such thing" });
    await failed.waitFor();
    await settled(page, 6);
    check((await failed.count()) === 1, "told once");
    await page.reload();
    const kept = await settled(page, 6);
    check(kept.answers.at(-1).includes("no such thing"), "and nothing else is said", kept);
  },

  // A page that is loaded in the middle of a run, and a second one.
  async reloads({ page, context, args }) {
    await login(page, args);
    await say(page, LONG);
    await until("text comes", async () => (await liveText(page)).includes("w5"));
    await page.reload();
    const seen = await until("the text so far", () => liveText(page));
    check(seen.startsWith("w1 w2 w3 w4 w5"), "from its beginning", seen);
    const other = await context.newPage();
    await login(other, args);
    await until("in the other tab, too", async () => (await liveText(other)).startsWith("w1 w2 w3"));
    await until("it goes on", async () => (await liveText(page)).length > seen.length + 5);
    await other.getByRole("button", { name: "Stop" }).click();
    const told = [await settled(page, 1), await settled(other, 1)];
    const words = told[0].answers[0].trim().split(" ");
    check(words.every((word, index) => word === `w${index + 1}`), "nothing lost or doubled", words);
    check(JSON.stringify(told[0]) === JSON.stringify(told[1]), "the same in both", told);
    // What is said in one shows in the other.
    await say(other, scripted("for both"));
    check((await settled(page, 2)).answers[1] === "for both", "the other tab's answer");
    check((await mine(page).count()) === 2, "and its question");
  },

  // Killed in the middle of an answer, and an answer that is lost on its way.
  async comes_back({ page, context, args }) {
    const frames = record(page);
    await login(page, args);
    await say(page, scripted("before"));
    await settled(page, 1);
    await say(page, LONG);
    await until("text comes", async () => (await liveText(page)).includes("w5"));
    await ask(args, "kill");
    await page.locator(".offline").waitFor();
    await page.getByRole("button", { name: "Stop" }).click();
    await page.locator(".toast.bad", { hasText: "not connected" }).waitFor();
    await say(page, scripted("after"));
    await page.getByText("Waits for the connection").waitFor();
    await field(page).fill("a draft");
    await context.setOffline(true);
    await ask(args, "start");
    await context.setOffline(false);
    await until("it is answered", async () => (await texts(answers(page))).at(-1) === "after");
    await until("nothing waits", async () => (await page.locator(".message.pending, .live").count()) === 0);
    check((await field(page).inputValue()) === "a draft", "the draft is kept");
    const told = await texts(mine(page));
    check(told.length === 3 && told.at(-1) === scripted("after").trim(), "each message once", told);
    const keys = frames.calls("chat.send").map((params) => params.idempotencyKey);
    // Killed once more, while nothing waits.
    await say(page, LONG);
    await until("text comes", async () => (await liveText(page)).includes("w5"));
    await ask(args, "kill");
    await ask(args, "start");
    await page.getByRole("button", { name: "Ask again" }).waitFor();
    check((await mine(page).count()) === 4, "it is there once");
    return { keys };
  },

  // The answer to a message is lost with the connection.
  async sends_again({ page, args }) {
    const sent = [];
    await page.routeWebSocket(/.*/, (socket) => {
      const server = socket.connectToServer();
      let isDead = false;
      socket.onMessage((data) => {
        const frame = JSON.parse(data);
        if (frame.method === "chat.send") sent.push({ id: frame.id, key: frame.params.idempotencyKey });
        server.send(data);
      });
      server.onMessage((data) => {
        const frame = JSON.parse(data);
        const isAnswer = sent.length === 1 && frame.type === "res" && frame.id === sent[0].id;
        // Nothing that tells of the message reaches the page.
        isDead ||= isAnswer || (sent.length === 1 && frame.event === "session.message");
        if (!isDead) return socket.send(data);
        server.close();
        socket.close();
      });
    });
    await login(page, args);
    await say(page, scripted("once"));
    await until("it is sent again", () => sent.length === 2);
    check(sent[0].key === sent[1].key, "under the same key", sent);
    const told = await settled(page, 1);
    check(told.mine.length === 1, "it is there once", told);
    return sent.length;
  },

  // In a browser that has for the page what it has for one that comes by plain http
  // from another machine. Returns the keys of what was sent.
  async makes_ids({ page, args }) {
    await page.addInitScript(() => delete Crypto.prototype.randomUUID);
    const frames = record(page);
    await login(page, args);
    check(await page.evaluate(() => crypto.randomUUID === undefined), "there is no randomUUID");
    for (const [index, text] of ["first", "second"].entries()) {
      await say(page, scripted(text));
      const told = await settled(page, index + 1);
      check(told.answers.at(-1) === text && told.mine.length === index + 1, "it is sent, and answered", told);
    }
    return frames.calls("chat.send").map((params) => params.idempotencyKey);
  },

  // Commands that wait: allowed once, always, denied; decided in another tab.
  async approves({ page, context, args }) {
    await login(page, args);
    const command = (text) => say(page, `@mock tool name=exec args=${JSON.stringify({ command: text })} then="Over."`);
    const panel = page.getByRole("region", { name: "Approvals" });
    await command("uname -s && echo once\u202e");
    await panel.getByText("A command waits for you").waitFor();
    const shown = await panel.textContent();
    check(shown.includes("uname -s && echo once\\u202e"), "the command, with what is hidden in it", shown);
    check(shown.includes("left") && shown.includes("agent:main:main"), "time and session", shown);
    check((await page.getByRole("link", { name: "Chat" }).textContent()).includes("1"), "a number in the navigation");
    // It stays on every view, and is decided by keyboard.
    await page.getByRole("link", { name: "Overview" }).click();
    const once = panel.getByRole("button", { name: "Allow once" });
    await once.focus();
    await page.keyboard.press("Enter");
    await panel.waitFor({ state: "hidden" });
    await page.getByRole("link", { name: "Chat" }).click();
    await settled(page, 2);

    const other = await context.newPage();
    await login(other, args);
    await command("uname -s && echo denied");
    const theirs = other.getByRole("region", { name: "Approvals" });
    await theirs.getByRole("button", { name: "Deny" }).click();
    await panel.waitFor({ state: "hidden" });
    await theirs.waitFor({ state: "hidden" });
    await settled(page, 4);

    await command("hostname");
    await panel.getByRole("button", { name: "Always allow" }).click();
    await settled(page, 6);
    await command("hostname");
    await settled(page, 8);
    check(await panel.isHidden(), "it is not asked again");
    await page.locator("details.tool").first().locator("summary").click();
    return { once: await page.locator("details.tool").first().locator("pre").last().textContent(), denied: await page.locator("details.tool[data-state=failed]").count() };
  },

  // A command that waits for a decision, seen by a page that comes while it does.
  async waits({ page, args }) {
    await login(page, args);
    await say(page, `@mock tool name=exec args=${JSON.stringify({ command: "uname -s && sleep 600" })} then="Over."`);
    const card = page.locator("details.tool");
    await card.getByText("waits for approval").waitFor();
    await page.reload();
    await card.getByText("waits for approval").waitFor();
    await page.getByRole("region", { name: "Approvals" }).getByRole("button", { name: "Allow once" }).click();
    await until("it runs", async () => (await card.getAttribute("data-state")) === "running");
    await page.getByRole("button", { name: "Stop" }).click();
    await until("it is stopped", () => page.evaluate(() => !document.querySelector(".live")));
    check((await card.getAttribute("data-state")) !== "running", "nothing runs any more");
    await page.getByText("Stopped.", { exact: true }).waitFor();
  },

  // Killed while a command waits for a decision, which nobody hears then.
  async loses_a_call({ page, args }) {
    await login(page, args);
    await say(page, `@mock tool name=exec args=${JSON.stringify({ command: "uname -s && echo once" })} then="Over."`);
    const waits = page.locator("details.tool").getByText("waits for approval");
    await waits.waitFor();
    await ask(args, "kill");
    await page.locator(".offline").waitFor();
    const deny = page.getByRole("region", { name: "Approvals" }).getByRole("button", { name: "Deny" });
    await deny.click();
    await page.locator(".toast.bad", { hasText: "not connected" }).waitFor();
    await ask(args, "start");
    await page.getByRole("button", { name: "Ask again" }).click();
    await waits.waitFor();
    await deny.click();
    const told = await settled(page, 3);
    check(told.answers.at(-1) === "Over." && told.mine.length === 2, "it is asked again", told);
    check((await page.getByRole("button", { name: "Ask again" }).count()) === 0, "and answered");
  },

  // What waits for its turn when the answer is stopped is not answered.
  async drops({ page, args }) {
    await login(page, args);
    await say(page, LONG);
    await until("text comes", async () => (await liveText(page)).includes("w3"));
    await say(page, scripted("the second"));
    await page.getByText("Waits for its turn").waitFor();
    await page.getByRole("button", { name: "Stop" }).click();
    await page.getByRole("button", { name: "Ask again" }).click();
    const told = await settled(page, 2);
    check(told.answers.at(-1) === "the second" && told.mine.length === 3, "it is asked again", told);
    check((await page.getByRole("button", { name: "Ask again" }).count()) === 0, "and answered");
  },

  // Model and thinking level, then a picture that is pasted, and what is none.
  async chooses({ page, args }) {
    await login(page, args);
    await page.getByRole("button", { name: "Model: mock/mock-1" }).click();
    await page.getByRole("searchbox", { name: "Search models" }).fill("think");
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Model: mocka/mock-think" }).waitFor();
    check((await page.getByRole("dialog").count()) === 0, "the choice is over");
    const level = page.getByRole("combobox", { name: "Thinking level" });
    await level.selectOption("high");
    await page.reload();
    await until("the level is kept", async () => (await level.inputValue()) === "high");
    await say(page, "@mock think n=3 delay=5");
    await settled(page, 1);
    await page.getByText("Thinking", { exact: true }).click();
    await until("what it thought", async () => (await page.locator(".thinking .md").textContent()).includes("w1 w2"));

    // Cells of a table come with a picture of them; a file comes with its name.
    const paste = (text) => field(page).evaluate((element, text) => {
      const data = new DataTransfer();
      data.setData("text/plain", text);
      data.items.add(new File(["of it"], "image.png", { type: "image/png" }));
      return element.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
    }, text);
    const remove = page.getByRole("button", { name: "Remove image.png" });
    check(await paste("1\t2\n"), "the text is pasted");
    check((await remove.count()) === 0, "and no picture");
    check(!(await paste("file:///tmp/image.png")), "no name is pasted");
    await remove.click();
    await field(page).evaluate(async (element) => {
      const canvas = Object.assign(document.createElement("canvas"), { width: 8, height: 8 });
      canvas.getContext("2d").fillRect(0, 0, 8, 8);
      const blob = await new Promise((resolve) => canvas.toBlob(resolve));
      const data = new DataTransfer();
      data.items.add(new File([blob], "dot.png", { type: "image/png" }));
      data.items.add(new File(["unwanted"], "other.txt", { type: "text/plain" }));
      element.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
    });
    await page.getByRole("button", { name: "Remove other.txt" }).click();
    await page.getByRole("button", { name: "Remove dot.png" }).waitFor();
    await say(page, scripted("a black square"));
    await settled(page, 2);
    const picture = mine(page).last().locator("img");
    await until("the picture", () => picture.evaluate((image) => image.naturalWidth === 8));
  },

  // Without a mouse: commands, what was said before, drafts, sessions.
  async types({ page, args }) {
    await login(page, args);
    const focused = () => page.evaluate(() => document.activeElement.getAttribute("aria-label"));
    await until("the field has the focus", async () => (await focused()) === "Message");
    await page.keyboard.type("/stat");
    await page.getByRole("option", { name: "/status" }).waitFor();
    await page.keyboard.press("Tab");
    check((await field(page).inputValue()) === "/status", "the command is completed");
    await page.keyboard.press("Enter");
    await until("it is answered", async () => ((await texts(answers(page))).at(-1) ?? "").includes("Model"));
    await say(page, "first line");
    await settled(page, 2);
    await page.keyboard.press("ArrowUp");
    check((await field(page).inputValue()) === "first line", "what was said comes back");
    await page.keyboard.press("Shift+Enter");
    await page.keyboard.type("second line");
    check((await field(page).inputValue()) === "first line\nsecond line", "a line more");

    // The draft stays with its session.
    await page.getByRole("button", { name: "New", exact: true }).press("Enter");
    await page.getByText("Say something to").waitFor();
    check((await field(page).inputValue()) === "", "a new session has no draft");
    await say(page, scripted("**bold** words"));
    await settled(page, 1);
    await page.getByRole("button", { name: "Session menu" }).press("Enter");
    await page.getByRole("button", { name: "Rename" }).press("Enter");
    await page.getByRole("textbox", { name: "Name" }).fill("Trip");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Trip" }).waitFor();
    await page.getByRole("link", { name: /^Main/ }).press("Enter");
    await until("the draft", async () => (await field(page).inputValue()) === "first line\nsecond line");
    await page.getByRole("link", { name: /^Trip/ }).press("Enter");
    await page.getByRole("heading", { name: "Trip" }).waitFor();
    await page.getByRole("button", { name: "Session menu" }).press("Enter");
    await page.getByRole("button", { name: "Delete" }).press("Enter");
    await page.getByRole("dialog", { name: "Delete session" }).getByRole("button", { name: "Delete" }).press("Enter");
    await page.getByRole("heading", { name: "Main" }).waitFor();
    await until("it is gone", async () => (await page.getByRole("link", { name: /^Trip/ }).count()) === 0);

    // Every control has a name.
    const nameless = await page.evaluate(() => [...document.querySelectorAll("button, a, input, select, textarea")].filter((one) => !one.getAttribute("aria-label") && !one.textContent.trim() && !one.labels?.length).map((one) => one.outerHTML));
    check(nameless.length === 0, "names", nameless);
  },

  // The commands come after the slash was typed; before, they could not be had.
  async completes_late({ page, args }) {
    const held = [];
    let asked = 0;
    await page.routeWebSocket(/.*/, (socket) => {
      const server = socket.connectToServer();
      const ids = new Set();
      socket.onMessage((data) => {
        const frame = JSON.parse(data);
        if (frame.method !== "commands.list") return server.send(data);
        asked += 1;
        const error = { code: "UNAVAILABLE", message: "not now" };
        if (asked === 1) return socket.send(JSON.stringify({ type: "res", id: frame.id, ok: false, error }));
        ids.add(frame.id);
        server.send(data);
      });
      server.onMessage((data) => (ids.has(JSON.parse(data).id) ? held.push(() => socket.send(data)) : socket.send(data)));
    });
    await login(page, args);
    await until("it was refused once", () => asked === 1);
    await field(page).pressSequentially("/stat");
    await until("it is asked again, once", () => held.length === 1 && asked === 2);
    const choice = page.getByRole("option", { name: "/status" });
    check((await choice.count()) === 0, "there is nothing to choose from");
    held[0]();
    await choice.waitFor();
  },

  // On a phone: nothing is cut off, the sessions come from the side.
  async phone({ page, args }) {
    await page.setViewportSize({ width: 360, height: 740 });
    await login(page, args);
    const wide = "x".repeat(120);
    await say(page, scripted(`a | b | c\n--|--|--\n${wide} | ${wide} | ${wide}\n\n\`\`\`\n${wide}\n\`\`\`\n\n${wide}`));
    await settled(page, 1);
    const cut = await page.evaluate(() => [...document.querySelectorAll("body *")].filter((one) => !one.closest(".scroll-x, pre, .nav, .ellipsis, .sr-only") && one.getBoundingClientRect().right > innerWidth + 1).map((one) => one.className));
    check(cut.length === 0, "everything is within the screen", cut);
    await page.getByRole("button", { name: "Sessions", exact: true }).click();
    const sheet = page.getByRole("dialog", { name: "Sessions" });
    await sheet.getByRole("link", { name: /^Main/ }).waitFor();
    await sheet.getByRole("button", { name: "New" }).click();
    await sheet.waitFor({ state: "detached" });
    await page.getByText("Say something to").waitFor();

    // Far up in a long conversation it stays there, and offers the way back.
    for (let turn = 1; turn <= 3; turn++) {
      await say(page, scripted("line\n\n".repeat(30)));
      await settled(page, turn);
    }
    const scroller = page.locator(".scroller");
    const left = () => scroller.evaluate((one) => one.scrollHeight - one.scrollTop - one.clientHeight);
    check((await left()) < 50, "at the end", await left());
    await scroller.evaluate((one) => one.scrollTo(0, 500));
    await page.getByRole("button", { name: "Latest" }).waitFor();
    await page.evaluate(() => dispatchEvent(new Event("resize")));
    await page.getByRole("button", { name: "Latest" }).click();
    await until("at the end again", async () => (await left()) < 50);
  },

  // 150 notes: the newest ones first, the others when somebody scrolls up.
  async scrolls_up({ page, args }) {
    const frames = record(page);
    await login(page, args);
    const note = (number) => page.locator(".messages").getByText(`note ${number}.`, { exact: true });
    await note(150).waitFor();
    check((await note(1).count()) === 0, "not everything at once");
    const scroller = page.locator(".scroller");
    const place = () => note(95).evaluate((one) => one.getBoundingClientRect().top);
    await note(95).waitFor();
    await scroller.evaluate((one) => one.scrollTo(0, 200));
    const before = await place();
    await note(40).waitFor({ state: "attached" });
    check(Math.abs((await place()) - before) < 3, "what is read stays where it is", before, await place());
    await scroller.evaluate((one) => one.scrollTo(0, 0));
    await note(1).waitFor({ state: "attached" });
    await page.getByRole("button", { name: "Latest" }).click();
    await say(page, scripted("still here"));
    await settled(page, 151);
    return frames.calls("chat.history").map((params) => params.limit);
  },

  // The provider breaks off in the middle of an answer.
  async breaks_off({ page, args }) {
    await login(page, args);
    await say(page, "@mock err status=500 after=25");
    await settled(page, 1);
    for (const when of ["at once", "after a reload"]) {
      const said = answers(page).last();
      await said.locator(".notice.bad").waitFor();
      check((await texts(answers(page)))[0].startsWith("w1 w2 w3"), `what was said stays, ${when}`, await said.textContent());
      check((await said.getByRole("button", { name: "Copy message" }).count()) === 1, `it can be copied, ${when}`);
      await page.reload();
    }
  },

  // Stopped by keyboard: by its button, after a decision, and not where Escape closes
  // something or empties a field.
  async escapes({ page, args }) {
    const frames = record(page);
    const stops = () => frames.calls("chat.abort").length;
    await login(page, args);
    await say(page, LONG);
    await until("text comes", async () => (await liveText(page)).includes("w3"));
    await page.getByRole("button", { name: "Stop" }).press("Enter");
    await settled(page, 1);
    check(await field(page).evaluate((one) => one === document.activeElement), "one goes on in the field");

    await say(page, LONG);
    await until("text comes", async () => (await liveText(page)).includes("w3"));
    await page.getByRole("button", { name: "Session menu" }).press("Enter");
    const dialog = page.getByRole("dialog");
    await dialog.waitFor();
    await page.keyboard.down("Escape");
    await dialog.waitFor({ state: "detached" });
    // It is held down.
    await page.keyboard.down("Escape");
    await page.keyboard.up("Escape");
    await page.getByRole("searchbox", { name: "Search sessions" }).fill("trip");
    await page.keyboard.press("Escape");
    await field(page).pressSequentially("/stat");
    await page.getByRole("option", { name: "/status" }).waitFor();
    await page.keyboard.press("Escape");
    check(stops() === 1, "it is not stopped");
    await field(page).press("Escape");
    await settled(page, 2);
    check(stops() === 2, "and then it is");

    await field(page).fill("");
    await say(page, `@mock tool name=exec args=${JSON.stringify({ command: "uname -s && sleep 600" })} then="Over."`);
    await page.getByRole("button", { name: "Allow once" }).press("Enter");
    await until("it runs", async () => (await page.locator("details.tool").getAttribute("data-state")) === "running");
    await until("the view has the focus", () => page.evaluate(() => document.activeElement.id === "main"));
    await page.keyboard.press("Escape");
    await until("it is stopped", async () => (await page.locator(".live").count()) === 0);
  },

  // Older messages are asked for, and come when somebody has gone on reading.
  async reads_on({ page, args }) {
    const held = [];
    await page.routeWebSocket(/.*/, (socket) => {
      const server = socket.connectToServer();
      const ids = new Set();
      socket.onMessage((data) => {
        const { id, method, params } = JSON.parse(data);
        if (method === "chat.history" && params.limit > 60) ids.add(id);
        server.send(data);
      });
      server.onMessage((data) => (ids.has(JSON.parse(data).id) ? held.push(() => socket.send(data)) : socket.send(data)));
    });
    await login(page, args);
    const note = (number) => page.locator(".messages").getByText(`note ${number}.`, { exact: true });
    await note(150).waitFor();
    const scroller = page.locator(".scroller");
    const scroll = (y) => scroller.evaluate((one, y) => one.scrollTo(0, y), y);
    const place = () => note(115).evaluate((one) => one.getBoundingClientRect().top);
    await scroll(200);
    await until("older ones are asked for", () => held.length === 1);
    await scroll(1500);
    const before = await place();
    held[0]();
    await note(40).waitFor({ state: "attached" });
    check(Math.abs((await place()) - before) < 3, "what is read stays where it is", before, await place());
  },

  // A result that the history tells a part of, once more after a reload: copied and shown.
  async shows_a_whole_result({ page, args }) {
    await page.addInitScript(() => (navigator.clipboard.writeText = async (text) => void (globalThis.copied = text)));
    await login(page, args);
    await say(page, `@mock tool name=exec args=${JSON.stringify({ command: "seq 1 6000" })} then="Over."`);
    await settled(page, 2);
    await page.reload();
    const card = page.locator("details.tool");
    await card.locator("summary").click();
    await card.getByRole("button", { name: "Copy result" }).dispatchEvent("click");
    const copied = await until("it is copied", () => page.evaluate(() => globalThis.copied));
    check(copied.startsWith("1\n2\n") && copied.includes("\n6000"), "all of it is copied", copied.slice(-40));
    await card.getByRole("button", { name: "Show all" }).click();
    await until("all of it is shown", async () => (await card.locator("pre").last().textContent()) === copied);
    check((await card.getByRole("button", { name: "Show all" }).count()) === 0, "there is no more of it");
  },

  // What was shown of a session, once another one is.
  async forgets_rooms({ page, context, args }) {
    await login(page, args);
    await say(page, scripted("Here."));
    await settled(page, 1);
    await page.evaluate(() => {
      globalThis.left = new WeakRef(document.querySelector(".room"));
      location.hash = "#/chat/agent%3Amain%3Aother";
    });
    await page.getByText("Say something to").waitFor();
    // What was typed last can be undone, which the browser keeps.
    await field(page).pressSequentially("another");
    const cdp = await context.newCDPSession(page);
    await until("it is given up", async () => {
      await cdp.send("HeapProfiler.collectGarbage");
      return page.evaluate(() => !globalThis.left.deref());
    });
  },
});
