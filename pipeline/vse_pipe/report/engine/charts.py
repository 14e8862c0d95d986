"""Vega-Lite charts, built with Altair. Colours and fonts are left to the page, which knows light from dark."""

from collections.abc import Iterator
from functools import cache
from itertools import count
from typing import Any

import altair as alt
import pandas as pd

from vse_pipe.report.engine import vega
from vse_pipe.report.engine.sweeps import Point

SMALL = 130
# From one to eight: values that far apart were chosen by their ratio (1, 2, 5, 10; 32, 64, 128, 256).
_RATIO = 8
# On an axis of epochs.
_TICKS = 12


@cache
def library() -> str:
    """Vega, Vega-Lite and vega-embed as one script for the Vega-Lite version Altair writes; needs no network."""
    version = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
    return vega.bundle(version)


def validation(histories: dict[str, pd.DataFrame]) -> dict:
    """rsum on the validation split per epoch, a line a run; a point marks the epoch that was kept."""
    rows = [
        {"run": run, "epoch": int(epoch), "rsum": float(value), "kept": kept}
        for run, table in histories.items()
        for epoch, value, kept in zip(table["epoch"], table["val_rsum"], _kept(table), strict=True)
    ]
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=_epochs(rows),
        y=alt.Y("rsum:Q", title="validation rsum", scale=alt.Scale(zero=False, nice=True)),
        tooltip=["run:N", "epoch:Q", alt.Tooltip("rsum:Q", format=".1f")],
    )
    # The dash tells runs apart without colour. A sort order, or points in the lines' colours, would make two legends.
    run: dict[str, Any] = {"field": "run", "type": "nominal", "title": None, "scale": alt.Scale(domain=list(histories))}
    lines = base.mark_line(strokeWidth=2).encode(color=alt.Color(**run), strokeDash=alt.StrokeDash(**run))
    points = base.mark_point(filled=True, size=60, style="kept").transform_filter("datum.kept")
    return spec(alt.layer(lines, points), height=280)


def training(table: pd.DataFrame) -> dict:
    """Training loss per epoch of one run; each run has its own axis, since losses differ in scale and meaning."""
    rows = [
        {"epoch": int(epoch), "loss": float(value)} for epoch, value in zip(table["epoch"], table["loss"], strict=True)
    ]
    y = alt.Y("loss:Q", title=None, scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=4))
    chart = alt.Chart(alt.Data(values=rows)).encode(
        x=_epochs(rows), y=y, tooltip=["epoch:Q", alt.Tooltip("loss:Q", format=".4g")]
    )
    return spec(chart.mark_line(strokeWidth=2, style="after-line"), height=SMALL)


def sweep(points: list[Point], baselines: list[Point], title: str, name: str) -> dict:
    """rsum against the value swept over: a line through the means, a band from lowest to highest where runs share a
    value, a point and an upright 95% interval a run, a level line a baseline. name: of the line in the legend."""
    rows = [_swept_row(point, name) for point in points]
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=_swept([point.x for point in points if point.x is not None], title)
    )
    level: list[dict[str, Any]] = [{"rsum": point.rsum, "run": point.run, "series": point.run} for point in baselines]
    # The line comes first in the domain and so has the accent's colour, like its band and its points.
    names = [name, *(row["series"] for row in level)]
    of: dict[str, Any] = {"type": "nominal", "title": None, "legend": alt.Legend() if level else None}
    of |= {"scale": alt.Scale(domain=names)}
    series = {"color": alt.Color("series", **of), "strokeDash": alt.StrokeDash("series", **of)}
    tip = [alt.Tooltip("run:N"), alt.Tooltip("rsum:Q", format=".1f")]
    at = {"tooltip": [*tip, alt.Tooltip("x:Q", title=title)]}
    layers = [
        base.mark_area(style="band").encode(y=_rsum("min(rsum):Q"), y2="max(rsum):Q"),
        base.mark_line(strokeWidth=2).encode(y=_rsum("mean(rsum):Q"), **series),
        base.mark_point(filled=True, size=60, style="after-point").encode(y=_rsum("rsum:Q"), **at),
    ]
    if any(point.interval for point in points):
        span = base.mark_rule(style="interval").transform_filter("isValid(datum.low)")
        layers.insert(1, span.encode(y=_rsum("low:Q"), y2="high:Q"))
    if level:
        rule = alt.Chart(alt.Data(values=level)).mark_rule(strokeWidth=1.5)
        layers.append(rule.encode(y=_rsum("rsum:Q"), tooltip=tip, **series))
    return spec(alt.layer(*layers), height=280)


def _swept_row(point: Point, name: str) -> dict:
    low, high = point.interval or (None, None)
    return {"x": point.x, "rsum": point.rsum, "low": low, "high": high, "run": point.run, "series": name}


def _rsum(field: str) -> alt.Y:
    return alt.Y(field, title="rsum", scale=alt.Scale(zero=False, nice=True))


def _swept(values: list[float], title: str) -> alt.X:
    """An axis with a tick at each value that a run has; logarithmic where they span a ratio of 8 or more."""
    ratio = min(values) > 0 and max(values) >= _RATIO * min(values)
    kind = {"type": "log"} if ratio else {"type": "linear", "zero": False}
    scale = alt.Scale(**kind, nice=False, padding=14)
    # A format would be given the precision of the distance between ticks: 128 came out as 1.3e+2.
    axis = alt.Axis(values=sorted(set(values)), labelExpr="'' + datum.value", grid=False, labelOverlap="greedy")
    return alt.X("x:Q", title=title, scale=scale, axis=axis)


def _epochs(rows: list[dict]) -> alt.X:
    return epochs_axis([row["epoch"] for row in rows])


def epochs_axis(epochs: list[int]) -> alt.X:
    """An axis of whole epochs, a dozen ticks at most. Left to itself, Vega puts ticks between two epochs and names both
    neighbours alike."""
    first, last = min(epochs), max(epochs)
    step = next(size for size in _steps_of_epochs() if (last - first) // size < _TICKS)
    ticks = [epoch for epoch in range(first, last + 1) if epoch % step == 0]
    return alt.X("epoch:Q", title="epoch", axis=alt.Axis(values=ticks, format="d", grid=False))


def _steps_of_epochs() -> Iterator[int]:
    """1, 2, 5, 10, 20, 50, ..."""
    return (size * 10**power for power in count() for size in (1, 2, 5))


def _kept(table: pd.DataFrame) -> list[bool]:
    return (table.index == table["val_rsum"].idxmax()).tolist()


def spec(chart: alt.LayerChart | alt.FacetChart | alt.Chart, height: int) -> dict:
    """Vega-Lite for the page: as wide as its place, ``height`` pixels tall, without schema and theme."""
    made = chart.properties(width="container", height=height).to_dict()
    # The page names the Vega-Lite mode itself, and its own theme replaces Altair's.
    return {key: value for key, value in made.items() if key not in ("$schema", "config")}
