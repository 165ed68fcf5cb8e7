// A code that sets up one phone.

import { ago, moment, tick } from "../ago.js";
import { copy } from "../clipboard.js";
import { button, h, openDialog, replace } from "../dom.js";
import { field } from "../fields.js";
import { address } from "../link.js";
import { qr } from "./qr.js";
import { scopeBadges } from "./words.js";

const OWN = ["localhost", "127.0.0.1", "[::1]"];

// As `clawgate qr` writes it: base64url of JSON.
function encode(value) {
  const bytes = new TextEncoder().encode(JSON.stringify(value));
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

function parse(text) {
  const url = URL.canParse(text) ? new URL(text) : null;
  return url && ["ws:", "wss:"].includes(url.protocol) ? url : null;
}

function shown(url, { bootstrapToken, roles, scopes, expiresAtMs }) {
  const code = encode({ url, bootstrapToken });
  return [
    h("div.qr", {}, qr(code, "Setup code")),
    h("p", {}, "Scan it with the app, or enter the code there:"),
    h("pre.setup-code", {}, h("code", { "data-code": "" }, code)),
    h("p.small.muted", {}, "Good for one device as ", roles.join(" and "), ", until ", moment(expiresAtMs), " (", ago(expiresAtMs), ")."),
    h("div.row.wrap", {}, scopeBadges(scopes)),
    h("div.actions", {}, button("Copy the code", { icon: "copy", onclick: () => copy(code, "The code is copied") })),
  ];
}

export async function setUpPhone(link) {
  let end = () => {};
  await openDialog("Set up a phone", (close) => {
    const here = new URL(address());
    const at = field("Address of this gateway, as the phone reaches it", h("input", { value: OWN.includes(here.hostname) ? "" : here.href, placeholder: "wss://gateway.example", maxlength: "400", inputmode: "url", autofocus: true, spellcheck: "false" }),
      "A name or address in your network, or of your tunnel. 127.0.0.1 is the phone itself.");
    const result = h("div.stack", {});
    const submit = async (event) => {
      event.preventDefault();
      const url = parse(at.input.value.trim());
      if (!url) return at.fail("Write it like wss://gateway.example");
      if (OWN.includes(url.hostname)) return at.fail("A phone does not reach this address: it means the phone itself.");
      at.fail();
      try {
        replace(result, shown(url.href, await link.call("device.pair.setupCode")));
        end = tick(result);
      } catch (error) {
        at.fail(error.message);
      }
    };
    return [h("form.stack", { onsubmit: submit, novalidate: true }, at.root, h("div.actions", {}, button("Close", { onclick: () => close() }), h("button.primary", {}, "Make a code"))), result];
  });
  end();
}
