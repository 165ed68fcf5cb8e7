// What stands around the conversation: sessions, models, thinking, images and
// other files.
//
// Returns what was shown of each.
import { visit } from "../../node/control-ui.mjs";

export default visit(async ({ page, ui }) => {
  const said = page.locator(".chat-group.assistant .chat-text");
  const input = page.locator(".agent-chat__input textarea");
  const main = page.getByRole("main");
  const sessions = main.getByLabel("Chat session");
  const told = {};
  await ui.open();

  // A first message, then a new session, and back by the list.
  await ui.say("the first session");
  await said.filter({ hasText: "Echo: the first session" }).waitFor();
  await ui.rests();
  const made = await ui.answer("sessions.create", () => page.getByLabel("New session").click());
  told.made = made.key;
  await page.waitForURL(`**/chat?session=${encodeURIComponent(made.key)}`);
  await page.getByText("Ready to chat").waitFor();
  await ui.say("the second session");
  await said.filter({ hasText: "Echo: the second session" }).waitFor();
  await ui.rests();
  await sessions.selectOption("agent:main:main");
  await said.filter({ hasText: "Echo: the first session" }).waitFor();
  await ui.idle();
  told.sessions = await sessions.locator("option").evaluateAll((all) => all.map((it) => it.value));
  await sessions.selectOption(made.key);
  await said.filter({ hasText: "Echo: the second session" }).waitFor();
  await ui.idle();

  // Another model, and how much it thinks.
  const model = main.getByLabel("Chat model");
  told.models = await model.locator("option").allInnerTexts();
  const patched = await ui.answer("sessions.patch", () => model.selectOption("mock/mock-2"));
  told.model = patched.entry;
  await ui.idle();
  const thinking = main.getByLabel("Chat thinking level");
  told.levels = await thinking.locator("option").evaluateAll((all) => all.map((it) => it.value));
  await ui.answer("sessions.patch", () => thinking.selectOption("high"));
  await ui.idle();
  await ui.shot("controls-pickers");

  // An image out of the clipboard.
  await input.evaluate(async (node) => {
    const canvas = new OffscreenCanvas(40, 30);
    const paint = canvas.getContext("2d");
    paint.fillStyle = "teal";
    paint.fillRect(0, 0, 40, 30);
    const clipboardData = new DataTransfer();
    clipboardData.items.add(new File([await canvas.convertToBlob()], "dot.png", { type: "image/png" }));
    node.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true }));
  });
  await page.getByAltText("Attachment preview").waitFor();
  await ui.say('@mock text text="A teal image."');
  await said.filter({ hasText: "A teal image." }).waitFor();
  await ui.rests();
  await page.reload();
  await ui.connected();
  await said.filter({ hasText: "A teal image." }).waitFor();
  const image = page.locator(".chat-group.user img.chat-message-image");
  await image.waitFor();
  told.image = await ui.until("the image", () => image.evaluate((node) => node.naturalWidth));
  await ui.idle();
  await ui.shot("controls-image");

  // A file that is no picture.
  await page.locator(".agent-chat__file-input").setInputFiles({
    name: "plan.txt", mimeType: "text/plain", buffer: Buffer.from("the plan"),
  });
  await ui.say("@mock text text=Read.");
  await said.filter({ hasText: "Read." }).waitFor();
  await ui.rests();
  await page.reload();
  await ui.connected();
  await page.locator(".chat-assistant-attachment-card", { hasText: "plan" }).waitFor();
  await ui.idle();
  await ui.shot("controls-file");
  return told;
});
