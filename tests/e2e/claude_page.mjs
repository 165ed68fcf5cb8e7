// A page with a chat over the WebSocket of Claude sessions: what the document of
// that protocol asks of a client, and nothing more.
//
// args: {page, socket, streams, calls}
//   page     URL of the page
//   socket   URL of the WebSocket, with its credential
//   streams  a message that is answered by a long text
//   calls    a message upon which a tool is called
// Returns {first, second, again, grew, calls, isIdle}: the messages that the page
// shows after each of them and after it has come again, the lengths of the text
// while it grew, the calls that it saw, and whether it waits for nothing.
import { check, until } from "../node/page.mjs";

export default async function ({ page, args }) {
  await page.goto(args.page);
  await page.evaluate(client, args);
  const shown = () =>
    page.locator("main article").evaluateAll((all) =>
      all.map((one) => ({ id: one.id, role: one.className, text: one.textContent.trim() })));
  const state = (name) => page.evaluate((name) => globalThis.chat[name], name);
  const turn = async (message, turns) => {
    await page.evaluate((message) => globalThis.chat.send(message), message);
    await until(`turn ${turns}`, async () => (await state("turns")) === turns);
    return shown();
  };
  await until("connection", () => state("isOpen"));
  const first = await turn(args.streams, 1);
  const grew = await state("grew");
  const second = await turn(args.calls, 2);
  const seen = await state("frames");
  await page.evaluate(() => globalThis.chat.reconnect());
  await until("history", async () => (await state("frames")) > seen && !(await state("isWorking")));
  const again = await shown();
  check(again.length > 0, "messages are shown");
  return { first, second, again, grew, calls: await state("calls"), isIdle: !(await state("isWorking")) };
}

// Runs in the page.
function client({ socket: url }) {
  const list = document.querySelector("main");
  const live = document.body.appendChild(document.createElement("output"));
  const chat = { isOpen: false, isWorking: false, turns: 0, frames: 0, grew: [], calls: [] };
  globalThis.chat = chat;
  let socket;

  const blocks = ({ content }) =>
    typeof content === "string" ? [{ type: "text", text: content }] : content;

  function show({ uuid, message }) {
    if (document.getElementById(uuid)) return;
    for (const { type, name, input } of blocks(message)) {
      if (type === "tool_use") chat.calls.push({ name, input });
    }
    const texts = blocks(message).filter(({ type }) => type === "text");
    const item = document.createElement("article");
    item.id = uuid;
    item.className = message.role;
    item.textContent = texts.map(({ text }) => text).join("\n");
    list.append(item);
  }

  function hear({ data }) {
    const frame = JSON.parse(data);
    chat.frames += 1;
    if (frame.type === "user" || frame.type === "assistant") {
      show(frame);
      // An answer that calls nothing is the last one.
      const goesOn = blocks(frame.message).some(({ type }) => type === "tool_use");
      chat.isWorking = frame.type === "user" || goesOn;
      if (frame.type === "assistant") live.textContent = "";
    } else if (frame.type === "stream_event") {
      if (frame.event.delta?.type === "text_delta") {
        live.textContent += frame.event.delta.text;
        if (chat.turns === 0) chat.grew.push(live.textContent.length);
      } else if (frame.event.type === "message_stop") {
        live.textContent = "";
      }
    } else if (frame.type === "queue-operation" && frame.operation === "dequeue") {
      chat.isWorking = false;
      chat.turns += 1;
    } else if (frame.type === "error") {
      throw new Error(frame.error);
    }
  }

  function connect() {
    socket = new WebSocket(url);
    socket.onopen = () => {
      chat.isOpen = true;
      chat.isWorking = false;
    };
    socket.onmessage = hear;
    socket.onclose = () => (chat.isOpen = false);
  }

  chat.send = (content) => socket.send(JSON.stringify({ type: "user_message", content }));
  chat.reconnect = () =>
    new Promise((done) => {
      socket.onclose = () => {
        chat.isOpen = false;
        connect();
        done();
      };
      socket.close();
    });
  connect();
}
