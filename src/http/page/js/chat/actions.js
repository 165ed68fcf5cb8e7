// What can be done to a session: rename, reset, compact, delete.

import { button, confirm, h, openDialog } from "../dom.js";
import { title } from "../sessions.js";
import { failed, toast } from "../toast.js";

const LABEL_MAX = 512;

async function rename(link, row) {
  const label = await openDialog("Rename session", (close) => {
    const input = h("input", { value: row.label ?? "", maxlength: String(LABEL_MAX), autofocus: true, placeholder: title(row) });
    const submit = (event) => {
      event.preventDefault();
      close(input.value.trim());
    };
    return h("form.stack", { onsubmit: submit, style: { marginTop: "0.75rem" } }, h("label.field", {}, "Name", input), h("div.actions", {}, button("Cancel", { onclick: () => close() }), h("button.primary", {}, "Rename")));
  });
  if (label !== undefined) await link.call("sessions.patch", { key: row.key, label: label || null });
}

async function reset(link, row) {
  if (await confirm("Reset session", "It begins anew and empty. What was said so far is put away on the gateway's disk and no longer shown.", "Reset")) await link.call("sessions.reset", { key: row.key });
}

async function compact(link, row) {
  toast("Summing up…");
  const { compacted, reason } = await link.call("sessions.compact", { key: row.key }, { limitMs: 300_000 });
  toast(compacted ? "What is long ago was summed up for the model." : `Not compacted: ${reason}.`);
}

// Deletes a session; true when it was.
export async function remove(link, row) {
  if (!(await confirm("Delete session", `“${title(row)}” is deleted; its transcript is put away on the gateway's disk.`, "Delete"))) return false;
  await link.call("sessions.delete", { key: row.key });
  return true;
}

// Opens the menu of a session. told: {deleted()}.
export async function sessionMenu(link, row, told) {
  const isMain = row.key === link.hello.snapshot.sessionDefaults?.mainSessionKey;
  const action = await openDialog(title(row), (close) => [
    h("p.small.muted.mono", { style: { overflowWrap: "anywhere", margin: "0.35rem 0 0.75rem" } }, row.key),
    h("div.stack.menu", {}, button("Rename", { icon: "edit", onclick: () => close("rename") }), button("Compact: sum up what is long ago", { icon: "down", onclick: () => close("compact") }), button("Reset: begin anew", { icon: "refresh", onclick: () => close("reset") }), isMain ? null : button("Delete", { icon: "trash", class: "danger", onclick: () => close("delete") })),
    h("div.actions", {}, button("Close", { onclick: () => close() })),
  ]);
  try {
    if (action === "rename") await rename(link, row);
    else if (action === "reset") await reset(link, row);
    else if (action === "compact") await compact(link, row);
    else if (action === "delete" && (await remove(link, row))) told.deleted();
  } catch (error) {
    failed(error);
  }
}
