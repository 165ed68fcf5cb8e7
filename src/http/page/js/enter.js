// The page behind a login link, `login#code=…`, with `&ui=control` when it is for
// the Control UI: it gives the code for a token of a key of this browser, and
// goes on. The code is in no entry of the history that anybody can come back to,
// and in no storage.

const given = new URLSearchParams(location.hash.slice(1));
// Before all else, so nothing is imported above.
history.replaceState(null, "", location.pathname);

const { Device } = await import("./device.js");
const { ControlDevice, pointAt } = await import("./control_device.js");
const { button, h, replace } = await import("./dom.js");
const { Link } = await import("./link.js");
const { login } = await import("./login.js");
const { local, recallText } = await import("./store.js");

const root = document.getElementById("app");
const code = given.get("code");
const isControl = given.get("ui") === "control";
const target = new URL(isControl ? "../" : "./", location.href).href;
const NEW_LINK = "clawgate dashboard";

const theme = recallText(local, "clawgate.theme");
if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;

function card(name, title, ...rest) {
  const brand = h("div.brand", {}, h("img", { src: "icon.svg", alt: "", width: "28", height: "28" }), "clawgate");
  replace(root, h("main.login", {}, h("div.card", { "data-login": name, role: "status" }, brand, h("h1", {}, title), rest)));
}

const command = (text) => h("pre", {}, h("code", {}, text));
const onward = (href, label) => h("a.button", { href }, label);

// What this browser has without a link, and the way out of it.
async function idle() {
  const [own, control] = await Promise.all([Device.load(), ControlDevice.load()]);
  const [hasOwn, hasControl] = await Promise.all([own?.token(), control?.token()]);
  const leave = async () => {
    await control.forget();
    await idle();
  };
  card(
    "idle",
    hasOwn || hasControl ? "This browser is signed in" : "This address has no login in it",
    h("div.row.wrap", {},
      hasOwn ? onward("./", "Open clawgate") : null,
      hasControl ? [onward("../", "Open the Control UI"), button("Sign the Control UI out", { onclick: leave })] : null),
    h("p", {}, "To sign a browser in, make a link where the gateway runs, and open it there:"),
    command(NEW_LINK),
  );
}

// A link that is used up is no reason to lock out a browser that is in.
async function refused(link, device) {
  const isIn = await device.token();
  replace(root, login(link));
  if (isIn) root.querySelector("h1").after(h("p", {}, "This browser was signed in before:"), onward(target, "Go on without a link"));
}

async function enter() {
  const device = await (isControl ? ControlDevice : Device).load({ makes: true });
  if (!device) {
    replace(root, login({ refusal: { code: "CONTROL_UI_DEVICE_IDENTITY_REQUIRED" } }));
    return root.querySelector(".card").append(h("p", {}, "The code of the link was not used: it still works."));
  }
  const link = new Link(device, { bootstrapToken: code });
  link.on("state", (state) => {
    if (state === "connecting") card("connecting", "Signing in…", h("div.row", {}, h("span.spin"), h("p", {}, "One moment.")));
    else if (state === "lost") card("lost", "Signing in…", h("div.row", {}, h("span.spin"), h("p", {}, "The gateway does not answer. Trying again…")));
    else if (state === "refused") refused(link, device);
  });
  link.on("ready", () => {
    if (isControl) pointAt(target);
    location.replace(target);
  });
  link.start();
}

await (code ? enter() : idle());
