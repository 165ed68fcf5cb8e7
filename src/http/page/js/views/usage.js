// What models used: tokens and prices, over days.

import { button, h, replace } from "../dom.js";
import { compact, dateTime, money } from "../format.js";
import { SERIES_MAX, plot } from "../plot.js";
import { failed } from "../toast.js";

const RANGES = [7, 30, 90];
// Most sessions that the gateway tells of at a time.
const SESSIONS_MAX = 1000;
const TOP_SESSIONS = 10;
// More days are put together to weeks, more weeks to months.
const DAYS_MAX = 100;
const WEEKS_MAX = 100;
const DAY_MS = 86_400_000;
// The gateway reads transcripts that have changed; then it tells more.
const REFRESH_MS = 1500;

const KINDS = { model: "Model", kind: "Kind of token", agent: "Agent", channel: "Channel", session: "Session" };
const TOKENS = [["Input", "input"], ["Output", "output"], ["Cache read", "cacheRead"], ["Cache write", "cacheWrite"]];

// Days are those of whoever looks at them.
const dayOf = (ms) => new Date(ms - new Date(ms).getTimezoneOffset() * 60_000).toISOString().slice(0, 10);
const shortDay = (day) => new Date(`${day}T12:00:00`).toLocaleDateString(undefined, { day: "numeric", month: "short" });
const longDay = (day) => new Date(`${day}T12:00:00`).toLocaleDateString(undefined, { dateStyle: "medium" });

function offset() {
  const minutes = -new Date().getTimezoneOffset();
  const rest = Math.abs(minutes) % 60;
  return `UTC${minutes < 0 ? "-" : "+"}${Math.floor(Math.abs(minutes) / 60)}${rest ? `:${String(rest).padStart(2, "0")}` : ""}`;
}

function days(from, to) {
  const found = [];
  for (let at = Date.parse(from); at <= Date.parse(to); at += DAY_MS) found.push(new Date(at).toISOString().slice(0, 10));
  return found;
}

// Rows of {day, name, tokens, cost}, by what they are told apart.
const SPLITS = {
  model: ({ usage }) => usage.aggregates.modelDaily.map(({ date, provider, model, tokens, cost }) => ({ day: date, name: `${provider}/${model}`, tokens, cost })),
  kind: ({ cost }) => cost.daily.flatMap((row) => TOKENS.map(([name, key]) => ({ day: row.date, name, tokens: row[key], cost: row[`${key}Cost`] }))),
  agent: (told) => perSession(told, (session) => session.agentId ?? "main"),
  channel: (told) => perSession(told, (session) => session.channel ?? "no channel"),
  session: (told) => perSession(told, nameOf),
};

// Sessions of other agents may be called the same.
const nameOf = ({ label, key, agentId }) => (label ? `${label}${agentId === "main" ? "" : ` (${agentId})`}` : key);

function perSession({ usage }, name) {
  return usage.sessions.flatMap((session) => (session.usage?.dailyBreakdown ?? []).map(({ date, tokens, cost }) => ({ day: date, name: name(session), tokens, cost })));
}

// What a plot shows of such rows: names, the most first, and values by day.
export function arrange(rows, from, to, unit) {
  const sums = new Map();
  for (const row of rows) sums.set(row.name, (sums.get(row.name) ?? 0) + row[unit]);
  const names = [...sums.keys()].sort((a, b) => sums.get(b) - sums.get(a));
  const own = names.length > SERIES_MAX ? names.slice(0, SERIES_MAX - 1) : names;
  const series = own.length < names.length ? [...own, `${names.length - own.length} others`] : own;
  const place = new Map(names.map((name, index) => [name, Math.min(index, series.length - 1)]));
  const all = days(from, to);
  const size = all.length <= DAYS_MAX ? "day" : all.length <= WEEKS_MAX * 7 ? "week" : "month";
  const first = { day: (day) => day, week: (day) => all[Math.floor(all.indexOf(day) / 7) * 7], month: (day) => `${day.slice(0, 7)}-01` }[size];
  const points = new Map();
  for (const day of all) if (!points.has(first(day))) points.set(first(day), { at: first(day), values: series.map(() => 0) });
  for (const row of rows) {
    const point = points.get(first(row.day));
    if (point) point.values[place.get(row.name)] += row[unit];
  }
  return { series, rows: [...points.values()], size };
}

// A cell that a spreadsheet does not take for a formula.
function cell(value) {
  const text = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function download(name, lines) {
  const url = URL.createObjectURL(new Blob([lines.map((line) => line.map(cell).join(",")).join("\r\n"), "\r\n"], { type: "text/csv" }));
  h("a", { href: url, download: name }).click();
  URL.revokeObjectURL(url);
}

function mount(root, { link }) {
  let [to, range, by, unit, told] = [dayOf(Date.now()), 30, "model", "tokens", null];
  let from = dayOf(Date.now() - (range - 1) * DAY_MS);
  let again = null;
  let asked = 0;

  const state = h("div", { role: "status" });
  const body = h("div.stack");
  const pick = (days) => {
    range = days;
    [from, to] = [dayOf(Date.now() - (days - 1) * DAY_MS), dayOf(Date.now())];
    load();
  };
  const ranges = RANGES.map((days) => button(`${days} days`, { onclick: () => pick(days) }));
  const own = () => {
    if (!first.value || !last.value) return;
    [from, to] = [first.value, last.value].sort();
    range = null;
    load();
  };
  const first = h("input", { type: "date", onchange: own });
  const last = h("input", { type: "date", onchange: own });
  const choose = (label, options, value, change) =>
    h("label.choice", {}, label, h("select", { onchange: (event) => change(event.target.value) }, Object.entries(options).map(([id, name]) => h("option", { value: id, selected: id === value }, name))));
  const csv = button("Download CSV", { icon: "down", onclick: save });
  const dates = h("div.row.wrap", {}, h("div.row", { role: "group", "aria-label": "Range" }, ranges), h("label.choice", {}, "From", first), h("label.choice", {}, "to", last));
  replace(root, h("div.page", {}, h("header", {}, h("h1", {}, "Usage"), csv), dates, state, body));

  const chart = plot({ title: "Tokens", kind: "bars", series: [], rows: [], tick: shortDay, label: longDay, format: (value) => (unit === "cost" ? money(value) : compact(value)), spoken: (value) => (unit === "cost" ? money(value) : `${value} tokens`) });
  const caption = chart.element.querySelector("h2");
  const choices = h(
    "div.row.wrap",
    {},
    choose("Show", { tokens: "Tokens", cost: "Cost" }, unit, (value) => ((unit = value), draw())),
    choose("by", KINDS, by, (value) => ((by = value), draw())),
  );
  chart.element.querySelector("figcaption").append(choices);

  async function load() {
    clearTimeout(again);
    const mine = ++asked;
    ranges.forEach((item, index) => item.setAttribute("aria-pressed", String(RANGES[index] === range)));
    [first.value, last.value] = [from, to];
    replace(state, told ? null : h("div.row.muted", {}, h("span.spin"), "Reading transcripts…"));
    const params = { startDate: from, endDate: to, mode: "specific", utcOffset: offset() };
    try {
      const [usage, cost] = await Promise.all([link.call("sessions.usage", { ...params, limit: SESSIONS_MAX }), link.call("usage.cost", params)]);
      if (mine !== asked) return;
      told = { usage, cost };
      draw();
      if ([usage, cost].some((part) => part.cacheStatus?.status === "refreshing")) again = setTimeout(load, REFRESH_MS);
    } catch (error) {
      if (mine !== asked) return;
      replace(state, h("p.notice.bad", {}, error.message));
      failed(error);
    }
  }

  function draw() {
    if (!told) return;
    const { usage, cost } = told;
    const shown = arrange(SPLITS[by](told), from, to, unit);
    const words = { tokens: "Tokens", cost: "Cost" };
    caption.textContent = `${words[unit]} per ${shown.size} by ${KINDS[by].toLowerCase()}`;
    chart.show(shown.rows, shown.series);
    const refreshing = usage.cacheStatus?.status === "refreshing";
    const unread = Math.max(...[usage, cost].map((part) => part.cacheStatus?.failedFiles ?? 0));
    const missing = cost.totals.missingCostEntries;
    replace(
      state,
      refreshing && h("div.row.muted", {}, h("span.spin"), "Some transcripts are still being read; the numbers will grow."),
      unread > 0 && h("p.notice.warn", {}, `${unread} ${unread === 1 ? "transcript" : "transcripts"} cannot be read and ${unread === 1 ? "is" : "are"} not counted. The gateway's log says why.`),
      missing > 0 && h("p.notice.warn", {}, `The price of ${missing} ${missing === 1 ? "answer" : "answers"} is not known, so the cost is higher than shown. `, "Prices of own models go into ", h("code", {}, "models.providers.<name>.models[].cost"), "."),
      usage.sessions.length >= SESSIONS_MAX && h("p.notice", {}, `Only the newest ${SESSIONS_MAX} sessions are listed by agent, channel and session.`),
    );
    replace(body, totals(cost.totals, usage.aggregates.messages), h("section.card", {}, chart.element), h("div.grid.wide", {}, models(usage), sessions(usage)));
  }

  function save() {
    if (!told) return;
    const rows = SPLITS[by](told).sort((a, b) => a.day.localeCompare(b.day) || a.name.localeCompare(b.name));
    const lines = rows.map((row) => [row.day, row.name, row.tokens, row.cost]);
    download(`usage-${from}-${to}-by-${by}.csv`, [["date", by, "tokens", "cost_usd"], ...lines]);
  }

  const end = link.on("ready", load);
  load();
  return {
    leave() {
      end();
      asked++;
      clearTimeout(again);
    },
  };
}

function totals(sums, messages) {
  const one = (name, value, more) => h("div.stat", {}, h("dt", {}, name), h("dd", {}, value, more && h("span.small.muted", {}, more)));
  const cached = sums.cacheRead + sums.cacheWrite;
  return h(
    "dl.stats.card",
    { "aria-label": "Totals" },
    one("Tokens", compact(sums.totalTokens), `${sums.totalTokens.toLocaleString()} in all`),
    one("In", compact(sums.input), sums.inputCost > 0 && money(sums.inputCost)),
    one("Out", compact(sums.output), sums.outputCost > 0 && money(sums.outputCost)),
    one("Cache", compact(cached), `${compact(sums.cacheRead)} read, ${compact(sums.cacheWrite)} written`),
    one("Cost", money(sums.totalCost), sums.missingCostEntries > 0 && "at least"),
    one("Messages", compact(messages.total), `${compact(messages.user)} from people`),
    one("Answers", compact(messages.assistant), `${compact(messages.toolCalls)} tool calls`),
    one("Errors", compact(messages.errors)),
  );
}

const head = (...names) => h("thead", {}, h("tr", {}, names.map((name, index) => h("th", { scope: "col", class: index > 0 ? "number" : null }, name))));
const priced = (sums) => [money(sums.totalCost), sums.missingCostEntries > 0 && h("span.muted", { title: "The price of some answers is not known." }, " +?")];
const section = (title, ...parts) => h("section.card", {}, h("h2", {}, title), parts);
const scroll = (label, table) => h("div.scroll", { tabindex: "0", role: "region", "aria-label": label }, table);

function models({ aggregates }) {
  const rows = aggregates.byModel.map(({ provider, model, count, totals }) =>
    h("tr", {}, h("th", { scope: "row" }, `${provider ?? "?"}/${model ?? "?"}`), h("td.number", {}, String(count)), h("td.number", {}, compact(totals.totalTokens)), h("td.number", {}, priced(totals))),
  );
  if (rows.length === 0) return section("Models", h("p.empty", {}, "No model has answered in these days."));
  return section("Models", scroll("Models", h("table", {}, head("Model", "Answers", "Tokens", "Cost"), h("tbody", {}, rows))));
}

function sessions({ sessions }) {
  const used = sessions.filter(({ usage }) => usage?.totalTokens > 0).sort((a, b) => b.usage.totalTokens - a.usage.totalTokens);
  const rows = used.slice(0, TOP_SESSIONS).map(({ usage, updatedAt, ...session }) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, h("a", { href: `#/chat/${encodeURIComponent(session.key)}` }, nameOf(session)), updatedAt && h("div.small.muted", {}, dateTime(updatedAt))),
      h("td.number", {}, compact(usage.totalTokens)),
      h("td.number", {}, priced(usage)),
    ),
  );
  if (rows.length === 0) return section("Top sessions", h("p.empty", {}, "No session has used any in these days."));
  return section("Top sessions", scroll("Top sessions", h("table", {}, head("Session", "Tokens", "Cost"), h("tbody", {}, rows))));
}

export const view = { id: "usage", title: "Usage", icon: "usage", mount };
