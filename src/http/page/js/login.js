// What is shown instead of the views while the gateway does not let this page in.

import { button, h } from "./dom.js";

const command = (text) => h("pre", {}, h("code", {}, text));

function entry(link, label, name) {
  const input = h("input", { type: "password", name, required: true, autocomplete: "current-password", autofocus: true });
  const submit = (event) => {
    event.preventDefault();
    link.login({ [name]: input.value.trim() });
  };
  return h("form.stack", { onsubmit: submit }, h("label.field", {}, label, input), h("button.primary", {}, "Connect"));
}

const again = (link) => button("Try again", { onclick: () => link.login() });
const byToken = (link) => entry(link, "Gateway token", "token");
const byPassword = (link) => entry(link, "Gateway password", "password");
const HINT = "Or let the command line sign you in:";
const withToken = (title) => (link) => [title, byToken(link), h("p.small.muted", {}, HINT), command("clawgate dashboard")];
const withPassword = (title) => (link) => [title, byPassword(link)];

// As the gateway lets in.
function signedOut(link, { mode }) {
  if (mode === "none" || mode === "trusted-proxy") return ["Signed out", button("Connect again", { class: "primary", onclick: () => link.login() })];
  return (mode === "password" ? withPassword : withToken)("Signed out")(link);
}

const noKeys = () => ["This browser keeps no keys for pages", h("p", {}, "Signing in needs a key of the browser (Ed25519) that lasts: Chrome or Edge 137, Firefox 130 or Safari 17 and newer have it, but not in a window that keeps nothing. Use another window or browser.")];

// For each refusal: a title, and what the user can do.
const REFUSALS = {
  SIGNED_OUT: signedOut,
  AUTH_TOKEN_MISSING: withToken("Sign in"),
  AUTH_TOKEN_MISMATCH: withToken("That token is not right"),
  AUTH_PASSWORD_MISSING: withPassword("Sign in"),
  AUTH_PASSWORD_MISMATCH: withPassword("That password is not right"),
  AUTH_DEVICE_TOKEN_MISMATCH: withToken("This browser is not let in any more"),
  // Where pages need no device; a gateway with a password asks for that then.
  DEVICE_IDENTITY_REQUIRED: withToken("Sign in"),
  AUTH_BOOTSTRAP_TOKEN_INVALID: (link) => ["That login link is used up or too old", h("p", {}, "A link works once, for a few minutes. Make another one:"), command("clawgate dashboard"), byToken(link)],
  AUTH_RATE_LIMITED: () => ["Too many tries", h("p", {}, "The gateway waits a while before it listens again. This page goes on by itself.")],
  PAIRING_REQUIRED: (_, { details }) => [
    "Waiting for approval",
    h("div.row", {}, h("span.spin"), h("p", {}, "This browser is new to the gateway. Approve it on a device that is already in, or where the gateway runs:")),
    command(details.requestId ? `clawgate devices approve ${details.requestId}` : "clawgate devices list"),
    h("p.small.muted", {}, "This page goes on by itself then."),
  ],
  CONTROL_UI_ORIGIN_NOT_ALLOWED: (link) => [
    "This address is not allowed",
    h("p", {}, "The gateway does not take pages from here. Add this to gateway.controlUi.allowedOrigins in its config:"),
    command(`"${location.origin}"`),
    again(link),
  ],
  CONTROL_UI_DEVICE_IDENTITY_REQUIRED: () => (isSecureContext ? noKeys() : [
    "This page needs a safe connection",
    h("p", {}, "The browser keeps no key for a page that comes by plain http from another machine. Open it by https, or through a tunnel as localhost:"),
    command(`ssh -L 18789:127.0.0.1:${location.port || 80} ${location.hostname}`),
  ]),
};

// The login as it has to be now.
export function login(link) {
  const refusal = link.refusal;
  const known = REFUSALS[refusal.code];
  const [title, ...rest] = known ? known(link, refusal) : ["The gateway does not let this page in", h("p.notice.bad", {}, `${refusal.message} (${refusal.code})`), again(link)];
  const brand = h("div.brand", {}, h("img", { src: "icon.svg", alt: "", width: "28", height: "28" }), "clawgate");
  return h("main.login", {}, h("div.card", { "data-refusal": refusal.code, role: "status" }, brand, h("h1", {}, title), rest));
}
