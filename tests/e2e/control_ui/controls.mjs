// What stands around the conversation: sessions, models, thinking, images,
// commands, and messages that wait.
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

  // The menu of commands.
  await input.pressSequentially("/");
  await page.locator(".slash-menu").waitFor();
  await page.locator(".slash-menu-show-more").click();
  told.commands = await page.locator(".slash-menu-name").allInnerTexts();
  await ui.shot("controls-slash");
  await input.fill("");
  // Those that change something: the page reads all anew, and forgets its notes.
  for (const [command, method] of [
    ["/model mock/mock-1", "sessions.patch"],
    ["/think low", "sessions.patch"],
    ["/verbose full", "sessions.patch"],
    ["/fast on", "sessions.patch"],
    ["/compact", "sessions.compact"],
  ]) {
    await ui.change(() => ui.answer(method, () => ui.say(command)));
  }
  // Those that tell something.
  for (const [command, answer] of [
    ["/help", "Available Commands"],
    ["/usage", "Session Usage"],
    ["/model", "Current model: mock-1"],
    ["/think", "Current thinking level: low"],
    ["/verbose", "Current verbose level: full"],
    ["/fast", "Current fast mode: on"],
    ["/agents", "main"],
    ["/kill all", "No active sub-agent sessions found"],
    ["/steer more", "No active run"],
    ["/status", "clawgate"],
    ['/btw @mock text text="An aside."', "An aside."],
    ["/redirect and this?", "Echo: and this?"],
  ]) {
    await ui.say(command);
    const places = page.locator(".chat-group .chat-text, .chat-side-result");
    await places.filter({ hasText: answer }).last().waitFor();
    await ui.rests();
  }
  await ui.shot("controls-commands");

  // A message to a session that is busy waits in the page.
  await ui.say("@mock stream n=30 delay=40");
  await ui.streams("w2 ");
  await ui.say("and then this");
  await page.locator(".chat-queue").getByText("and then this").waitFor();
  await ui.shot("controls-queue");
  await said.filter({ hasText: "Echo: and then this" }).waitFor();
  await ui.rests();

  // One that waits is put into what is running.
  await ui.say("@mock stream n=30 delay=40");
  await ui.streams("w2 ");
  await ui.say("@mock text text=Steered.");
  await ui.answer("chat.send", () =>
    page.locator(".chat-queue").getByRole("button", { name: "Steer" }).click());
  await said.filter({ hasText: "Steered." }).waitFor();
  await ui.rests();
  await page.locator(".chat-queue").waitFor({ state: "detached" });

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

  // What a model thinks is shown where it is asked for.
  await ui.change(() => ui.answer("sessions.patch", () => model.selectOption("mocka/mock-think")));
  await ui.say("/reasoning on");
  await said.filter({ hasText: /[Rr]easoning/ }).last().waitFor();
  await ui.rests();
  await ui.say("@mock think n=5");
  await said.filter({ hasText: "After thinking." }).waitFor();
  await ui.rests();
  await page.locator(".chat-thinking", { hasText: "w1 w2" }).waitFor();
  await ui.shot("controls-thinking");

  // Begun anew.
  page.once("dialog", (dialog) => dialog.accept());
  await ui.answer("sessions.reset", () => ui.say("/clear"));
  await page.getByText("Ready to chat").waitFor();
  await ui.idle();
  return told;
});
