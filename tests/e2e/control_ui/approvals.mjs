// Commands that wait for a person: allowed once, denied, allowed for good, and
// decided in another window.
//
// Returns the texts of the questions, and the decisions as they were answered.
import { ControlUi, listen, visit } from "../../node/control-ui.mjs";

export default visit(async ({ page, context, ui, args }) => {
  const said = page.locator(".chat-group.assistant .chat-text");
  const card = page.locator(".exec-approval-card");
  const run = (command, then) => {
    const input = JSON.stringify({ command });
    return ui.say(`@mock tool name=exec args=${input} then="${then}"`);
  };
  const asked = [];
  const decide = async (command, name) => {
    await run(command, `${name} it is.`);
    await card.filter({ hasText: command }).waitFor();
    asked.push((await card.innerText()).split(/\s*\n\s*/));
    await ui.shot(`approval-${asked.length}`);
    await ui.answer("exec.approval.resolve", () => page.getByRole("button", { name }).click());
    await card.waitFor({ state: "detached" });
    await said.filter({ hasText: `${name} it is.` }).waitFor();
    await ui.rests();
  };
  await ui.open();
  await decide("touch once", "Allow once");
  await decide("touch denied", "Deny");
  await decide("touch always", "Always allow");
  await run("touch again", "Without a question.");
  await said.filter({ hasText: "Without a question." }).waitFor();
  await ui.rests();

  const other = await context.newPage();
  listen(other, ui.seen);
  await new ControlUi(other, args, ui.seen).open("/overview");
  await run("mkdir elsewhere", "Decided in another window.");
  await card.filter({ hasText: "mkdir elsewhere" }).waitFor();
  await other.locator(".exec-approval-card").filter({ hasText: "mkdir elsewhere" }).waitFor();
  await other.getByRole("button", { name: "Allow once" }).click();
  await card.waitFor({ state: "detached" });
  await said.filter({ hasText: "Decided in another window." }).waitFor();
  await ui.rests();
  return { asked, answers: ui.answers("exec.approval.resolve").map((frame) => frame.payload) };
});
