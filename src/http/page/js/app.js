// The page: login, navigation, one view at a time.

import { Approvals } from "./approvals.js";
import { writingsOf } from "./chat/writing.js";
import { Device } from "./device.js";
import { button, h, icon, openDialog, replace } from "./dom.js";
import { Link } from "./link.js";
import { login } from "./login.js";
import { local, recallText, rememberText } from "./store.js";
import { toast } from "./toast.js";
import { view as chat } from "./views/chat.js";
import { view as config } from "./views/config.js";
import { view as cron } from "./views/cron.js";
import { view as devices } from "./views/devices.js";
import { view as logs } from "./views/logs.js";
import { view as overview } from "./views/overview.js";
import { view as sessions } from "./views/sessions.js";
import { view as usage } from "./views/usage.js";

// In the order of the navigation; the first one is shown when none is named.
const VIEWS = [chat, sessions, cron, devices, usage, overview, logs, config];

// So many are in the navigation of a phone; the others are behind one more.
const ON_PHONES = 4;

const STATES = { connecting: "Connecting…", open: "Connected", lost: "Reconnecting…", refused: "Signed out" };
const THEME = "clawgate.theme";
const THEMES = ["auto", "light", "dark"];

function applyTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

// Somebody may have typed it.
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return "";
  }
}

// `#/view/rest`: the view, and what it is to show, decoded.
function place() {
  const [, id = "", ...rest] = location.hash.split("/");
  return { view: VIEWS.find((view) => view.id === id) ?? VIEWS[0], rest: decoded(rest.join("/")) };
}

class Shell {
  #link;
  #root;
  #main = h("main", { tabindex: "-1", id: "main" });
  #links = new Map();
  #more;
  #foot;
  #state = h("span", {});
  #dot = h("span.dot");
  #offline = h("div.offline", { role: "status", hidden: true }, h("span.spin"), "The connection to the gateway was lost. Trying again…");
  #shown = null;
  #leave = null;
  #approvals = null;
  #watches = [];

  constructor(root, link) {
    this.#root = root;
    this.#link = link;
    addEventListener("hashchange", () => this.#show());
    link.on("state", () => this.#follow());
    // What waits is sent whichever view is shown.
    writingsOf(link);
    this.#follow();
  }

  // What views work with: `link`, `toast(text, kind)`, `go(view, rest)` and
  // `count(view, number)`, a number beside a view's name, 0 for none.
  #app() {
    return {
      link: this.#link,
      toast,
      go: (id, rest = "") => {
        location.hash = `#/${id}${rest ? `/${encodeURIComponent(rest)}` : ""}`;
      },
      count: (id, number) => {
        const badge = this.#links.get(id)?.querySelector(".count");
        if (badge) replace(badge, number > 0 ? h("span.badge.accent", {}, String(number)) : null);
      },
    };
  }

  #follow() {
    const { state } = this.#link;
    replace(this.#state, STATES[state]);
    this.#dot.className = `dot ${state === "open" ? "good" : state === "refused" ? "bad" : ""}`;
    this.#offline.hidden = state !== "lost";
    // A view stays while the connection comes back, and takes up where it was.
    if (state === "refused") {
      this.#close(login(this.#link));
      // Nothing stays for the next one who signs in.
      if (this.#link.refusal.code === "SIGNED_OUT") for (const view of VIEWS) view.forget?.(this.#link);
      return;
    }
    if (state === "open" && !this.#shown) this.#open();
  }

  #close(instead) {
    for (const box of document.querySelectorAll("dialog[open]")) box.close();
    this.#leave?.();
    this.#approvals?.end();
    for (const end of this.#watches.splice(0)) end();
    this.#leave = this.#shown = this.#approvals = null;
    replace(this.#root, instead);
    // `autofocus` is for the first one of a document.
    this.#root.querySelector("input")?.focus();
  }

  #open() {
    const item = (view, at) => {
      // Where a session is shown there is nothing to do, also not for Back.
      const onclick = (event) => {
        if (view === chat && location.hash.startsWith("#/chat/") && !(event.ctrlKey || event.metaKey || event.shiftKey)) event.preventDefault();
      };
      const link = h("a", { class: at < ON_PHONES ? null : "rest", href: `#/${view.id}`, onclick }, icon(view.icon), view.title, h("span.count"));
      this.#links.set(view.id, link);
      return link;
    };
    const theme = button("Theme", { class: "plain", icon: "theme", onclick: () => this.#nextTheme() });
    const leave = button("Sign out", { class: "plain", icon: "close", onclick: () => this.#link.logout() });
    const state = h("div.link-state", { role: "status" }, this.#dot, this.#state);
    const brand = h("div.brand", {}, h("img", { src: "icon.svg", alt: "" }), "clawgate");
    this.#approvals = new Approvals(this.#app());
    this.#foot = h("div.nav-foot", {}, state, h("div.row.wrap", {}, theme, leave));
    this.#more = button("More", { icon: "more", class: "plain", onclick: () => this.#showMore() });
    const nav = h("nav.nav", { "aria-label": "Views" }, brand, VIEWS.map(item), this.#more, this.#foot);
    replace(this.#root, h("div.shell", {}, nav, h("div.column", {}, this.#approvals.element, this.#offline, this.#main)));
    // What a view tells beside its name while another one is shown.
    this.#watches = VIEWS.map((view) => view.watch?.(this.#app())).filter(Boolean);
    this.#show();
  }

  // What a phone has no room for below.
  async #showMore() {
    await openDialog("More", (close) => {
      const link = ({ id, title, icon: name }) => h("a.button", { href: `#/${id}`, onclick: () => close(), "aria-current": this.#shown.view.id === id ? "page" : null }, icon(name), title);
      return [h("div.stack.menu", { style: { marginTop: "0.75rem" } }, VIEWS.slice(ON_PHONES).map(link)), this.#foot, h("div.actions", {}, button("Close", { onclick: () => close() }))];
    });
    this.#more.parentElement.append(this.#foot);
  }

  #nextTheme() {
    const now = document.documentElement.dataset.theme ?? "auto";
    const next = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length];
    applyTheme(next);
    rememberText(local, THEME, next);
    toast(`Theme: ${next}`);
  }

  #show() {
    if (!this.#main.isConnected) return;
    const { view, rest } = place();
    // A view that can go to another place of its own stays.
    if (this.#shown?.view === view && this.#shown.go) return this.#shown.go(rest);
    this.#leave?.();
    for (const [id, link] of this.#links) {
      if (id === view.id) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    if (VIEWS.indexOf(view) < ON_PHONES) this.#more.removeAttribute("aria-current");
    else this.#more.setAttribute("aria-current", "true");
    document.title = `${view.title} · clawgate`;
    const root = h("div", { style: { display: "contents" } });
    replace(this.#main, root);
    const { leave, go } = view.mount(root, this.#app(), rest) ?? {};
    this.#shown = { view, go };
    this.#leave = leave;
    this.#main.scrollTop = 0;
  }
}

applyTheme(recallText(local, THEME) ?? "auto");
const link = new Link(await Device.load());
new Shell(document.getElementById("app"), link);
link.start();
