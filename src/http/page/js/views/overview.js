// The gateway at a glance: how it is, what it does, who is there.

import { button, confirm, h, openDialog, replace } from "../dom.js";
import { bytes, compact, dateTime, duration, relative, time } from "../format.js";
import { plot } from "../plot.js";
import { failed, toast } from "../toast.js";

// How often the numbers are asked for, and how soon after something has happened.
const EVERY_MS = 5000;
const SOON_MS = 300;
const METHODS_SHOWN = 5;

const seconds = (ms) => new Date(ms).toLocaleTimeString();
const micros = (us) => (us >= 1_000_000 ? `${(us / 1e6).toFixed(1)} s` : us >= 1000 ? `${(us / 1000).toFixed(us < 10_000 ? 1 : 0)} ms` : `${Math.round(us)} µs`);
const rate = (value) => (value >= 10 ? compact(value) : String(Math.round(value * 100) / 100));

// What can be done about a part that is not well.
const ADVICE = {
  store: ["Writes are not stored. Make room on the disk of the state directory, and see the ", ["logs", "log"], "."],
  log: ["Make the folder of the log file writable, or choose another one in the ", ["config", "config"], " (logging.file)."],
  tasks: ["A defect of the gateway. Restart it, and report what the ", ["logs", "log"], " says."],
  config: ["Mend the file in the ", ["config", "config editor"], "."],
  channels: ["Check the account's token in the ", ["config", "config"], ", and the network."],
  cron: ["See the runs of the job in ", ["cron", "Cron"], "."],
  models: ["Add a credential to the ", ["config", "config"], ", or run: clawgate models auth add"],
};

const PLOTS = [
  { title: "Connections", series: ["Connections"], whole: true, read: (sample) => [sample.connections] },
  { title: "Runs", series: ["Active", "Waiting"], whole: true, read: (sample) => [sample.activeRuns, sample.waitingRuns] },
  { title: "Latency of requests", series: ["p50", "p95", "p99"], format: micros, read: (sample) => [sample.p50Us, sample.p95Us, sample.p99Us] },
  { title: "Requests and events per second", series: ["Requests", "Events"], format: rate, read: (sample) => [perSecond(sample, sample.requests), perSecond(sample, sample.events)] },
  { title: "Memory", series: ["Resident"], format: bytes, read: (sample) => [sample.rssBytes] },
];

const perSecond = ({ durationMs }, count) => (durationMs > 0 ? (count * 1000) / durationMs : null);
const badge = (kind, text) => h("span.badge", { class: kind }, text);
const link = (view, text) => h("a", { href: `#/${view}` }, text);
const section = (title, ...parts) => h("section.card", {}, h("h2", {}, title), parts);

// Whoever is at a control by keyboard stays there.
function update(box, children) {
  const controls = () => [...box.querySelectorAll("a, [tabindex]")];
  const at = controls().indexOf(document.activeElement);
  replace(box, children);
  controls()[at]?.focus();
}

function mount(root, { link: gateway }) {
  const stats = h("dl.stats.card", { "aria-label": "Now" });
  const notices = h("div.stack");
  const [health, methods, channels, models, presence] = Array.from({ length: 5 }, () => h("div"));
  const plots = PLOTS.map((one) => ({ ...one, plot: plot({ kind: "lines", rows: [], tick: time, label: seconds, ...one }) }));
  const restart = button("Restart gateway", { icon: "refresh", onclick: () => askRestart(gateway).catch(failed) });
  const cards = plots.map(({ plot }) => h("section.card", {}, plot.element));
  const charts = h("div.grid.wide.even", {}, cards, section("Slowest methods", methods));
  const lists = h("div.grid.wide", {}, section("Parts", health), h("div.stack", {}, section("Models", models), section("Channels", channels), section("Who is here", presence)));
  replace(root, h("div.page", {}, h("header", {}, h("h1", {}, "Overview"), restart), notices, stats, charts, lists));

  let samples = [];
  let since = 0;
  let timer = null;
  let isOver = false;

  // A gateway that has begun again has another history.
  async function measure() {
    const from = since;
    clearTimeout(timer);
    timer = null;
    try {
      const told = await gateway.call("gateway.metrics", from ? { since: from } : {});
      // Meanwhile another answer may have told of the same, or all is begun anew.
      if (isOver || from !== since) return;
      samples = [...samples, ...told.samples].slice(-told.capacity);
      since = samples.at(-1)?.ts ?? 0;
      // What is now ends the lines; a moment is too short for a rate.
      const rows = [...samples, told.now];
      for (const { plot, read } of plots) plot.show(rows.map((sample) => ({ at: sample.ts, values: read(sample) })));
      update(methods, slowest(told.methods));
      update(stats, now(told, samples, gateway.hello));
    } catch (error) {
      failed(error);
    } finally {
      if (!isOver) timer ??= setTimeout(measure, EVERY_MS);
    }
  }

  const soon = () => {
    clearTimeout(timer);
    timer = setTimeout(measure, SOON_MS);
  };
  const showHealth = (told) => {
    update(health, parts(told));
    update(channels, accounts(told));
    update(notices, warnings(told));
  };
  const showPresence = (told) => {
    update(presence, beacons(told.presence));
    soon();
  };
  async function load() {
    [samples, since] = [[], 0];
    measure();
    const [told, list, auth, status] = await Promise.all(["health", "system-presence", "models.authStatus", "status"].map((method) => gateway.call(method, method === "health" ? { probe: true } : {})));
    if (isOver) return;
    showHealth(told);
    showPresence({ presence: list });
    replace(models, credentials(status, auth));
  }

  const begin = () => load().catch(failed);
  const ends = [gateway.on("ready", begin), gateway.on("gap", begin), gateway.on("health", showHealth), gateway.on("presence", showPresence)];
  begin();
  return {
    leave() {
      isOver = true;
      clearTimeout(timer);
      for (const end of ends) end();
    },
  };
}

function now({ now, uptimeMs, log }, samples, hello) {
  const one = (name, value, more) => h("div.stat", {}, h("dt", {}, name), h("dd", {}, value, more && h("span.small.muted", {}, more)));
  const latency = now.p95Us ?? samples.findLast((sample) => sample.p95Us !== null)?.p95Us ?? null;
  const [original, own] = hello.server.version.split("+");
  return [
    one("Connections", String(now.connections)),
    one("Runs", String(now.activeRuns), `${now.waitingRuns} waiting`),
    one("Latency p95", latency === null ? "–" : micros(latency)),
    one("Memory", now.rssBytes === null ? "–" : bytes(now.rssBytes)),
    one("Up for", duration(uptimeMs)),
    one("Warnings", String(log.warnings + log.errors), log.errors > 0 ? link("logs", `${log.errors} of them errors`) : link("logs", "in the log")),
    one("Version", own.replace("clawgate.", ""), `speaks ${original}`),
  ];
}

function warnings({ configIssue, restartPending }) {
  return [
    configIssue && h("p.notice.bad", {}, "The config file is not valid, the one before it stays in use: ", h("code", {}, configIssue.path || "the file"), `: ${configIssue.message}. `, link("config", "Mend it"), "."),
    restartPending?.length > 0 && h("p.notice.warn", {}, "These settings are used after a restart: ", restartPending.map((path, index) => [index > 0 && ", ", h("code", {}, path)]), "."),
  ];
}

function advice(name) {
  return (ADVICE[name] ?? []).map((part) => (Array.isArray(part) ? link(...part) : part));
}

const FACTS = {
  runs: (part) => `${part.active} active, ${part.waiting} waiting, ${part.ended?.succeeded ?? 0} answered, ${part.ended?.failed ?? 0} failed`,
  tasks: (part) => `${part.alive} running`,
  config: (part) => (part.pending ? "another one than in use" : "in use"),
  channels: (part) => `${part.accounts} accounts`,
  cron: (part) => (part.enabled ? `${part.jobs ?? 0} jobs` : "off"),
  models: (part) => part.default,
  nodes: (part) => `${part.connected} connected`,
  memory: (part) => `${bytes(part.rssBytes)}, at most ${bytes(part.peakRssBytes)}`,
};

function parts({ services }) {
  const order = Object.entries(services).sort(([, a], [, b]) => a.ok - b.ok);
  const row = ([name, part]) => {
    const facts = FACTS[name]?.(part);
    const wrong = part.ok ? null : [h("div.bad", {}, part.error), h("div.muted", {}, "Since ", h("time", { title: dateTime(part.since) }, `${dateTime(part.since)} (${relative(part.since)})`), ". ", advice(name))];
    return h("tr", { "data-part": name }, h("th", { scope: "row" }, name), h("td", {}, part.ok ? badge("good", "well") : badge("bad", "degraded")), h("td", {}, wrong ?? facts));
  };
  return h("table.facts", {}, h("tbody", {}, order.map(row)));
}

function accounts({ channelOrder = [], channels = {}, channelLabels = {} }) {
  if (channelOrder.length === 0) return h("p.muted.small", {}, "No channel is configured. Telegram and webhooks are set up in the ", link("config", "config"), ".");
  const state = (row) => {
    if (row.lastError) return badge("bad", "fails");
    if (!row.enabled && row.enabled !== undefined) return badge("", "off");
    if (row.connected === false) return badge("warn", "not connected");
    return row.running ? badge("good", "running") : badge("", "stopped");
  };
  return h("table.facts", {}, h("tbody", {}, channelOrder.map((name) => h("tr", {}, h("th", { scope: "row" }, channelLabels[name] ?? name), h("td", {}, state(channels[name] ?? {})), h("td", {}, channels[name]?.lastError)))));
}

const HEALTH = { ok: "good", static: "good", expiring: "warn", expired: "bad", missing: "bad" };
const WORDS = { ok: "signed in", static: "key stored", expiring: "expires soon", expired: "expired", missing: "missing" };

function credentials({ model }, { providers }) {
  const rows = providers.map(({ provider, displayName, status, expiry }) =>
    h("tr", {}, h("th", { scope: "row" }, displayName ?? provider), h("td", {}, badge(HEALTH[status], WORDS[status] ?? status)), h("td", {}, expiry?.at && `until ${dateTime(expiry.at)}`)),
  );
  const none = h("p.muted.small", {}, "No credential is stored; keys of the environment and of the config are used where there are any.");
  return [h("p", {}, "Answers by default: ", h("code", {}, model.primary)), rows.length > 0 ? h("table.facts", {}, h("tbody", {}, rows)) : none];
}

function beacons(list) {
  const row = (beacon) =>
    h("tr", {}, h("th", { scope: "row" }, beacon.host ?? beacon.instanceId ?? "unnamed"), h("td", {}, [beacon.mode, beacon.platform, beacon.version].filter(Boolean).join(" · ")), h("td.nowrap", {}, relative(beacon.ts)));
  return h("div.scroll", { tabindex: "0", role: "region", "aria-label": "Who is here" }, h("table.facts", {}, h("tbody", {}, list.map(row))));
}

function slowest(methods) {
  const own = methods.filter(({ waits }) => !waits).sort((a, b) => b.p95Us - a.p95Us);
  const row = ({ method, count, p50Us, p95Us, p99Us }) => h("tr", {}, h("th.mono", { scope: "row" }, method), [compact(count), micros(p50Us), micros(p95Us), micros(p99Us)].map((text) => h("td.number", {}, text)));
  const names = ["Method", "Calls", "p50", "p95", "p99"].map((name, index) => h("th", { scope: "col", class: index > 0 ? "number" : null }, name));
  const table = h("table", {}, h("thead", {}, h("tr", {}, names)), h("tbody", {}, own.slice(0, METHODS_SHOWN).map(row)));
  return [h("div.scroll", { tabindex: "0", role: "region", "aria-label": "Slowest methods" }, table), h("p.small.muted", {}, "Since the start. Methods that wait for people, models or nodes are left out.")];
}

async function askRestart(gateway) {
  const { safe, summary, blockers } = await gateway.call("gateway.restart.preflight");
  const text = safe ? "Nothing runs at the moment. Connections come back by themselves." : "What runs may end first; then the gateway begins again.";
  const isWanted = safe
    ? await confirm("Restart the gateway?", text, "Restart")
    : await openDialog("Restart the gateway?", (close) => [
        h("p", {}, text),
        h("ul", {}, (blockers ?? []).map(({ message }) => h("li", {}, message))),
        h("div.actions", {}, button("Cancel", { onclick: () => close(false) }), button("Restart when idle", { class: "danger", onclick: () => close(true) })),
      ]);
  if (!isWanted) return;
  const { status } = await gateway.call("gateway.restart.request", { reason: "asked for on the page" });
  toast(status === "deferred" ? `Restart follows: ${summary}` : "The gateway begins again…");
}

export const view = { id: "overview", title: "Overview", icon: "overview", mount };
