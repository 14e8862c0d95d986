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
  const options = { renderer: "svg", actions: { export: true, source: true, compiled: false, editor: false }, config };
  const embed = window.vegaEmbed;
  window.vegaEmbed = (place, spec) => {
    if (Object.keys(spec).length > 0) return embed(place, spec, options);
    const note = document.createElement("p");
    note.className = "empty";
    note.textContent = `${place.slice(1)}: no rows to draw`;
    document.querySelector(place).append(note);
    return Promise.resolve();
  };
}
