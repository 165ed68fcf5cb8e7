// The gateway at a glance.

import { h, replace } from "../dom.js";
import { duration } from "../format.js";
import { failed } from "../toast.js";

function facts(hello) {
  const { server, snapshot } = hello;
  const rows = [["Version", server.version], ["Up for", duration(snapshot.uptimeMs)], ["Connection", server.connId]];
  return h("table", {}, rows.map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, value))));
}

export const view = {
  id: "overview",
  title: "Overview",
  icon: "overview",
  mount(root, { link }) {
    const body = h("div.grid");
    replace(root, h("div.page", {}, h("header", {}, h("h1", {}, "Overview")), body));
    const load = async () => {
      const status = await link.call("status");
      replace(body, h("section.card", {}, facts(link.hello)), h("section.card.mono", {}, String(status.runtimeVersion ?? "")));
    };
    const end = link.on("ready", () => load().catch(failed));
    load().catch(failed);
    return { leave: end };
  },
};
