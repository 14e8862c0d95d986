"""Reliability diagrams: what matches against what was told, as Guo et al., ICML 2017, draw them."""

from functools import cache

import altair as alt

from vse_pipe.report.engine.charts import spec

_HEIGHT = 260


def reliability(measured: dict[str, dict]) -> dict:
    """A line a criterion and a point a bin that holds pairs, beside the diagonal. measured: as metrics.json has them, by
    criterion."""
    rows = [
        {"criterion": name, "told": one["probability"], "matched": one["matched"], "pairs": one["pairs"]}
        for name, of in measured.items()
        for one in of["bins"]
        if one["pairs"]
    ]
    return {**_layout(tuple(measured)), "data": {"values": rows}}


@cache
def _layout(criteria: tuple[str, ...]) -> dict:
    whole = alt.Scale(domain=[0, 1])
    x = alt.X("told:Q", title="probability told", scale=whole, axis=alt.Axis(grid=False, tickCount=5))
    y = alt.Y("matched:Q", title=None, scale=whole, axis=alt.Axis(tickCount=5))
    colour = alt.Color("criterion:N", legend=None, scale=alt.Scale(domain=list(criteria)))
    tip = [
        alt.Tooltip("criterion:N"),
        alt.Tooltip("told:Q", format=".3f"),
        alt.Tooltip("matched:Q", format=".3f"),
        alt.Tooltip("pairs:Q"),
    ]
    base = alt.Chart(alt.Data(values=[])).encode(x=x, y=y, color=colour, tooltip=tip)
    ends = alt.Data(values=[{"told": 0, "matched": 0}, {"told": 1, "matched": 1}])
    right = alt.Chart(ends).mark_line(strokeDash=[4, 4], strokeWidth=1, opacity=0.5).encode(x=x, y=y)
    layers = alt.layer(right, base.mark_line(strokeWidth=1.75), base.mark_point(filled=True, size=45, opacity=1))
    made = spec(layers, height=_HEIGHT)
    for layer in made["layer"][1:]:  # the rows are given to all of them at once
        del layer["data"]
    return made
