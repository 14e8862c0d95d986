"use strict";
// DVC's page calls vegaEmbed(place, spec) for each plot, with {} where no revision has a row.
{
  const text = { labelFontSize: 11, titleFontSize: 11, titleFontWeight: 400, titlePadding: 8 };
  const config = {
    font: "system-ui, sans-serif",
    title: { fontSize: 16, offset: 14 },
    axis: { ...text, gridColor: "#e6e9eb", domainColor: "#9ba6ae", tickColor: "#9ba6ae" },
    legend: { ...text, labelFontSize: 12, titleFontSize: 12 },
    view: { stroke: "#d7dcdf" },
  };
  // The editor is a page on the network; export and source stay in the file.
  const options = { mode: "vega-lite", renderer: "svg", actions: { export: true, source: true, compiled: false, editor: false }, config };
  // DVC fills the channels that it has no use for with {}, of which Vega-Lite warns.
  const empty = (value) => value !== null && typeof value === "object" && Object.keys(value).length === 0;
  const pruned = (value) => {
    if (value === null || typeof value !== "object") return value;
    if (Array.isArray(value)) return value.map(pruned);
    const kept = Object.entries(value).filter(([, one]) => Array.isArray(one) || !empty(one));
    return Object.fromEntries(kept.map(([key, one]) => [key, key === "data" ? one : pruned(one)]));
  };
  const embed = window.vegaEmbed;
  window.vegaEmbed = (place, spec) => {
    // Named Vega-Lite 5, drawn by a newer one: without the name it does not warn.
    const { $schema, ...rest } = pruned(spec);
    if (Object.keys(rest).length > 0) return embed(place, rest, options);
    const note = document.createElement("p");
    note.className = "empty";
    note.textContent = `${place.slice(1)}: no rows to draw`;
    document.querySelector(place).append(note);
    return Promise.resolve();
  };
}
