"use strict";

// Charts: drawn from the specification beside each, again when the reader's colour scheme changes, and inside
// <details> only once it is open, because a closed one has no width.
const drawn = new Map();
const dark = window.matchMedia("(prefers-color-scheme: dark)");

function theme() {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  const text = { labelColor: colour("--quiet"), titleColor: colour("--quiet"), labelFontSize: 11, titleFontSize: 11, titleFontWeight: 400 };
  const columns = Math.max(2, Math.floor(window.innerWidth / 150));
  return {
    background: "transparent",
    font: style.getPropertyValue("--sans").trim(),
    padding: 2,
    view: { stroke: "transparent" },
    axis: { ...text, domainColor: colour("--line"), tickColor: colour("--line"), gridColor: colour("--faint"), tickSize: 4 },
    legend: { ...text, labelFontSize: 12, labelColor: colour("--ink"), orient: "top", symbolSize: 160, symbolStrokeWidth: 2, columns },
    range: { category: [1, 2, 3, 4, 5, 6, 7, 8].map((number) => colour(`--series-${number}`)) },
    style: {
      after: { color: colour("--accent"), opacity: 0.8 },
      "after-line": { color: colour("--accent") },
      "after-point": { color: colour("--accent"), opacity: 1 },
      interval: { color: colour("--accent"), opacity: 0.45, strokeWidth: 1.5 },
      band: { color: colour("--accent"), opacity: 0.18 },
      kept: { color: colour("--ink"), opacity: 1 },
      before: { color: colour("--ink"), strokeWidth: 1.25, opacity: 0.55 },
      mean: { color: colour("--quiet"), strokeWidth: 1 },
      repaired: { color: colour("--right"), opacity: 0.85 },
      broken: { color: colour("--wrong"), opacity: 0.85 },
    },
  };
}

async function draw(source) {
  const plot = document.getElementById(source.dataset.chart);
  drawn.get(plot)?.finalize();
  const spec = JSON.parse(source.textContent);
  const options = { mode: "vega-lite", renderer: "svg", actions: false, config: theme(), tooltip: { theme: dark.matches ? "dark" : "light" } };
  drawn.set(plot, await window.vegaEmbed(plot, spec, options));
  // The label says what the chart shows; hundreds of marks, some without a name, would follow it.
  plot.querySelector("svg").setAttribute("aria-hidden", "true");
}

function drawVisible() {
  for (const source of document.querySelectorAll("script[data-chart]")) {
    const closed = source.closest("details:not([open])");
    if (!closed) draw(source);
    else closed.addEventListener("toggle", () => draw(source), { once: true });
  }
}

drawVisible();
dark.addEventListener("change", () => {
  for (const source of document.querySelectorAll("script[data-chart]"))
    if (drawn.has(document.getElementById(source.dataset.chart))) draw(source);
});

// Tables: the first click on a heading puts the best first, the next one turns the order round. Rows without a value
// stay last, and equal rows keep their order.
function sortBy(table, heading) {
  const column = heading.cellIndex;
  const before = heading.getAttribute("aria-sort");
  const first = heading.dataset.first ?? "ascending";
  const turned = first === "ascending" ? "descending" : "ascending";
  const order = before === first ? turned : first;
  for (const other of heading.parentElement.cells) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", order);
  const sign = order === "ascending" ? 1 : -1;
  const numeric = heading.classList.contains("number");
  const value = (row) => row.cells[column].dataset.value;
  const compare = (a, b) => {
    if (value(a) === "" || value(b) === "") return (value(a) === "") - (value(b) === "");
    return sign * (numeric ? value(a) - value(b) : value(a).localeCompare(value(b)));
  };
  const body = table.tBodies[0];
  body.append(...[...body.rows].sort(compare));
}

for (const table of document.querySelectorAll("table.sortable")) {
  // Run and criterion both stay in view while the figures scroll; the second needs to know the width of the first.
  table.style.setProperty("--first", `${table.tBodies[0].rows[0].cells[0].offsetWidth}px`);
  for (const heading of table.tHead.rows[table.tHead.rows.length - 1].cells)
    heading.querySelector("button").addEventListener("click", () => sortBy(table, heading));
}

// What a button hides it shows again; aria-pressed says which of the two it is.
for (const button of document.querySelectorAll("button[data-hides]"))
  button.addEventListener("click", () => {
    const shown = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", shown);
    button.closest("section").classList.toggle(`without-${button.dataset.hides}`, !shown);
  });
