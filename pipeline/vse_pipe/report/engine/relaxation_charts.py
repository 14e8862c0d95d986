"""Recall against lambda, the relaxation factor of a matching, as Fig. 4 of the RGM paper draws it."""

from functools import cache

import altair as alt
import pandas as pd

from vse_pipe.report.engine.charts import spec

_HEIGHT = 190
PARTS = ("validation", "ranked")


def curves(tables: dict[str, pd.DataFrame], names: dict[str, str]) -> dict:
    """R@K against lambda of one direction and K, a colour a criterion; a point marks the lambda that was chosen.

    tables: rows of relaxation.parquet by criterion; names: of the two splits, by PARTS; dashes tell them apart. The page has
    one legend for all charts of a run.
    """
    rows = [
        {"criterion": name, "split": names[part], "lambda": lam, "recall": round(value, 3), "chosen": chosen}
        for name, table in tables.items()
        for part in PARTS
        for lam, value, chosen in zip(table["lambda"], table[part], table["chosen"].tolist(), strict=True)
        if pd.notna(value)
    ]
    return {**_layout(tuple(tables), tuple(names[part] for part in PARTS)), "data": {"values": rows}}


@cache
def _layout(criteria: tuple[str, ...], splits: tuple[str, ...]) -> dict:
    """Everything but the rows: Altair needs longer to check a chart than all the rest of the section takes."""
    tip = ["criterion:N", "split:N", alt.Tooltip("lambda:Q"), alt.Tooltip("recall:Q", format=".1f")]
    x_axis = alt.Axis(grid=False, tickCount=10)
    x = alt.X("lambda:Q", title="λ", axis=x_axis, scale=alt.Scale(zero=False, nice=False))
    y = alt.Y("recall:Q", title=None, scale=alt.Scale(zero=False, nice=True), axis=alt.Axis(tickCount=5))
    colour = alt.Color("criterion:N", legend=None, scale=alt.Scale(domain=list(criteria)))
    dash = alt.StrokeDash("split:N", legend=None, scale=alt.Scale(domain=list(splits)))
    base = alt.Chart(alt.Data(values=[])).encode(x=x, y=y)
    lines = base.mark_line(strokeWidth=1.75).encode(color=colour, strokeDash=dash, tooltip=tip)
    points = base.mark_point(filled=True, size=55, opacity=1).encode(color=colour, tooltip=tip)
    return spec(alt.layer(lines, points.transform_filter("datum.chosen")), height=_HEIGHT)
