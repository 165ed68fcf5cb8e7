// The runs of one job.

import { ago } from "../ago.js";
import { button, h, replace } from "../dom.js";
import { compact, duration } from "../format.js";
import { failed } from "../toast.js";
import { statusClass } from "./words.js";

const PAGE = 10;
// A summary is cut to so many characters until it is opened.
const SHORT = 240;

function text(words, kind) {
  if (!words) return null;
  if (words.length <= SHORT) return h("p.run-text", { class: kind }, words);
  const short = h("p.run-text", { class: kind }, `${words.slice(0, SHORT)}…`);
  const more = button("Show all", { class: "plain small", onclick: () => { replace(short, words); more.remove(); } });
  return [short, more];
}

function told(entry) {
  const { delivery, deliveryStatus, deliveryError, usage, model, missed } = entry;
  const facts = [
    missed && "nobody could run it then",
    deliveryStatus === "delivered" && `delivered to ${delivery?.resolved?.channel ?? "its chat"}`,
    deliveryStatus === "not-delivered" && "not delivered",
    model,
    usage?.total_tokens && `${compact(usage.total_tokens)} tokens`,
  ].filter(Boolean);
  return [facts.length > 0 && h("p.small.muted", {}, facts.join(" · ")), deliveryError !== entry.error && text(deliveryError, "bad")];
}

function run(entry) {
  const at = entry.runAtMs ?? entry.ts;
  const session = entry.sessionKey && h("a.small", { href: `#/chat/${encodeURIComponent(entry.sessionKey)}` }, "Open its session");
  const head = h("div.row.wrap", {}, h("span.badge", { class: statusClass(entry.status) }, entry.status), ago(at),
    entry.durationMs !== undefined && h("span.muted", {}, `took ${duration(entry.durationMs)}`), h("span.grow"), session);
  return h("li.run", { "data-status": entry.status }, head, text(entry.error, "bad"), text(entry.summary), told(entry));
}

export class History {
  element = h("section.history", { "aria-label": "Runs" });
  #link;
  #id;
  #wanted = PAGE;

  constructor(link, id) {
    this.#link = link;
    this.#id = id;
    replace(this.element, h("div.row.muted.small", {}, h("span.spin"), "Loading its runs…"));
  }

  async load() {
    try {
      const page = await this.#link.call("cron.runs", { id: this.#id, limit: this.#wanted });
      this.#show(page);
    } catch (error) {
      failed(error);
    }
  }

  #show({ entries, total, hasMore }) {
    if (entries.length === 0) return replace(this.element, h("p.muted.small", {}, "It has not run yet. Run it now to see what it does."));
    const more = () => {
      this.#wanted = Math.min(200, this.#wanted * 2);
      this.load();
    };
    replace(this.element, h("h3", {}, `${total} ${total === 1 ? "run" : "runs"}`), h("ol.runs", {}, entries.map(run)),
      hasMore && this.#wanted < 200 && button("Show more", { class: "plain", onclick: more }));
  }
}
