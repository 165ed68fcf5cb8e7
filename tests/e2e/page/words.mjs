// Steps of words.rs.
import { ask, call, check, login, record, steps, until } from "../../node/page.mjs";

const field = (page) => page.getByRole("textbox", { name: "Message" });
const mine = (page) => page.locator(".message.user");
const answers = (page) => page.locator(".message.assistant:not(.live)");
const attach = (page, name) => page.locator("input[type=file]").setInputFiles({ name, mimeType: "text/plain", buffer: Buffer.from(`in ${name}`) });

// Longer than what the gateway lists of a text.
const WORDS = `${"word ".repeat(3000)}end`;
// An answer that takes half a minute, unless somebody stops it.
const SLOW = "@mock stream n=600 delay=50";

async function say(page, text) {
  await field(page).fill(text);
  await page.keyboard.press("Enter");
}

async function isAnswering(page) {
  await until("text comes", async () => (await page.locator(".message.live .md").allTextContents()).join("").includes("w3"));
}

async function settled(page, count) {
  await until(`${count} answers`, async () => (await page.locator(".live, .message.pending").count()) === 0 && (await answers(page).count()) === count);
}

// Kills the gateway in the middle of an answer, and starts it again.
async function cutOff(page, args) {
  await isAnswering(page);
  await ask(args, "kill");
  await page.locator(".offline").waitFor();
  await ask(args, "start");
  await page.evaluate(() => dispatchEvent(new Event("online")));
  await page.getByRole("button", { name: "Ask again" }).waitFor();
}

export default steps({
  // A long message and one with a file are cut off by a crash. Returns what was sent
  // when they were asked again, and what was told of the file.
  async asks_again({ page, args }) {
    const frames = record(page);
    const sent = () => frames.calls("chat.send").map(({ message }) => message);
    await login(page, args);
    const long = `${WORDS} ${SLOW}`;
    await say(page, long);
    await cutOff(page, args);
    await page.getByRole("button", { name: "Ask again" }).click();
    await until("it is sent again", () => sent().length === 2);
    check(sent()[1] === long, "as it was written", sent()[1].slice(-100));
    await isAnswering(page);
    await field(page).press("Escape");
    await until("it is stopped", async () => (await page.locator(".live").count()) === 0);

    await attach(page, "note.txt");
    await page.getByRole("list", { name: "Attachments" }).getByText("note.txt").waitFor();
    await say(page, SLOW);
    await cutOff(page, args);
    await field(page).fill("a draft");
    await page.getByRole("button", { name: "Ask again" }).click();
    const told = page.locator(".toast.bad").filter({ hasText: "note.txt" });
    await told.waitFor();
    check((await field(page).inputValue()) === `${SLOW}\na draft`, "its words are in the field", await field(page).inputValue());
    check(sent().length === 3, "it is not sent without its file", sent());
    return told.textContent();
  },

  // Copies a long message with a file and its long answer, and recalls the message.
  async comes_back({ page, args }) {
    await page.addInitScript(() => (navigator.clipboard.writeText = async (text) => void (globalThis.copied = text)));
    await login(page, args);
    const said = `@mock text text=${JSON.stringify(WORDS)}`;
    await attach(page, "note.txt");
    await page.getByRole("list", { name: "Attachments" }).getByText("note.txt").waitFor();
    await say(page, said);
    await settled(page, 1);
    await page.reload();
    const more = page.getByRole("button", { name: "Show all of it" });
    await until("both are shortened", async () => (await more.count()) === 2);
    await field(page).press("ArrowUp");
    await until("it is in the field", async () => (await field(page).inputValue()) === said);
    await page.reload();
    await until("both are shortened", async () => (await more.count()) === 2);
    for (const [message, whole] of [[mine(page), said], [answers(page), WORDS]]) {
      await message.getByRole("button", { name: "Copy message" }).dispatchEvent("click");
      await until("it is copied", async () => (await page.evaluate(() => globalThis.copied)) === whole);
    }
  },

  // A message that is larger than the gateway takes, which says that it takes little.
  async is_too_large({ page, args }) {
    const sent = [];
    await page.routeWebSocket(/.*/, (socket) => {
      const server = socket.connectToServer();
      socket.onMessage((data) => {
        sent.push(JSON.parse(data).method);
        server.send(data);
      });
      server.onMessage((data) => {
        const frame = JSON.parse(data);
        if (frame.payload?.policy) frame.payload.policy.maxPayload = 10_000;
        socket.send(JSON.stringify(frame));
      });
    });
    await login(page, args);
    await until("it is connected", () => sent.includes("chat.history"));
    const before = sent.filter((method) => method === "connect").length;
    // Its bytes are too many, its characters are not.
    const large = "語".repeat(4000);
    await say(page, large);
    const told = page.locator(".toast.bad");
    await told.waitFor();
    check((await field(page).inputValue()) === large, "it is in the field");
    check(!sent.includes("chat.send"), "it is not sent");
    await say(page, "@mock text text=\"heard\"");
    await settled(page, 1);
    check(sent.filter((method) => method === "connect").length === before, "the connection stays", sent);
    return told.textContent();
  },

  // A command was answered, and then the session begins anew.
  async begins_anew({ page, args }) {
    const frames = record(page);
    await login(page, args);
    await say(page, "@mock text text=\"heard\"");
    await settled(page, 1);
    await until("its history is there", () => frames.received.some(({ payload }) => payload?.sessionId && payload.messages?.length === 2));
    await say(page, "/help");
    await mine(page).getByText("/help", { exact: true }).waitFor();
    await settled(page, 2);
    await call(page, "sessions.reset", { key: "agent:main:main" });
    await until("nothing is left of it", async () => (await mine(page).count()) === 0);
    await page.getByText("Say something to").waitFor();
  },

  // An address that writes the name of a session in another way than the gateway.
  async is_named({ page, args }) {
    await login(page, args, "#/chat/Agent%3AMain%3ADesk");
    await until("it has its own name", () => page.evaluate(() => location.hash === "#/chat/agent%3Amain%3Adesk"));
    await say(page, SLOW);
    await isAnswering(page);
    await field(page).press("Escape");
    await settled(page, 1);
    await page.locator("a[data-key='agent:main:desk'][aria-current=true]").waitFor();
  },

  // Somebody writes, and attaches a file, before the gateway has said how it names the
  // session. Returns what was sent.
  async is_named_late({ page, args }) {
    const asked = new Set();
    const held = [];
    const sent = [];
    let isTold = false;
    await page.routeWebSocket(/.*/, (socket) => {
      const server = socket.connectToServer();
      socket.onMessage((data) => {
        const { id, method, params } = JSON.parse(data);
        if (method === "sessions.messages.subscribe") asked.add(id);
        if (method === "chat.send") sent.push(params);
        server.send(data);
      });
      server.onMessage((data) => {
        if (isTold || !asked.has(JSON.parse(data).id)) socket.send(data);
        else held.push(() => socket.send(data));
      });
    });
    // Files are there when the test wants it.
    await page.addInitScript(() => {
      const read = FileReader.prototype.readAsDataURL;
      FileReader.prototype.readAsDataURL = function (file) {
        globalThis.readNow = () => read.call(this, file);
      };
    });
    await login(page, args, "#/chat/Agent%3AMain%3ADesk");
    await until("its name is on its way", () => held.length > 0);
    const said = "@mock text text=\"heard\"";
    await field(page).fill(said);
    await attach(page, "note.txt");
    const files = page.getByRole("list", { name: "Attachments" });
    await files.getByText("note.txt").waitFor();
    isTold = true;
    for (const tell of held) tell();
    await until("it has its own name", () => page.evaluate(() => location.hash === "#/chat/agent%3Amain%3Adesk"));
    check((await field(page).inputValue()) === said, "the draft is there", await field(page).inputValue());
    await files.getByText("note.txt").waitFor();
    const send = page.getByRole("button", { name: "Send" });
    check(await send.isDisabled(), "its file is on its way");
    await page.evaluate(() => globalThis.readNow());
    await until("its file is there", () => send.isEnabled());
    await send.click();
    await settled(page, 1);
    const left = await page.evaluate(() => [localStorage, sessionStorage].map((storage) => storage.getItem("clawgate.drafts")));
    check(!JSON.stringify(left).includes("heard"), "no draft is left", left);
    return sent;
  },

  // Messages are refused after the gateway has said how it names the session in which they
  // were written.
  async is_refused_late({ page, args }) {
    const named = [];
    const refused = [];
    const asked = new Set();
    await page.routeWebSocket(/.*/, (socket) => {
      const server = socket.connectToServer();
      const error = { code: "INVALID_REQUEST", message: "not today" };
      socket.onMessage((data) => {
        const { id, method } = JSON.parse(data);
        if (method === "chat.send") return void refused.push(() => socket.send(JSON.stringify({ type: "res", id, ok: false, error })));
        if (method === "sessions.messages.subscribe" && asked.size === 0) asked.add(id);
        server.send(data);
      });
      server.onMessage((data) => {
        if (asked.has(JSON.parse(data).id)) named.push(() => socket.send(data));
        else socket.send(data);
      });
    });
    await login(page, args, "#/chat/Agent%3AMain%3ADesk");
    await until("its name is on its way", () => named.length > 0);
    const files = page.getByRole("list", { name: "Attachments" }).locator("li");
    const add = async (name) => {
      await attach(page, name);
      await files.getByText(name).waitFor();
      await until("it is there", () => page.getByRole("button", { name: "Send" }).isEnabled());
    };
    for (const text of ["one", "two", "three"]) {
      await add(`${text}.txt`);
      await say(page, text);
    }
    await until("the first is sent", () => refused.length > 0);
    named[0]();
    await until("it has its own name", () => page.evaluate(() => location.hash === "#/chat/agent%3Amain%3Adesk"));
    await field(page).fill("a draft");
    await add("draft.txt");
    for (const at of [0, 1, 2]) {
      await until("it is sent", () => refused.length > at);
      refused[at]();
    }
    await page.locator(".toast.bad").filter({ hasText: "not today" }).waitFor();
    await until("all are there", async () => (await files.count()) === 4);
    const back = "one\ntwo\nthree\na draft";
    check((await field(page).inputValue()) === back, "they are in the field, in their order", await field(page).inputValue());
    const names = (await files.allTextContents()).map((text) => text.split(".")[0]);
    check(names.join(" ") === "one two three draft", "so are their files", names);
    await page.reload();
    await until("they are kept there", async () => (await field(page).inputValue()) === back);
  },
});
