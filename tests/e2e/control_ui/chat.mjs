// A conversation: plain, streamed, with a tool, stopped, and seen again after
// the page is loaded anew in the middle of an answer.
//
// Returns the texts of the answers that were stopped or seen again.
import { visit } from "../../node/control-ui.mjs";

export default visit(async ({ page, ui }) => {
  const said = page.locator(".chat-group.assistant .chat-text");
  await ui.open();

  // An answer with Markdown.
  await ui.say('@mock text text="**Bold** and `code`"');
  await said.locator("strong", { hasText: "Bold" }).waitFor();
  await said.locator("code", { hasText: "code" }).waitFor();
  await ui.rests();
  await ui.shot("chat-markdown");

  // An answer that comes in pieces, and is stopped.
  await ui.say("@mock stream n=400 delay=25");
  await ui.streams("w3 ");
  await ui.shot("chat-stream");
  const aborted = await ui.answer("chat.abort", () => page.getByLabel("Stop generating").click());
  await ui.rests();
  const stopped = await said.last().innerText();

  // A tool: its call and what it told, each in a card that opens.
  await ui.say('@mock tool name=read args={"path":"note.txt"} then="It says hello."');
  await said.filter({ hasText: "It says hello." }).waitFor();
  await ui.rests();
  const cards = page.locator(".chat-tool-msg-summary");
  await cards.filter({ hasText: "Tool call" }).filter({ hasText: "read" }).click();
  await page.locator(".chat-tool-card__block-content", { hasText: '"path": "note.txt"' }).waitFor();
  await cards.filter({ hasText: "Tool output" }).click();
  await page.locator(".chat-tool-msg-body", { hasText: "hello from a file" }).waitFor();
  await ui.shot("chat-tools");

  // Loaded anew in the middle of an answer: what was written is there, and goes on.
  await ui.say("@mock stream n=200 delay=30");
  await ui.streams("w5 ");
  await page.reload();
  await ui.connected();
  await ui.streams("w5 ");
  await page.getByLabel("Stop generating").waitFor();
  await ui.shot("chat-reloaded");
  await said.filter({ hasText: "w200" }).waitFor();
  await ui.rests();
  await page.reload();
  await ui.connected();
  await said.filter({ hasText: "w200" }).waitFor();
  const texts = await page.locator(".chat-group .chat-text").allInnerTexts();
  return { aborted, stopped, texts };
});
