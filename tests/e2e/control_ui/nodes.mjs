// What may run here and on a node, who is bound to it, and who is let in.
import { visit } from "../../node/control-ui.mjs";

export default visit(async ({ page, ui }) => {
  const card = (title) => page.locator(".card")
    .filter({ has: page.locator(".card-title", { hasText: title }) });
  const item = (title, within) => within.locator(".list-item")
    .filter({ has: page.locator(".list-title", { hasText: title }) });
  const button = (name, within) => within.getByRole("button", { name, exact: true });
  const choice = (title, within) => item(title, within).locator("select").last();
  const dialogs = [];
  page.on("dialog", (dialog) => {
    dialogs.push(dialog.message());
    dialog.accept();
  });

  await ui.open("/nodes");
  const approvals = card("Exec approvals");
  await choice("Security", approvals).waitFor();
  await ui.idle();
  await choice("Security", approvals).selectOption("allowlist");
  await choice("Ask fallback", approvals).selectOption("allowlist");
  await ui.saved("exec.approvals.set", () => button("Save", approvals).click());
  await button("main", approvals).click();
  await button("Add pattern", approvals).click();
  await item("New pattern", approvals).locator("input").fill("/usr/bin/git");
  await ui.saved("exec.approvals.set", () => button("Save", approvals).click());
  await item("/usr/bin/git", approvals).getByText("Last used: never").waitFor();
  await ui.shot("nodes-approvals");

  // The same of the node, which is asked for it.
  await choice("Target", approvals).selectOption("node");
  await button("Load approvals", approvals).click();
  await button("Defaults", approvals).click();
  await choice("Security", approvals).selectOption("full");
  await ui.saved("exec.approvals.node.set", () => button("Save", approvals).click());

  const binding = card("Exec node binding");
  await choice("main", binding).selectOption({ label: await label(binding) });
  await ui.saved("config.set", () => button("Save", binding).click());
  await item("main", binding).getByText(/override: [0-9a-f]{64}/).waitFor();
  await ui.shot("nodes-binding");

  // Who asks is shown at once.
  const devices = card("Devices");
  await button("Approve", item("Phone", devices)).click();
  await item("Phone", devices).getByText("Tokens").waitFor();
  await button("Reject", item("Stranger", devices)).click();
  await item("Stranger", devices).waitFor({ state: "detached" });
  await ui.answer("device.token.rotate", () => button("Rotate", item("Laptop", devices)).click());
  await ui.answer("device.token.revoke", () => button("Revoke", item("Laptop", devices)).click());
  await item("Laptop", devices).getByText("revoked").waitFor();
  await ui.idle();
  await ui.shot("nodes-devices");
  const nodes = await item("Builder", card("Nodes")).locator(".chip").allInnerTexts();
  return { dialogs, nodes };
});

async function label(binding) {
  const options = await binding.locator("select").first().locator("option").allInnerTexts();
  return options.map((it) => it.trim()).find((it) => it.startsWith("Builder"));
}
