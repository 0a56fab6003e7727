// Draws charts of the history with uPlot in place of the drawings of the server, which remain without this script.
//
// All charts of a page have the same range and one cross-hair. The server names colours by number; the style sheet has them,
// for both themes. uPlot is a classic script, so that its file stays as published: it defines the global `uPlot`.
const every = { 10: 10_000, 60: 30_000, 3600: 120_000 };
const root = document.documentElement;
const figures = [...document.querySelectorAll("figure[data-history]")].map((place) => ({ place, hidden: new Set() }));
const address = document.body.dataset.stream?.replace(/stream$/, "history");
const range = figures[0]?.place.dataset.range;
const cross = uPlot.sync("page");
let timer = 0;
let running = false;

function groups() {
  const found = new Map();
  for (const figure of figures) {
    const cluster = figure.place.dataset.cluster || "";
    const last = found.get(cluster)?.at(-1);
    if (last && last.length < 4) last.push(figure);
    else found.set(cluster, [...(found.get(cluster) || []), [figure]]);
  }
  return [...found].flatMap(([cluster, rows]) => rows.map((row) => [cluster, row]));
}

async function refresh() {
  if (document.hidden || running) return;
  running = true;
  let step = 10;
  try {
    for (const [cluster, asked] of groups()) {
      const query = new URLSearchParams({ family: asked.map((figure) => figure.place.dataset.history).join(","), range });
      if (cluster) query.set("cluster", cluster);
      const answer = await fetch(`${address}?${query}`, { redirect: "error" });
      if (!answer.ok) continue;
      const told = await answer.json();
      step = told.stepSeconds;
      for (const [place, figure] of asked.entries()) take(figure, told.times, told.families[place].lines, step);
    }
    fit();
  } catch {
    // The banner of the page says that the dashboard does not answer; charts stay as they are.
  } finally {
    running = false;
    clearTimeout(timer);
    timer = setTimeout(refresh, every[step] || 30_000);
  }
}

function take(figure, times, lines, step) {
  const left = new Set((figure.place.dataset.skip || "").split(","));
  const known = lines.filter((line) => !left.has(line.name));
  const order = JSON.parse(figure.place.dataset.colours || "{}");
  // Names in a fixed order, so that a layer does not move when another grows.
  const names = Object.keys(order);
  known.sort((one, other) => rank(names, one.name) - rank(names, other.name) || one.name.localeCompare(other.name));
  const same = figure.lines?.map((line) => line.name).join() === known.map((line) => line.name).join();
  Object.assign(figure, { times, lines: known, step, colours: order });
  if (!known.length) return;
  if (figure.chart && same) figure.chart.setData(data(figure), false);
  else draw(figure);
  if (figure.place.querySelector("details[open]")) tabulate(figure);
}

function rank(names, name) {
  const place = names.indexOf(name);
  return place < 0 ? names.length : place;
}

// Time before the first value is left out, at the same place in all charts; else a young fleet would be dots at the edge.
function fit() {
  const drawn = figures.filter((figure) => figure.chart);
  if (!drawn.length) return;
  const { times } = drawn[0];
  const first = Math.min(...drawn.map((figure) => times.findIndex((_, at) => figure.lines.some((line) => line.values[at] !== null))).filter((at) => at >= 0));
  const begin = Math.max(0, Math.min(Number.isFinite(first) ? first : 0, times.length - 13));
  for (const { chart } of drawn) chart.setScale("x", { min: times[begin], max: times.at(-1) });
  for (const { place } of drawn) place.dataset.drawn = String(times.length - begin);
}

function shown(figure) {
  return figure.lines.filter((line) => !figure.hidden.has(line.name));
}

// Stacked layers are drawn from the highest sum down, each over the one before.
function data(figure) {
  if (!stacked(figure)) return [figure.times, ...figure.lines.map((line) => line.values)];
  const sums = figure.times.map(() => 0);
  const layers = figure.lines.map((line) =>
    line.values.map((value, at) => {
      if (value === null) return null;
      if (!figure.hidden.has(line.name)) sums[at] += value;
      return sums[at];
    }),
  );
  return [figure.times, ...layers.reverse()];
}

function stacked(figure) {
  return "stacked" in figure.place.dataset;
}

function colour(figure, name, place) {
  const number = figure.colours[name] ?? place % 8;
  return getComputedStyle(root).getPropertyValue(`--s${number}`).trim();
}

function newest(row) {
  return row.values.findLastIndex((value) => value !== null);
}

// A layer is a little paler than its border; it must hide the layer behind it, so it cannot be transparent.
function blend(own, paper) {
  const parts = [own, paper].map((hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)));
  return `rgb(${parts[0].map((part, place) => Math.round(part * 0.72 + parts[1][place] * 0.28)).join()})`;
}

function text(value, unit) {
  if (value === null || value === undefined) return "—";
  const digits = Math.abs(value) < 10 ? 2 : Math.abs(value) < 1000 ? 1 : 0;
  const number = value.toLocaleString("en-US", { maximumFractionDigits: digits });
  if (unit === "$/h") return `$${number}/h`;
  return unit === "s" ? `${number} s` : number;
}

function short(value) {
  return Math.abs(value) >= 10_000
    ? value.toLocaleString("en-US", { notation: "compact", maximumFractionDigits: 1 })
    : value.toLocaleString("en-US", { maximumFractionDigits: 2 });
}

const WHOLE = new Set(["machines", "needs"]);

// Marks of an axis that counts things: no half a machine.
function steps() {
  return Array.from({ length: 10 }, (_, power) => [1, 2, 5].map((first) => first * 10 ** power)).flat();
}

// On a low screen the first page must still fit without scrolling.
function tall(place) {
  const low = innerWidth >= 1100 && innerHeight < 800 && place.closest(".screen");
  return Math.round(Number(place.dataset.height || 170) * (low ? 0.72 : innerWidth >= 1100 && innerHeight > 860 ? 1.2 : 1));
}

function draw(figure) {
  figure.chart?.destroy();
  const style = getComputedStyle(root);
  const ink = style.getPropertyValue("--dim").trim();
  const line = style.getPropertyValue("--line").trim();
  const font = "12px system-ui, sans-serif";
  const unit = figure.place.dataset.unit || "";
  const plot = figure.place.querySelector(".plot");
  const series = figure.lines.map((row, place) => {
    const own = colour(figure, row.name, place);
    return {
      label: row.name,
      stroke: own,
      width: stacked(figure) ? 1 : 2,
      fill: stacked(figure) ? blend(own, style.getPropertyValue("--card").trim()) : undefined,
      dash: stacked(figure) || place % 2 === 0 ? undefined : [7, 3],
      points: { show: false },
      show: true,
      value: (_chart, _raw, _at, index) => text(row.values[index ?? newest(row)], unit),
    };
  });
  if (stacked(figure)) series.reverse();
  const width = plot.clientWidth || 400;
  const grid = { stroke: line, width: 1 };
  const axis = { stroke: ink, font, grid, ticks: { stroke: line, width: 1, size: 4 } };
  plot.replaceChildren();
  figure.chart = new uPlot(
    {
      width,
      height: tall(figure.place),
      tzDate: (at) => uPlot.tzDate(new Date(at * 1000), "Etc/UTC"),
      cursor: { sync: { key: cross.key, setSeries: false, scales: ["x", null] }, drag: { x: false, y: false }, points: { size: 5 } },
      scales: { x: { time: true }, y: { range: (_chart, _low, high) => [0, high > 0 ? high * 1.08 : 1] } },
      axes: [
        { ...axis, space: 64, size: 30, values: (_chart, splits, _axis, _space, gap) => splits.map((at) => clock(at, gap)) },
        { ...axis, size: 52, gap: 4, space: 22, ...(WHOLE.has(unit) ? { incrs: steps() } : {}), values: (_chart, splits) => splits.map(short) },
      ],
      series: [{ label: "time (UTC)", value: (_chart, at) => (at === null ? "now" : moment(at)) }, ...series],
      legend: { live: true },
    },
    data(figure),
    plot,
  );
  plot.setAttribute("role", "group");
  plot.setAttribute("aria-label", figure.place.querySelector("figcaption").textContent);
  figure.chart.root.querySelector("canvas").setAttribute("aria-hidden", "true");
  figure.place.querySelector("ul.legend")?.remove();
}

function two(number) {
  return String(number).padStart(2, "0");
}

function clock(at, gap) {
  const date = new Date(at * 1000);
  const day = `${two(date.getUTCMonth() + 1)}-${two(date.getUTCDate())}`;
  const hour = `${two(date.getUTCHours())}:${two(date.getUTCMinutes())}`;
  if (gap >= 86_400) return day;
  if (gap < 60) return `${hour}:${two(date.getUTCSeconds())}`;
  return at % 86_400 === 0 ? day : hour;
}

function moment(at) {
  return new Date(at * 1000).toISOString().slice(5, 19).replace("T", " ");
}

function tabulate(figure) {
  const body = figure.place.querySelector("details table");
  if (!body || !figure.lines?.length) return;
  const stride = Math.max(1, Math.floor(figure.times.length / 12));
  const rows = [];
  for (let at = figure.times.length - 1; at >= 0; at -= stride)
    if (figure.lines.some((line) => line.values[at] !== null)) rows.push([moment(figure.times[at]), ...figure.lines.map((line) => text(line.values[at], figure.place.dataset.unit))]);
  body.querySelector("thead").replaceChildren(row(["time", ...figure.lines.map((line) => line.name)], "col"));
  body.querySelector("tbody").replaceChildren(...rows.map((cells) => row(cells, "row")));
}

function row(cells, scope) {
  const made = document.createElement("tr");
  cells.forEach((words, place) => {
    const head = scope === "col" || place === 0;
    const cell = document.createElement(head ? "th" : "td");
    if (head) cell.scope = scope;
    else cell.className = "num";
    cell.textContent = words;
    made.append(cell);
  });
  return made;
}

function again() {
  for (const figure of figures) if (figure.lines?.length) draw(figure);
  fit();
}

if (figures.length && address) {
  for (const figure of figures) figure.place.querySelector("details")?.addEventListener("toggle", () => tabulate(figure));
  new MutationObserver(again).observe(root, { attributes: true, attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  const sizes = new ResizeObserver((seen) => {
    for (const { target, contentRect } of seen) {
      const chart = figures.find((figure) => target === figure.place.querySelector(".plot"))?.chart;
      if (chart && Math.abs(chart.width - contentRect.width) > 1 && contentRect.width > 50) chart.setSize({ width: contentRect.width, height: chart.height });
    }
  });
  for (const { place } of figures) sizes.observe(place.querySelector(".plot"));
  document.addEventListener("visibilitychange", () => document.hidden || refresh());
  refresh();
}
