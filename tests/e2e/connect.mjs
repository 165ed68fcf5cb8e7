// A page that connects to a gateway as a web client does.
//
// args: {page, socket, connect, device, message, waits}
//   page      URL of the page, before any of its code runs
//   socket    URL of the WebSocket
//   connect   params of `connect`
//   device    whether it proves a key of its own, made by the browser
//   message   what it says in the session `main` once it is in
//   waits     whether it comes again until somebody has approved its device
// Returns {origin, hello, text, events, closed}: the origin of the page, the
// answer to `connect`, the text of the final answer, the kinds of events that
// came, and how the socket was closed by the other side.
export default async function ({ page, args }) {
  await page.goto(args.page);
  for (;;) {
    const told = await page.evaluate(talk, args);
    const isUnknown = told.hello?.error?.details?.code === "PAIRING_REQUIRED";
    if (!args.waits || !isUnknown) return told;
    await page.waitForTimeout(200);
  }
}

// Runs in the page, so it can use nothing from outside of it.
async function talk({ socket: url, connect, device, message }) {
  const base64 = (bytes) =>
    btoa(String.fromCharCode(...new Uint8Array(bytes)))
      .replaceAll("+", "-")
      .replaceAll("/", "_")
      .replaceAll("=", "");

  // The proof of a key that the page keeps, so that it is the same device again.
  async function proof(params, nonce) {
    globalThis.pair ??= await crypto.subtle.generateKey("Ed25519", false, ["sign"]);
    const { publicKey, privateKey } = globalThis.pair;
    const raw = await crypto.subtle.exportKey("raw", publicKey);
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", raw));
    const id = [...digest].map((byte) => byte.toString(16).padStart(2, "0")).join("");
    const { client, role, scopes, auth } = params;
    const signedAt = Date.now();
    const signed = [
      "v3", id, client.id, client.mode, role, scopes.join(","), signedAt,
      auth?.token ?? "", nonce, client.platform.toLowerCase(), "",
    ].join("|");
    const signature = await crypto.subtle.sign(
      "Ed25519", privateKey, new TextEncoder().encode(signed));
    return { id, publicKey: base64(raw), signature: base64(signature), signedAt, nonce };
  }

  const told = { origin: location.origin, hello: null, text: null, events: [], closed: null };
  const socket = new WebSocket(url);
  const send = (id, method, params) =>
    socket.send(JSON.stringify({ type: "req", id, method, params }));
  return new Promise((resolve) => {
    socket.onclose = ({ code, reason }) => {
      told.closed = { code, reason };
      resolve(told);
    };
    socket.onmessage = async ({ data }) => {
      const frame = JSON.parse(data);
      if (frame.type === "event") told.events.push(frame.event);
      if (frame.event === "connect.challenge") {
        const params = structuredClone(connect);
        if (device) params.device = await proof(params, frame.payload.nonce);
        send("connect", "connect", params);
      } else if (frame.id === "connect") {
        told.hello = frame;
        if (!frame.ok) return;
        if (!message) return resolve(told);
        send("send", "chat.send",
          { sessionKey: "main", message, idempotencyKey: crypto.randomUUID() });
      } else if (frame.event === "chat" && frame.payload.state === "final") {
        told.text = frame.payload.message.content.map((block) => block.text ?? "").join("");
        resolve(told);
      }
    };
  });
}
