// Charts: stacked bars and lines, drawn as SVG.
//
// A series is told apart by its colour, by a pattern or a kind of line, and by
// its name. What a chart shows can be read with the pointer, with the arrow keys,
// and as a table.

import { h, replace, svg } from "./dom.js";

// So many series have a colour of their own.
export const SERIES_MAX = 6;

const HEIGHT = 190;
const [TOP, RIGHT, BOTTOM] = [10, 26, 22];
const TICK_CHAR = 6.6;
const TICKS = 4;
// More lie closer together than a pixel.
const POINTS_MAX = 400;
const DASHES = ["", "7 4", "2 3", "10 3 2 3", "4 2", "1 4"];
// Strokes over the colour, as paths in a field of 8.
const PATTERNS = ["", "M0 8L8 0M-2 2L2 -2M6 10L10 6", "M0 4H8", "M4 0V8", "M0 0L8 8M-2 6L2 10M6 -2L10 2", "M4 4h.01"];

let drawn = 0;

// The steps of the axis: 0, and up to a round number that is not below `most`.
function scale(most, whole) {
  if (!(most > 0)) return [0, 1];
  const raw = most / TICKS;
  const size = 10 ** Math.floor(Math.log10(raw));
  let step = [1, 2, 2.5, 5, 10].map((times) => times * size).find((step) => step >= raw);
  if (whole) step = Math.max(1, Math.ceil(step));
  return Array.from({ length: Math.ceil(most / step - 1e-9) + 1 }, (_, index) => index * step);
}

// Neighbours share a point where there are too many; each keeps its highest.
function thin(rows) {
  const size = Math.ceil(rows.length / POINTS_MAX);
  if (size <= 1) return rows;
  const groups = Array.from({ length: Math.ceil(rows.length / size) }, (_, index) => rows.slice(index * size, (index + 1) * size));
  const highest = (values) => values.reduce((most, value) => (value === null ? most : Math.max(most ?? value, value)), null);
  return groups.map((group) => ({ at: group[0].at, values: group[0].values.map((_, index) => highest(group.map((row) => row.values[index]))) }));
}

// A figure. kind: "bars" (stacked) or "lines". series: names, at most
// `SERIES_MAX`. rows: [{at, values}], a value for each series or null where there
// is none. tick(at) and label(at) name a place on the axis and in full;
// format(value) writes a value, and `whole` says that there are no halves of it.
// Returns {element, show(rows, series)}.
export function plot({ title, kind, series, rows, tick, label = tick, format = String, whole = false, spoken = format }) {
  const id = `plot-${++drawn}`;
  const canvas = h("div.canvas");
  const tip = h("div.tip", { hidden: true, "aria-hidden": "true" });
  const slider = { role: "slider", tabindex: "0", "aria-label": `${title}: one point after the other`, "aria-valuemin": "1" };
  const area = h("div.plot-area", { ...slider, onkeydown: key, onfocus: () => look(at ?? rows.length - 1), onblur: leave }, canvas, tip);
  const legend = h("ul.legend");
  const table = h("details.plot-table", { ontoggle: fillTable }, h("summary", {}, "As a table"));
  const element = h("figure.plot", {}, h("figcaption", {}, h("h2", {}, title)), legend, area, table);
  let width = 0;
  let at = null;
  let places = [];

  area.addEventListener("pointermove", (event) => {
    const x = event.clientX - canvas.getBoundingClientRect().left;
    if (places.length > 0) look(places.reduce((best, place, index) => (Math.abs(place - x) < Math.abs(places[best] - x) ? index : best), 0));
  });
  area.addEventListener("pointerleave", leave);
  new ResizeObserver(([{ contentRect }]) => {
    if (Math.abs(contentRect.width - width) < 1) return;
    width = contentRect.width;
    draw();
  }).observe(canvas);

  function key(event) {
    const last = rows.length - 1;
    const to = { ArrowRight: at + 1, ArrowUp: at + 1, ArrowLeft: at - 1, ArrowDown: at - 1, PageUp: at + 10, PageDown: at - 10, Home: 0, End: last }[event.key];
    if (to === undefined || last < 0) return;
    event.preventDefault();
    look(Math.min(last, Math.max(0, to)));
  }

  function leave() {
    tip.hidden = true;
    canvas.querySelector(".cursor")?.setAttribute("visibility", "hidden");
  }

  const total = (row) => row.values.reduce((sum, value) => sum + (value ?? 0), 0);
  const hasTotal = () => kind === "bars" && series.length > 1;

  function look(index) {
    const row = rows[index];
    if (!row) return;
    at = index;
    tellPoint();
    const line = (index) => h("div.row", {}, key1(index), h("span.grow", {}, series[index]), h("b", {}, row.values[index] === null ? "–" : format(row.values[index])));
    const shown = series.map((_, index) => index).filter((index) => kind === "lines" || row.values[index]);
    const sum = hasTotal() && h("div.row.total", {}, h("span.grow", {}, "Together"), h("b", {}, format(total(row))));
    replace(tip, h("div.muted", {}, label(row.at)), shown.map(line), sum || (shown.length === 0 && h("div", {}, "nothing")));
    tip.hidden = false;
    const x = places[index];
    const cursor = canvas.querySelector(".cursor");
    cursor?.setAttribute("visibility", "visible");
    cursor?.setAttribute("x1", x);
    cursor?.setAttribute("x2", x);
    const left = x + 14 + tip.offsetWidth > width ? Math.max(0, x - 14 - tip.offsetWidth) : x + 14;
    tip.style.left = `${left}px`;
  }

  // What a screen reader says of the point.
  function tellPoint() {
    const index = Math.min(at ?? rows.length - 1, rows.length - 1);
    const row = rows[index];
    area.setAttribute("aria-valuemax", String(Math.max(1, rows.length)));
    area.setAttribute("aria-valuenow", String(Math.max(1, index + 1)));
    const said = row && series.map((name, index) => `${name} ${row.values[index] === null ? "none" : spoken(row.values[index])}`);
    area.setAttribute("aria-valuetext", row ? `${label(row.at)}: ${said.join(", ")}` : "nothing to show");
  }

  // A sample of how a series looks.
  function key1(index) {
    const shape = kind === "bars" ? svg("rect", { width: 14, height: 10, y: 1, rx: 2, ...paint(index) }) : svg("line", { x1: 0, x2: 14, y1: 6, y2: 6, ...stroke(index) });
    return svg("svg", { width: 14, height: 12, class: `key s${index + 1}`, "aria-hidden": "true" }, shape);
  }

  const paint = (index) => (PATTERNS[index] ? { fill: `url(#${id}-${index})` } : { class: "solid" });
  const stroke = (index) => ({ class: "line", "stroke-dasharray": DASHES[index] });

  function patterns() {
    const one = (path, index) =>
      path && svg("pattern", { id: `${id}-${index}`, width: 8, height: 8, patternUnits: "userSpaceOnUse", class: `s${index + 1}` }, svg("rect", { width: 8, height: 8, class: "solid" }), svg("path", { d: path, class: "hatch" }));
    return svg("defs", {}, PATTERNS.slice(0, series.length).map(one));
  }

  function draw() {
    if (width < 40) return;
    const totals = rows.map((row) => (kind === "bars" ? total(row) : Math.max(0, ...row.values.map((value) => value ?? 0))));
    const steps = scale(Math.max(0, ...totals), whole);
    const most = steps.at(-1);
    const left = Math.ceil(Math.max(...steps.map((step) => format(step).length)) * TICK_CHAR) + 8;
    const inner = { width: width - left - RIGHT, height: HEIGHT - TOP - BOTTOM };
    const slot = inner.width / Math.max(1, kind === "bars" ? rows.length : rows.length - 1);
    places = rows.map((_, index) => left + slot * (kind === "bars" ? index + 0.5 : index));
    const y = (value) => TOP + inner.height * (1 - value / most);
    const grid = steps.map((step) => [
      svg("line", { x1: left, x2: width - RIGHT, y1: y(step), y2: y(step), class: step === 0 ? "axis" : "grid" }),
      svg("text", { x: left - 6, y: y(step) + 4, "text-anchor": "end" }, format(step)),
    ]);
    const marks = kind === "bars" ? bars(slot, y) : lines(y);
    const cursor = svg("line", { class: "cursor", y1: TOP, y2: TOP + inner.height, visibility: "hidden" });
    replace(canvas, svg("svg", { width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, "aria-hidden": "true" }, patterns(), grid, names(left, inner.width), marks, cursor));
  }

  // As many names below the axis as have room.
  function names(left, room) {
    const size = Math.max(1, ...rows.map((row) => tick(row.at).length)) * TICK_CHAR + 18;
    const every = Math.max(1, Math.ceil(rows.length / Math.max(1, Math.floor(room / size))));
    const shown = rows.map((row, index) => ({ row, index })).filter(({ index }) => (rows.length - 1 - index) % every === 0);
    const anchor = (x) => (x < size / 2 ? "start" : "middle");
    return shown.map(({ row, index }) => svg("text", { x: places[index], y: HEIGHT - 5, "text-anchor": anchor(places[index]) }, tick(row.at)));
  }

  function bars(slot, y) {
    const wide = Math.max(1, Math.min(36, slot * 0.72));
    return rows.map((row, index) => {
      let sum = 0;
      return row.values.map((value, of) => {
        if (!value) return null;
        const bottom = y(sum);
        sum += value;
        return svg("g", { class: `s${of + 1}` }, svg("rect", { x: places[index] - wide / 2, y: y(sum), width: wide, height: Math.max(0.5, bottom - y(sum)), ...paint(of) }));
      });
    });
  }

  function lines(y) {
    return series.map((_, of) => {
      let path = "";
      let isOpen = false;
      rows.forEach((row, index) => {
        const value = row.values[of];
        if (value !== null) path += `${isOpen ? "L" : "M"}${places[index].toFixed(1)} ${y(value).toFixed(1)}h.01`;
        isOpen = value !== null;
      });
      const last = rows.findLastIndex((row) => row.values[of] !== null);
      const dot = last >= 0 && svg("circle", { cx: places[last], cy: y(rows[last].values[of]), r: 3, class: "solid" });
      return svg("g", { class: `s${of + 1}` }, svg("path", { d: path, fill: "none", ...stroke(of) }), dot);
    });
  }

  // Filled when somebody opens it.
  function fillTable() {
    if (!table.open) return;
    const head = h("tr", {}, h("th", { scope: "col" }, "When"), series.map((name) => h("th.number", { scope: "col" }, name)));
    const cells = (row) => row.values.map((value) => h("td.number", {}, value === null ? "–" : format(value)));
    const body = rows.map((row) => h("tr", {}, h("th", { scope: "row" }, label(row.at)), cells(row)));
    const whole = h("table", {}, h("caption.sr-only", {}, title), h("thead", {}, head), h("tbody", {}, body));
    replace(table, table.querySelector("summary"), h("div.scroll", { tabindex: "0", role: "region", "aria-label": `${title} as a table` }, whole));
  }

  function show(newRows, newSeries = series) {
    [rows, series] = [thin(newRows), newSeries];
    if (at !== null && at >= rows.length) at = null;
    replace(legend, series.length > 1 && series.map((name, index) => h("li", {}, key1(index), name)));
    draw();
    fillTable();
    tellPoint();
    if (!tip.hidden && at !== null) look(at);
  }

  show(rows);
  return { element, show };
}
