// Opens the UI by a link with the token.
import { visit } from "../../node/control-ui.mjs";

export default visit(async ({ page, ui }) => {
  await ui.open("/chat");
  await ui.idle();
  await ui.shot("first");
  return { url: page.url() };
});
