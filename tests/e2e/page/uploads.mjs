// Steps of uploads.rs.
import { rm } from "node:fs/promises";

import { ask, check, login, record, steps, until } from "../../node/page.mjs";

const field = (page) => page.getByRole("textbox", { name: "Message" });
const list = (page) => page.getByRole("list", { name: "Attachments" });
const bar = (page) => page.getByRole("progressbar");
const send = (page) => page.getByRole("button", { name: "Send" });

// A picture of one pixel, and what stands behind its end.
const DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

function picture(size) {
  const bytes = Buffer.alloc(size, "noise behind a picture");
  Buffer.from(DOT, "base64").copy(bytes);
  return bytes;
}

// From now on so many bytes leave the browser in a second, until what this returns is
// called.
async function throttle(context, page, bytes) {
  const devtools = await context.newCDPSession(page);
  await devtools.send("Network.enable");
  await devtools.send("Network.emulateNetworkConditions", { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput: bytes });
  return () => devtools.detach();
}

const attach = (page, name, mimeType, buffer) => page.locator("input[type=file]").setInputFiles({ name, mimeType, buffer });

export default steps({
  // A picture larger than a frame is uploaded and sent.
  async sends({ page, args }) {
    const frames = record(page);
    await login(page, args);
    await field(page).waitFor();
    await attach(page, "holiday.png", "image/png", picture(args.size));
    await list(page).getByText("holiday.png").waitFor();
    await list(page).getByText("MB", { exact: false }).waitFor();
    await until("it is uploaded", async () => (await bar(page).count()) === 0 && (await send(page).isEnabled()));
    if (args.picture) await page.screenshot({ path: `${args.picture}-ready.png` });
    await field(page).fill("look at this");
    await page.keyboard.press("Enter");
    await page.locator(".message.assistant:not(.live)").first().waitFor();
    if (args.picture) await page.screenshot({ path: `${args.picture}-sent.png` });
    return frames.calls("chat.send")[0].attachments;
  },

  // Shows how far it is, and stops when somebody wants that; what is too large is
  // refused before anything of it is sent.
  async cancels({ page, context, args }) {
    await login(page, args);
    await field(page).waitFor();
    await throttle(context, page, 1_000_000);
    await attach(page, "film.mp4", "video/mp4", Buffer.alloc(8_000_000, "film"));
    const progress = () => bar(page).evaluate((one) => one.position);
    await until("some of it was sent", async () => (await bar(page).count()) > 0 && (await progress()) > 0.05);
    check((await progress()) < 1, "it is not there yet");
    check(await send(page).isDisabled(), "it waits for its files");
    await field(page).fill("first");
    await page.keyboard.press("Enter");
    check((await field(page).inputValue()) === "first", "it is not sent without them");
    if (args.picture) await page.screenshot({ path: `${args.picture}-progress.png` });
    if (args.picture) {
      await page.setViewportSize({ width: 390, height: 844 });
      await page.emulateMedia({ colorScheme: "dark" });
      await page.screenshot({ path: `${args.picture}-phone.png` });
    }
    await page.getByRole("button", { name: "Cancel the upload of film.mp4" }).click();
    await list(page).waitFor({ state: "hidden" });
    check(await send(page).isEnabled(), "nothing is waited for");
    let posts = 0;
    page.on("request", (request) => (posts += request.method() === "POST" ? 1 : 0));
    await attach(page, "long.mp4", "video/mp4", Buffer.alloc(args.most + 1));
    await page.getByText("long.mp4 is too large", { exact: false }).waitFor();
    return posts;
  },

  // The gateway takes its time to say what may be uploaded. Returns what was sent.
  async waits({ page, args }) {
    const frames = record(page);
    const held = [];
    await page.route("**/api/chat/uploads", (route) => (route.request().method() === "GET" ? held.push(() => route.continue()) : route.continue()));
    await login(page, args);
    await field(page).fill("here is the file");
    await attach(page, "film.mp4", "video/mp4", Buffer.alloc(5_000_000, "film"));
    await until("it is asked", () => held.length === 1);
    await list(page).getByText("film.mp4").waitFor();
    await page.keyboard.press("Enter");
    check(await send(page).isDisabled(), "it waits for its file");
    check((await field(page).inputValue()) === "here is the file", "it is not sent without it");
    held[0]();
    await until("it is uploaded", () => send(page).isEnabled());
    await field(page).press("Enter");
    await page.locator(".message.assistant:not(.live)").first().waitFor();
    return frames.calls("chat.send").map(({ attachments }) => attachments?.map(({ fileName }) => fileName) ?? []);
  },

  // A folder and a file are dropped. Returns what is told of the folder.
  async drops({ page, context, args }) {
    await login(page, args);
    await field(page).waitFor();
    const devtools = await context.newCDPSession(page);
    const { x, y } = await page.locator(".transcript").boundingBox();
    const data = { items: [], files: [args.folder, args.file], dragOperationsMask: 1 };
    for (const type of ["dragEnter", "dragOver", "drop"]) await devtools.send("Input.dispatchDragEvent", { type, x: x + 50, y: y + 50, data });
    const told = page.locator(".toast.bad");
    await told.waitFor();
    await until("the file is there", async () => (await list(page).getByRole("listitem").count()) === 1);
    check((await list(page).textContent()).includes("note.txt"), "it is the file");
    check(await send(page).isEnabled(), "it can be sent");
    return told.textContent();
  },

  // The connection is lost in the middle of an upload, and a file is attached while
  // there is none. Returns what was sent.
  async waits_for_the_connection({ page, context, args }) {
    const frames = record(page);
    await login(page, args);
    await field(page).fill("here are the files");
    const hurry = await throttle(context, page, 1_000_000);
    await attach(page, "film.mp4", "video/mp4", Buffer.alloc(8_000_000, "film"));
    await until("some of it was sent", async () => (await bar(page).count()) > 0 && (await bar(page).evaluate((one) => one.position)) > 0.05);
    await ask(args, "kill");
    await page.locator(".offline").waitFor();
    await attach(page, "later.mp4", "video/mp4", Buffer.alloc(5_000_000, "film"));
    await until("both wait", async () => (await list(page).getByText("Waits for the connection").count()) === 2);
    check(await send(page).isDisabled(), "and so does their message");
    check((await page.locator(".toast").count()) === 0, "nothing is refused");
    await hurry();
    await ask(args, "start");
    await page.evaluate(() => dispatchEvent(new Event("online")));
    await until("they are uploaded", () => send(page).isEnabled());
    await field(page).press("Enter");
    await page.locator(".message.assistant:not(.live)").waitFor();
    return frames.calls("chat.send").map(({ attachments }) => attachments.map(({ fileName }) => fileName));
  },

  // Nothing lets an upload through; one is of a file that is no more by then. Returns the
  // names of those that were begun, and what is told.
  async gives_up({ page, args }) {
    const held = [];
    const begun = [];
    await page.route(/api\/chat\/uploads/, (route) => {
      if (route.request().method() === "GET") return held.push(() => route.continue());
      begun.push(new URL(route.request().url()).searchParams.get("fileName"));
      return route.abort();
    });
    await login(page, args);
    await field(page).waitFor();
    await page.locator("input[type=file]").setInputFiles(args.file);
    await until("it is asked what may be uploaded", () => held.length === 1);
    await rm(args.file);
    held[0]();
    const told = page.locator(".toast.bad");
    await told.waitFor();
    await attach(page, "film.mp4", "video/mp4", Buffer.alloc(5_000_000, "film"));
    await until("both are told", async () => (await told.count()) === 2);
    check(await send(page).isEnabled(), "nothing is waited for");
    return [begun, await told.allTextContents()];
  },
});
