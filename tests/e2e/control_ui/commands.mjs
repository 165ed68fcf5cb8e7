// Commands, and messages to a session that is busy.
//
// Returns {commands}: the menu of commands.
import { visit } from "../../node/control-ui.mjs";

export default visit(async ({ page, ui }) => {
  const said = page.locator(".chat-group.assistant .chat-text");
  const input = page.locator(".agent-chat__input textarea");
  const told = {};
  await ui.open();
  await ui.say("a first message");
  await said.filter({ hasText: "Echo: a first message" }).waitFor();
  await ui.rests();

  // The menu of commands.
  await input.pressSequentially("/");
  await page.locator(".slash-menu").waitFor();
  await page.locator(".slash-menu-show-more").click();
  told.commands = await page.locator(".slash-menu-name").allInnerTexts();
  await ui.shot("commands-slash");
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
  await ui.shot("commands-commands");

  // Of two messages to a session that is busy, one waits in the page, and one is
  // put into what is running.
  const queue = page.locator(".chat-queue");
  await ui.say("@mock stream n=150 delay=40");
  await ui.streams("w2 ");
  await ui.say("and then this");
  await ui.say("@mock text text=Steered.");
  const steered = queue.locator(".chat-queue__item", { hasText: "Steered." });
  await ui.answer("chat.send", () => steered.getByLabel("Steer queued message").click());
  await queue.locator(".chat-queue__badge").waitFor();
  await ui.shot("commands-queue");
  await said.filter({ hasText: "Steered." }).waitFor();
  await said.filter({ hasText: "Echo: and then this" }).waitFor();
  await ui.rests();
  await queue.waitFor({ state: "detached" });

  // What a model thinks is shown where it is asked for.
  const model = page.getByRole("main").getByLabel("Chat model");
  await ui.change(() => ui.answer("sessions.patch", () => model.selectOption("mocka/mock-think")));
  await ui.say("/reasoning on");
  await said.filter({ hasText: /[Rr]easoning/ }).last().waitFor();
  await ui.rests();
  await ui.say("@mock think n=5");
  await said.filter({ hasText: "After thinking." }).waitFor();
  await ui.rests();
  await page.locator(".chat-thinking", { hasText: "w1 w2" }).waitFor();
  await ui.shot("commands-thinking");

  // Begun anew.
  page.once("dialog", (dialog) => dialog.accept());
  await ui.answer("sessions.reset", () => ui.say("/clear"));
  await page.getByText("Ready to chat").waitFor();
  await ui.idle();
  return told;
});
