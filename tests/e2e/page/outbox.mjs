// Steps of outbox.rs.
import { ask, check, login, record, steps, until } from "../../node/page.mjs";

const field = (page) => page.getByRole("textbox", { name: "Message" });
const list = (page) => page.getByRole("list", { name: "Attachments" });
const mine = (page) => page.locator(".message.user");
const attach = (page, name) => page.locator("input[type=file]").setInputFiles({ name, mimeType: "text/plain", buffer: Buffer.from(`in ${name}`) });
const show = (page, view) => page.evaluate((view) => (location.hash = view), view);

async function say(page, text) {
  await field(page).fill(text);
  await page.keyboard.press("Enter");
}

// The gateway is there again, and the page need not wait until it tries again by itself.
async function start(page, args) {
  await ask(args, "start");
  await page.evaluate(() => dispatchEvent(new Event("online")));
}

// Holds back the answers to messages until `release()`; `sent` has the texts.
async function holding(page) {
  const sent = [];
  const ids = new Set();
  const held = [];
  let isHolding = true;
  await page.routeWebSocket(/.*/, (socket) => {
    const server = socket.connectToServer();
    socket.onMessage((data) => {
      const frame = JSON.parse(data);
      if (frame.method === "chat.send") {
        sent.push(frame.params.message);
        ids.add(frame.id);
      }
      server.send(data);
    });
    server.onMessage((data) => {
      const frame = JSON.parse(data);
      if (isHolding && frame.type === "res" && ids.has(frame.id)) held.push(() => socket.send(data));
      else socket.send(data);
    });
  });
  const release = () => {
    isHolding = false;
    for (const pass of held.splice(0)) pass();
  };
  return { sent, held, release };
}

export default steps({
  // Written without a connection, and then another view is looked at. Returns what was
  // sent.
  async elsewhere({ page, args }) {
    const frames = record(page);
    await login(page, args);
    await field(page).waitFor();
    await ask(args, "kill");
    await page.locator(".offline").waitFor();
    await say(page, "a text");
    await attach(page, "note.txt");
    await list(page).getByText("note.txt").waitFor();
    await until("it can be sent", () => page.getByRole("button", { name: "Send" }).isEnabled());
    await say(page, "a file");
    await until("both wait", async () => (await page.locator(".message.pending").count()) === 2);
    await show(page, "#/logs");
    await page.getByRole("heading", { name: "Logs" }).waitFor();
    await start(page, args);
    const isDone = ({ id }) => frames.received.some((frame) => frame.id === id && frame.ok);
    await until("both are sent", () => frames.sent.filter(({ method }) => method === "chat.send").filter(isDone).length === 2);
    check(await page.getByRole("heading", { name: "Logs" }).isVisible(), "another view is shown");
    return frames.calls("chat.send").map(({ message, attachments }) => [message, attachments?.[0].fileName ?? null]);
  },

  // Waits while there is no connection, and one more is written just when there is.
  async in_order({ page, args }) {
    const { sent, release } = await holding(page);
    await login(page, args);
    await field(page).waitFor();
    await ask(args, "kill");
    await page.locator(".offline").waitFor();
    for (const text of ["one", "two", "three"]) await say(page, text);
    await start(page, args);
    await until("the first is sent", () => sent.length > 0);
    await say(page, "four");
    await until("it waits as well", async () => (await page.locator(".message.pending").filter({ hasText: "four" }).count()) === 1);
    release();
    await until("all are sent", () => sent.length >= 4);
    await until("nothing waits", async () => (await page.locator(".message.pending, .live").count()) === 0);
    return sent;
  },

  // Two messages are written while a gateway that stops ends what runs: the first before
  // the page hears of it. Returns the texts and keys of what was sent.
  async stopping({ page, args }) {
    const sent = [];
    const held = [];
    await page.routeWebSocket(/.*/, (socket) => {
      const server = socket.connectToServer();
      let refused;
      socket.onMessage((data) => {
        const { id, method, params } = JSON.parse(data);
        if (method === "chat.send") sent.push([params.message, params.idempotencyKey]);
        if (method === "chat.send" && held.length > 0) refused = id;
        server.send(data);
      });
      server.onMessage((data) => {
        const { id, event } = JSON.parse(data);
        if (event !== "shutdown" && held.length === 0) return socket.send(data);
        held.push(data);
        if (id && id === refused) for (const one of held.splice(0)) socket.send(one);
      });
      server.onClose(() => socket.close());
    });
    await login(page, args);
    await say(page, "@mock stream n=180 delay=50");
    await page.locator(".live").waitFor();
    await ask(args, "stop");
    await until("it stops", () => held.length > 0);
    await say(page, "one");
    await until("it is refused", () => sent.length === 2 && held.length === 0);
    await say(page, "two");
    await until("both wait", async () => (await page.getByText("Waits for the connection").count()) === 2);
    await start(page, args);
    await until("both are sent", () => sent.length >= 4);
    await until("nothing waits", async () => (await page.locator(".message.pending, .live").count()) === 0);
    check((await page.locator(".toast.bad").count()) === 0, "nobody is told of it");
    return sent.slice(1);
  },

  // The answer to a message comes when another session is shown.
  async once({ page, args }) {
    const { sent, held, release } = await holding(page);
    await login(page, args);
    await say(page, "once");
    await until("it is answered", () => held.length === 1);
    await show(page, "#/chat/agent%3Amain%3Aother");
    await page.getByText("Say something to").waitFor();
    release();
    const stored = () => page.evaluate(() => Object.keys(sessionStorage).filter((name) => name.startsWith("clawgate.outbox.")));
    await until("it waits no more", async () => (await stored()).length === 0);
    await show(page, "#/chat/agent%3Amain%3Amain");
    await page.locator(".message.assistant:not(.live)").waitFor();
    await until("nothing waits", async () => (await page.locator(".message.pending, .live").count()) === 0);
    await until("it is there once", async () => (await mine(page).count()) === 1);
    return sent;
  },

  // A text and a file that are not sent, a look at something else, and another tab.
  async keeps({ page, context, args }) {
    await login(page, args);
    await field(page).fill("a long text");
    await attach(page, "note.txt");
    await list(page).getByText("note.txt").waitFor();
    for (const view of ["#/logs", "#/chat/agent%3Amain%3Aother"]) {
      await show(page, view);
      await until("it is not shown there", async () => (await list(page).count()) === 0 || (await list(page).isHidden()));
      await show(page, "#/chat/agent%3Amain%3Amain");
      await list(page).getByText("note.txt").waitFor();
      check((await field(page).inputValue()) === "a long text", "the text is there");
    }
    const other = await context.newPage();
    await login(other, args);
    await field(other).fill("b");
    await field(other).fill("");
    await page.reload();
    await until("the text is kept", async () => (await field(page).inputValue()) === "a long text");
  },

  // Keys that an input method has a use for.
  async composes({ page, args }) {
    const frames = record(page);
    await login(page, args);
    await say(page, "@mock stream n=600 delay=50");
    await page.locator(".live").waitFor();
    await field(page).fill("にほ");
    const press = (init) => field(page).evaluate((one, init) => one.dispatchEvent(new KeyboardEvent("keydown", { bubbles: true, cancelable: true, ...init })), init);
    await press({ key: "Escape", isComposing: true });
    await press({ key: "Enter", keyCode: 229 });
    check((await field(page).inputValue()) === "にほ", "it is not sent");
    check(frames.calls("chat.abort").length === 0, "nothing is stopped");
    await page.keyboard.press("Escape");
    await until("it is stopped", () => frames.calls("chat.abort").length === 1);
  },
});
