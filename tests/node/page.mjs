// What the steps of our own page share. A module of steps is
//   export default steps({ async name({ page, context, args }) { … } })
// and `args.steps` says which are wanted.

// Steps by name.
export const steps = (all) => (given) => all[given.args.steps](given);

// Opens the page, and signs in with the gateway's token; `hash` is the view.
export async function login(page, { url, token }, hash = "") {
  await page.goto(url + hash);
  const nav = page.getByRole("navigation", { name: "Views" });
  const input = page.getByLabel("Gateway token");
  await nav.or(input).first().waitFor();
  if (await input.isVisible()) {
    await input.fill(token);
    await page.getByRole("button", { name: "Connect" }).click();
  }
  await nav.waitFor();
}

// Frames of all WebSockets that the page opens from now on, as objects:
// {sent, received}, and `calls(method)`: the params of each such request.
export function record(page) {
  const frames = { sent: [], received: [] };
  const parse = ({ payload }) => JSON.parse(payload.toString());
  page.on("websocket", (socket) => {
    socket.on("framesent", (frame) => frames.sent.push(parse(frame)));
    socket.on("framereceived", (frame) => frames.received.push(parse(frame)));
  });
  frames.calls = (method) => frames.sent.filter((frame) => frame.method === method).map((frame) => frame.params);
  return frames;
}

// Addresses of other places that anything in the browser asks for from now on.
export function foreign(context, { url }) {
  const asked = [];
  context.on("request", (request) => {
    const to = new URL(request.url());
    if (!["data:", "blob:"].includes(to.protocol) && to.origin !== new URL(url).origin) asked.push(to.href);
  });
  return asked;
}

// Asks the gateway by a connection of its own, as the device of the page's browser.
export function call(page, method, params) {
  const ask = async ([method, params]) => {
    const [{ Device }, { Link }] = await Promise.all([import("./js/device.js"), import("./js/link.js")]);
    globalThis.ownLink ??= Device.load().then((device) => {
      const link = new Link(device);
      const isReady = new Promise((resolve) => link.on("ready", () => resolve(link)));
      link.start();
      return isReady;
    });
    return (await globalThis.ownLink).call(method, params);
  };
  return page.evaluate(ask, [method, params]);
}

// Asks the test for something by a word, and waits until it is done.
export async function ask({ control }, word) {
  await fetch(`${control}/${word}`);
}

// Waits until `probe` gives something true; its last value is told otherwise.
export async function until(what, probe, limitMs = 15_000) {
  const end = Date.now() + limitMs;
  for (;;) {
    const value = await probe();
    if (value) return value;
    if (Date.now() > end) throw new Error(`${what}: ${JSON.stringify(value)}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

export function check(condition, what, ...told) {
  if (!condition) throw new Error(`${what}: ${told.map((value) => JSON.stringify(value)).join(" ")}`);
}
