"""How many queries each criterion repairs and how many it breaks."""

from functools import cache

import altair as alt

from vse_pipe.report.engine.charts import spec

_ROW = 22


def balance(rows: list[tuple[str, int, int]]) -> dict:
    """A bar to the right for the queries repaired, one to the left for those broken. rows: criterion, repaired, broken."""
    bars = [
        {"criterion": name, "change": kind, "queries": count, "at": sign * count}
        for name, repaired, broken in rows
        for kind, count, sign in (("repaired", repaired, 1), ("broken", broken, -1))
    ]
    return {**_layout(len(rows)), "data": {"values": bars}}


@cache
def _layout(criteria: int) -> dict:
    """Everything but the bars, which Altair would take long to check."""
    x = alt.X("at:Q", title=None, axis=alt.Axis(labelExpr="abs(datum.value)", tickCount=5, format="d"))
    y = alt.Y("criterion:N", title=None, sort=None, axis=alt.Axis(domain=False, ticks=False))
    tip = ["criterion:N", "change:N", "queries:Q"]
    base = alt.Chart(alt.Data(values=[])).encode(x=x, y=y, tooltip=tip)
    layers = [
        base.mark_bar(style=kind, height={"band": 0.7}).transform_filter(alt.datum.change == kind)
        for kind in ("repaired", "broken")
    ]
    return spec(alt.layer(*layers), height=_ROW * criteria + 10)
