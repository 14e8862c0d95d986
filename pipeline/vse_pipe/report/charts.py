"""Charts of the page as Vega-Lite specifications, and the script that draws them."""

from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from importlib.util import cache_from_source
from itertools import count
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from vse_pipe.core.console import detail
from vse_pipe.core.files import write_text
from vse_pipe.report.settings import Point


def bundle(vega_lite: str) -> str:
    """Vega, Vega-Lite and vega-embed as one script for a version of Vega-Lite, such as ``6.1``; needs no network.

    Bundling takes seconds, so the script is cached next to the byte code of this module if possible."""
    cache = Path(cache_from_source(__file__)).with_name(f"vega-{vega_lite}-{version('vl-convert-python')}.bundle")
    if cache.is_file():
        return cache.read_text(encoding="utf-8")
    import vl_convert

    script = vl_convert.javascript_bundle(vl_version=vega_lite)
    try:
        write_text(cache, script)
    except OSError as error:
        detail(f"report: Vega's bundle is made anew each time, {cache} cannot be written ({error})")
    return script


SMALL = 130
# Values with this ratio of largest to smallest get a logarithmic axis (1, 2, 5, 10; 32, 64, 128, 256).
_RATIO = 8
# On an axis of epochs.
_TICKS = 12


@cache
def library() -> str:
    """The script for the Vega-Lite version that Altair writes."""
    return bundle(".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2]))


def validation(histories: dict[str, pd.DataFrame]) -> dict:
    """rsum on the validation split per epoch, one line a run; a point marks the best epoch."""
    rows: list[dict[str, Any]] = [
        {"run": run, "epoch": int(epoch), "rsum": float(value), "kept": bool(row == best)}
        for run, table in histories.items()
        for best in [table["val_rsum"].idxmax()]
        for row, epoch, value in zip(table.index, table["epoch"], table["val_rsum"], strict=True)
    ]
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=epochs_axis([row["epoch"] for row in rows]),
        y=alt.Y("rsum:Q", title="validation rsum", scale=alt.Scale(zero=False, nice=True)),
        tooltip=["run:N", "epoch:Q", alt.Tooltip("rsum:Q", format=".1f")],
    )
    # The dash tells runs apart without colour. A sort order, or points in the lines' colours, would make two legends.
    run: dict[str, Any] = {"field": "run", "type": "nominal", "title": None, "scale": alt.Scale(domain=list(histories))}
    lines = base.mark_line(strokeWidth=2).encode(color=alt.Color(**run), strokeDash=alt.StrokeDash(**run))
    points = base.mark_point(filled=True, size=60, style="kept").transform_filter("datum.kept")
    return spec(alt.layer(lines, points), height=280)


def training(table: pd.DataFrame) -> dict:
    """Training loss per epoch of one run, on a separate axis, because losses differ in scale and meaning."""
    epochs = [int(epoch) for epoch in table["epoch"]]
    rows = [{"epoch": epoch, "loss": float(value)} for epoch, value in zip(epochs, table["loss"], strict=True)]
    y = alt.Y("loss:Q", title=None, scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=4))
    tip: list[Any] = ["epoch:Q", alt.Tooltip("loss:Q", format=".4g")]
    chart = alt.Chart(alt.Data(values=rows)).encode(x=epochs_axis(epochs), y=y, tooltip=tip)
    return spec(chart.mark_line(strokeWidth=2, style="after-line"), height=SMALL)


def sweep(points: list[Point], baselines: list[Point], title: str, name: str) -> dict:
    """rsum against the swept value: a line through the means, a band from lowest to highest for runs with equal values,
    a point and a vertical 95% interval a run, a horizontal line a baseline. name: of the line in the legend."""
    rows = [
        {"x": point.x, "rsum": point.rsum, "low": low, "high": high, "run": point.run, "series": name}
        for point in points
        for low, high in [point.interval or (None, None)]
    ]
    axis = _swept([point.x for point in points if point.x is not None], title)
    base = alt.Chart(alt.Data(values=rows)).encode(x=axis)
    level: list[dict[str, Any]] = [{"rsum": point.rsum, "run": point.run, "series": point.run} for point in baselines]
    # The line comes first in the domain and so has the accent's colour, like its band and its points.
    names = [name, *(row["series"] for row in level)]
    encoding: dict[str, Any] = {"type": "nominal", "title": None, "legend": alt.Legend() if level else None}
    encoding |= {"scale": alt.Scale(domain=names)}
    series = {"color": alt.Color("series", **encoding), "strokeDash": alt.StrokeDash("series", **encoding)}
    tip = [alt.Tooltip("run:N"), alt.Tooltip("rsum:Q", format=".1f")]
    hover = {"tooltip": [*tip, alt.Tooltip("x:Q", title=title)]}
    layers = [
        base.mark_area(style="band").encode(y=_rsum("min(rsum):Q"), y2="max(rsum):Q"),
        base.mark_line(strokeWidth=2).encode(y=_rsum("mean(rsum):Q"), **series),
        base.mark_point(filled=True, size=60, style="after-point").encode(y=_rsum("rsum:Q"), **hover),
    ]
    if any(point.interval for point in points):
        span = base.mark_rule(style="interval").transform_filter("isValid(datum.low)")
        layers.insert(1, span.encode(y=_rsum("low:Q"), y2="high:Q"))
    if level:
        rule = alt.Chart(alt.Data(values=level)).mark_rule(strokeWidth=1.5)
        layers.append(rule.encode(y=_rsum("rsum:Q"), tooltip=tip, **series))
    return spec(alt.layer(*layers), height=280)


def _rsum(field: str) -> alt.Y:
    return alt.Y(field, title="rsum", scale=alt.Scale(zero=False, nice=True))


def _swept(values: list[float], title: str) -> alt.X:
    """An axis with a tick at each value of a run; logarithmic if they span a ratio of 8 or more."""
    ratio = min(values) > 0 and max(values) >= _RATIO * min(values)
    kind = {"type": "log"} if ratio else {"type": "linear", "zero": False}
    scale = alt.Scale(**kind, nice=False, padding=14)
    # A format takes its precision from the distance between ticks: 128 became 1.3e+2.
    axis = alt.Axis(values=sorted(set(values)), labelExpr="'' + datum.value", grid=False, labelOverlap="greedy")
    return alt.X("x:Q", title=title, scale=scale, axis=axis)


def epochs_axis(epochs: list[int]) -> alt.X:
    """An axis of whole epochs with at most a dozen ticks. By default Vega puts ticks between epochs."""
    first, last = min(epochs), max(epochs)
    steps = (size * 10**power for power in count() for size in (1, 2, 5))
    step = next(size for size in steps if (last - first) // size < _TICKS)
    ticks = [epoch for epoch in range(first, last + 1) if epoch % step == 0]
    return alt.X("epoch:Q", title="epoch", axis=alt.Axis(values=ticks, format="d", grid=False))


def spec(chart: alt.LayerChart | alt.FacetChart | alt.Chart, height: int) -> dict:
    """Vega-Lite for the page: as wide as its container, ``height`` pixels tall, without schema and theme."""
    document = chart.properties(width="container", height=height).to_dict()
    # The page names the Vega-Lite mode itself, and its own theme replaces Altair's.
    return {key: value for key, value in document.items() if key not in ("$schema", "config")}


KINDS = ("matched", "mismatched")
_UNKNOWN = "pairs"
_HEIGHT = 240


def losses(table: pd.DataFrame) -> dict:
    """Bars: pairs per bin, split into matched and mismatched if the truth is known; lines: pairs expected by each
    component of the mixture. table: histogram.csv."""
    is_labelled = table["matched"].notna().all()
    kinds = list(KINDS) if is_labelled else [_UNKNOWN]
    bars = []
    for row in table.to_dict("records"):
        foot = 0
        for kind in kinds:
            count = int(row[kind])
            bar = {"low": row["low"], "high": row["high"], "from": foot, "to": foot + count}
            bars.append({**bar, "kind": kind, "count": count})
            foot += count
    scale = alt.Scale(domain=list(KINDS) if is_labelled else [*KINDS, _UNKNOWN])
    colour = alt.Color("kind:N", title=None, scale=scale)
    x = alt.X("low:Q", title="loss of the pair", scale=alt.Scale(nice=False), axis=alt.Axis(grid=False))
    tip = [alt.Tooltip("low:Q", format=".3f"), alt.Tooltip("high:Q", format=".3f"), "kind:N", "count:Q"]
    layers = [
        alt.Chart(alt.Data(values=bars))
        .mark_bar(opacity=0.55)
        .encode(x=x, x2="high:Q", y=alt.Y("from:Q", title="pairs"), y2="to:Q", color=colour, tooltip=tip)
    ]
    if table["expected_matched"].notna().all():
        lines = [
            {"low": (row["low"] + row["high"]) / 2, "expected": row[f"expected_{kind}"], "kind": kind}
            for kind in KINDS
            for row in table.to_dict("records")
        ]
        line = alt.Chart(alt.Data(values=lines)).mark_line(strokeWidth=2)
        dash = alt.StrokeDash("kind:N", legend=None)
        layers.append(line.encode(x="low:Q", y="expected:Q", color=colour, strokeDash=dash))
    return spec(alt.layer(*layers), height=_HEIGHT)


def costs(table: pd.DataFrame) -> dict:
    """Median transport cost of matched and of mismatched pairs per epoch, in a band from the first to the third
    quartile. table: rows of ``quartiles``."""
    base = alt.Chart(alt.Data(values=table.to_dict("records"))).encode(
        x=epochs_axis(table["epoch"].tolist()),
        color=alt.Color("kind:N", title=None, scale=alt.Scale(domain=list(KINDS))),
    )
    band = base.mark_area(opacity=0.18).encode(
        y=alt.Y("low:Q", title="transport cost", scale=alt.Scale(zero=False)), y2="high:Q"
    )
    line = base.mark_line(strokeWidth=2, point=True).encode(
        y="median:Q",
        strokeDash=alt.StrokeDash("kind:N", legend=None),
        tooltip=["epoch:Q", "kind:N", alt.Tooltip("median:Q", format=".3f")],
    )
    return spec(alt.layer(band, line), height=_HEIGHT)


def reviewed(table: pd.DataFrame) -> dict:
    """Mismatches found against pairs reviewed, as expected and, where it is known, in truth. table: review.csv."""
    rows = [
        {"reviewed": int(row.reviewed), "found": float(value), "kind": kind}
        for kind, column in (("expected", table["expected"]), ("in truth", table["found"]))
        for row, value in zip(table.itertuples(), column, strict=True)
        if not pd.isna(value)
    ]
    kind: dict[str, Any] = {"field": "kind", "type": "nominal", "title": None}
    chart = _review_chart(rows, alt.Y("found:Q", title="mismatches found"), alt.Tooltip("found:Q", format=".0f"))
    return spec(chart.encode(color=alt.Color(**kind), strokeDash=alt.StrokeDash(**kind)), height=_HEIGHT)


def review_rsum(table: pd.DataFrame) -> dict:
    """Validation rsum of a linear map against pairs reviewed. table: review.csv with ``rsum``."""
    rows = [{"reviewed": int(row.reviewed), "rsum": float(row.rsum)} for row in table.itertuples()]
    y = alt.Y("rsum:Q", title="validation rsum", scale=alt.Scale(zero=False))
    return spec(_review_chart(rows, y, alt.Tooltip("rsum:Q", format=".1f")), height=_HEIGHT)


def _review_chart(rows: list[dict[str, Any]], y: alt.Y, tip: alt.Tooltip) -> alt.Chart:
    x = alt.X("reviewed:Q", title="pairs reviewed, the most doubtful first")
    chart = alt.Chart(alt.Data(values=rows)).mark_line(strokeWidth=2, point=True)
    return chart.encode(x=x, y=y, tooltip=["reviewed:Q", tip])


def alignment(mean: list[float]) -> dict:
    """Bars: the mean refined alignment by rank; line: the level of a uniform alignment (L2RM, Figure 7)."""
    rows = [{"rank": rank, "weight": weight} for rank, weight in enumerate(mean, 1)]
    x = alt.X("rank:Q", title="captions of the batch, sorted", scale=alt.Scale(nice=False), axis=alt.Axis(grid=False))
    base = alt.Chart(alt.Data(values=rows)).encode(x=x, y=alt.Y("weight:Q", title="refined alignment"))
    tip = [alt.Tooltip("rank:Q"), alt.Tooltip("weight:Q", format=".4f")]
    level = alt.Chart(alt.Data(values=[{"weight": 1 / len(mean)}])).mark_rule(strokeWidth=1.5, strokeDash=[4, 4])
    return spec(alt.layer(base.mark_bar().encode(tooltip=tip), level.encode(y="weight:Q")), height=SMALL)


def quartiles(table: pd.DataFrame) -> pd.DataFrame:
    """epoch, kind, low, median, high from costs.csv, with values spread evenly within a bin; kinds without pairs are
    absent."""
    rows = []
    for epoch, bins in table.groupby("epoch"):
        for kind in KINDS:
            counts = bins[kind].to_numpy()
            if counts.sum():
                low, median, high = (_quantile(bins, counts, share) for share in (0.25, 0.5, 0.75))
                rows.append({"epoch": int(epoch), "kind": kind, "low": low, "median": median, "high": high})
    return pd.DataFrame(rows, columns=["epoch", "kind", "low", "median", "high"])


def _quantile(bins: pd.DataFrame, counts, share: float) -> float:
    below = counts.cumsum()
    place = int((below < share * below[-1]).sum())
    row = bins.iloc[place]
    inside = (share * below[-1] - (below[place] - counts[place])) / counts[place]
    return float(row["low"] + inside * (row["high"] - row["low"]))


def reliability(measured: dict[str, dict]) -> dict:
    """One line a criterion, one point a bin with pairs, and the diagonal. measured: from metrics.json."""
    rows = [
        {"criterion": name, "told": bins["probability"], "matched": bins["matched"], "pairs": bins["pairs"]}
        for name, figures in measured.items()
        for bins in figures["bins"]
        if bins["pairs"]
    ]
    return {**_calibration_layout(tuple(measured)), "data": {"values": rows}}


@cache
def _calibration_layout(criteria: tuple[str, ...]) -> dict:
    unit = alt.Scale(domain=[0, 1])
    x = alt.X("told:Q", title="probability told", scale=unit, axis=alt.Axis(grid=False, tickCount=5))
    y = alt.Y("matched:Q", title=None, scale=unit, axis=alt.Axis(tickCount=5))
    colour = alt.Color("criterion:N", legend=None, scale=alt.Scale(domain=list(criteria)))
    shares = (alt.Tooltip(f"{name}:Q", format=".3f") for name in ("told", "matched"))
    tip: list[Any] = ["criterion:N", *shares, "pairs:Q"]
    base = alt.Chart(alt.Data(values=[])).encode(x=x, y=y, color=colour, tooltip=tip)
    ends = alt.Data(values=[{"told": 0, "matched": 0}, {"told": 1, "matched": 1}])
    right = alt.Chart(ends).mark_line(strokeDash=[4, 4], strokeWidth=1, opacity=0.5).encode(x=x, y=y)
    layers = alt.layer(right, base.mark_line(strokeWidth=1.75), base.mark_point(filled=True, size=45, opacity=1))
    layout = spec(layers, height=260)
    for layer in layout["layer"][1:]:  # the top level holds the rows of these layers
        del layer["data"]
    return layout


def balance(rows: list[tuple[str, int, int]]) -> dict:
    """Bars to the right for repaired queries, to the left for broken ones. rows: criterion, repaired, broken."""
    bars = [
        {"criterion": name, "change": kind, "queries": count, "at": sign * count}
        for name, repaired, broken in rows
        for kind, count, sign in (("repaired", repaired, 1), ("broken", broken, -1))
    ]
    return {**_change_layout(len(rows)), "data": {"values": bars}}


@cache
def _change_layout(criteria: int) -> dict:
    x = alt.X("at:Q", title=None, axis=alt.Axis(labelExpr="abs(datum.value)", tickCount=5, format="d"))
    y = alt.Y("criterion:N", title=None, sort=None, axis=alt.Axis(domain=False, ticks=False))
    base = alt.Chart(alt.Data(values=[])).encode(x=x, y=y, tooltip=["criterion:N", "change:N", "queries:Q"])
    layers = [
        base.mark_bar(style=kind, height={"band": 0.7}).transform_filter(alt.datum.change == kind)
        for kind in ("repaired", "broken")
    ]
    return spec(alt.layer(*layers), height=22 * criteria + 10)


PARTS = ("validation", "ranked")


def curves(tables: dict[str, pd.DataFrame], names: dict[str, str]) -> dict:
    """R@K against lambda for one direction and K, one colour a criterion and one dash a split; a point marks the chosen
    lambda. tables: rows of relaxation.parquet by criterion. names: of the two splits, by PARTS."""
    rows = [
        {"criterion": name, "split": names[part], "lambda": lam, "recall": round(value, 3), "chosen": chosen}
        for name, table in tables.items()
        for part in PARTS
        for lam, value, chosen in zip(table["lambda"], table[part], table["chosen"].tolist(), strict=True)
        if pd.notna(value)
    ]
    return {**_relaxation_layout(tuple(tables), tuple(names[part] for part in PARTS)), "data": {"values": rows}}


@cache
def _relaxation_layout(criteria: tuple[str, ...], splits: tuple[str, ...]) -> dict:
    tip = ["criterion:N", "split:N", alt.Tooltip("lambda:Q"), alt.Tooltip("recall:Q", format=".1f")]
    x = alt.X("lambda:Q", title="λ", axis=alt.Axis(grid=False, tickCount=10), scale=alt.Scale(zero=False, nice=False))
    y = alt.Y("recall:Q", title=None, scale=alt.Scale(zero=False, nice=True), axis=alt.Axis(tickCount=5))
    colour = alt.Color("criterion:N", legend=None, scale=alt.Scale(domain=list(criteria)))
    dash = alt.StrokeDash("split:N", legend=None, scale=alt.Scale(domain=list(splits)))
    base = alt.Chart(alt.Data(values=[])).encode(x=x, y=y)
    lines = base.mark_line(strokeWidth=1.75).encode(color=colour, strokeDash=dash, tooltip=tip)
    points = base.mark_point(filled=True, size=55, opacity=1).encode(color=colour, tooltip=tip)
    return spec(alt.layer(lines, points.transform_filter("datum.chosen")), height=190)


# N_k as the papers draw it (HAL and RGM, Figs. 2 and 3): both axes logarithmic, before and after a criterion.
#
# Unlike the papers, items are binned and a bin's share is divided by its width, because few items of a small data set
# share a large N_k. Items with N_k = 0 have no place on a log axis; the page gives their number.

_POWERS = [10.0**power for power in range(-6, 7)]
_HUB_TICKS = [first * 10**power for power in range(7) for first in (1, 2, 5)]


@dataclass(frozen=True)
class Extent:
    """The largest N_k and the lowest and highest share of the charts of a row."""

    largest: int
    lowest: float
    highest: float


def extent(columns: list[np.ndarray]) -> Extent:
    """columns: N_k of the items under each criterion."""
    shares = [row["share"] for n in columns for row in points(n)] or [1.0]
    return Extent(max(2, *(int(n.max()) for n in columns)), min(shares) / 1.5, max(shares) * 1.5)


def points(n: np.ndarray) -> list[dict]:
    """One row a bin: its middle on a log axis, its range as text, its items, and their share per value of N_k."""
    return [
        {
            "n": round(float(np.sqrt(low * high)), 3),
            "range": f"{low}" if low == high else f"{low} to {high}",
            "items": items,
            "share": float(f"{items / len(n) / (high - low + 1):.4g}"),
        }
        for low, high, items in log_histogram(n)
    ]


def distribution(after: np.ndarray, before: np.ndarray | None, extent: Extent) -> dict:
    """Share of the items against N_k: a line with points for ``after``, a plain line for ``before`` (or None), and a
    vertical line at the mean, the N_k of every item if all were retrieved equally often."""
    mean = [{"n": float(after.mean())}] if after.any() else []
    rows = [mean, [] if before is None else points(before), points(after)]
    layout = deepcopy(_layout())
    for layer, values in zip(layout["layer"], rows, strict=True):
        layer["data"] = {"values": values}
        layer["encoding"]["x"]["scale"]["domain"] = [0.9, extent.largest * 1.1]
        if "y" in layer["encoding"]:
            layer["encoding"]["y"]["scale"]["domain"] = [extent.lowest, extent.highest]
    return layout


@cache
def _layout() -> dict:
    """The chart without rows and ends of the axes, because Altair takes long to check a chart."""
    empty = alt.Chart(alt.Data(values=[]))
    scale = alt.Scale(type="log", domain=[1, 2], nice=False)
    x_axis = alt.Axis(values=_HUB_TICKS, grid=False, format="~s", labelOverlap="greedy")
    x = alt.X("n:Q", title=None, scale=scale, axis=x_axis)
    y = alt.Y("share:Q", title=None, scale=scale, axis=alt.Axis(values=_POWERS, format="~%"))
    tip = [
        alt.Tooltip("range:N", title="queries"),
        alt.Tooltip("items:Q"),
        alt.Tooltip("share:Q", title="share per value", format=".2%"),
    ]
    mean = empty.mark_rule(style="mean", strokeDash=[2, 3]).encode(x=x)
    old = empty.mark_line(style="before").encode(x=x, y=y)
    new = empty.mark_line(style="after-line", strokeWidth=2, point={"size": 16, "style": "after-point"})
    return spec(alt.layer(mean, old, new.encode(x=x, y=y, tooltip=tip)), height=SMALL)


_GROWTH = 1.25


def log_histogram(n: np.ndarray) -> list[tuple[int, int, int]]:
    """(first N_k, last N_k, items) of each bin with items, for N_k of at least 1: 1, 2, 3, 4 to 5, 6 to 7, 8 to 10, ...

    A bin ends a quarter above its start, so that bins have equal widths on a log axis and a long tail is readable."""
    edges = log_edges(int(n.max(initial=0)))
    counts, _ = np.histogram(n, edges)
    return [
        (low, high - 1, int(count)) for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True) if count
    ]


def log_edges(largest: int) -> list[int]:
    """The starts of the bins of ``log_histogram`` and the end of the last one; at least two edges."""
    edges = [1]
    while edges[-1] <= largest or len(edges) < 2:
        edges.append(max(edges[-1] + 1, int(edges[-1] * _GROWTH) + 1))
    return edges
