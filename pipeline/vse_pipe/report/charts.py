"""Charts of the page as Vega-Lite specifications."""

from typing import Any

import numpy as np
import pandas as pd

from vse_pipe.report.bins import log_histogram
from vse_pipe.report.settings import Point
from vse_pipe.report.vega import Encoding, chart, epochs_axis, layer, name, number, tip

SMALL, _MEDIUM, _LARGE = 130, 240, 280
# Values with this ratio of largest to smallest get a logarithmic axis (1, 2, 5, 10; 32, 64, 128,
# 256).
_RATIO = 8
_TIGHT = {"zero": False, "nice": True}


def validation(histories: dict[str, pd.DataFrame]) -> dict:
    """rsum on the validation split per epoch, one line a run; a point marks the best epoch."""
    rows: list[dict] = [
        {"run": run, "epoch": int(epoch), "rsum": float(value), "kept": bool(row == best)}
        for run, table in histories.items()
        for best in [table["val_rsum"].idxmax()]
        for row, epoch, value in zip(table.index, table["epoch"], table["val_rsum"], strict=True)
    ]
    # The dash tells runs apart without colour. A sort order, or points in the lines' colours, would
    # make two legends.
    run = name("run", scale={"domain": list(histories)})
    return chart(
        rows,
        _LARGE,
        layer("line", {"color": run, "strokeDash": run}, strokeWidth=2),
        layer("point", where="datum.kept", filled=True, size=60, style="kept"),
        x=epochs_axis([row["epoch"] for row in rows]),
        y=number("rsum", "validation rsum", scale=_TIGHT),
        tooltip=[tip("run"), tip("epoch"), tip("rsum", ".1f")],
    )


def training(table: pd.DataFrame) -> dict:
    """Training loss per epoch of one run, on a separate axis, because losses differ in scale and
    meaning."""
    epochs = [int(epoch) for epoch in table["epoch"]]
    rows = [{"epoch": epoch, "loss": float(value)} for epoch, value in zip(epochs, table["loss"], strict=True)]
    return chart(
        rows,
        SMALL,
        layer("line", strokeWidth=2, style="after-line"),
        x=epochs_axis(epochs),
        y=number("loss", scale={"zero": False}, axis={"tickCount": 4}),
        tooltip=[tip("epoch"), tip("loss", ".4g")],
    )


def sweep(points: list[Point], baselines: list[Point], title: str, line: str) -> dict:
    """rsum against the swept value: a line through the means, a band from lowest to highest for
    runs with equal values, a point and a vertical 95% interval a run, a horizontal line a baseline.
    line: its name in the legend."""
    rows = [
        {"x": point.x, "rsum": point.rsum, "low": low, "high": high, "run": point.run, "series": line}
        for point in points
        for low, high in [point.interval or (None, None)]
    ]
    level = [{"rsum": point.rsum, "run": point.run, "series": point.run} for point in baselines]
    # The line comes first in the domain and so has the accent's colour, like its band and its
    # points.
    domain = {"domain": [line, *(row["series"] for row in level)]}
    series = name("series", scale=domain, legend={} if level else None)
    styled = {"color": series, "strokeDash": series}
    x = {"x": _swept([point.x for point in points if point.x is not None], title)}
    tips = [tip("run"), tip("rsum", ".1f")]
    layers = [
        layer("area", {**x, "y": _rsum(aggregate="min"), "y2": _rsum(aggregate="max")}, style="band"),
        layer("line", {**x, "y": _rsum(aggregate="mean"), **styled}, strokeWidth=2),
        layer(
            "point",
            {**x, "y": _rsum(), "tooltip": [*tips, tip("x", title=title)]},
            filled=True,
            size=60,
            style="after-point",
        ),
    ]
    if any(point.interval for point in points):
        span = {**x, "y": _rsum("low"), "y2": {"field": "high"}}
        layers.insert(1, layer("rule", span, where="isValid(datum.low)", style="interval"))
    if level:
        layers.append(layer("rule", {"y": _rsum(), "tooltip": tips, **styled}, rows=level, strokeWidth=1.5))
    return chart(rows, _LARGE, *layers)


def _rsum(field: str = "rsum", **options: Any) -> Encoding:
    return number(field, "rsum", scale=_TIGHT, **options)


def _swept(values: list[float], title: str) -> Encoding:
    """An axis with a tick at each value of a run; logarithmic if they span a ratio of 8 or more."""
    is_wide = min(values) > 0 and max(values) >= _RATIO * min(values)
    kind: dict[str, Any] = {"type": "log"} if is_wide else {"type": "linear", "zero": False}
    # A format takes its precision from the distance between ticks: 128 became 1.3e+2.
    labels = {"labelExpr": "'' + datum.value", "grid": False, "labelOverlap": "greedy"}
    axis = {"values": sorted(set(values)), **labels}
    return number("x", title, scale={**kind, "nice": False, "padding": 14}, axis=axis)


KINDS = ("matched", "mismatched")
_UNKNOWN = "pairs"


def losses(table: pd.DataFrame) -> dict:
    """Bars: pairs per bin, split into matched and mismatched if the truth is known; lines: pairs
    expected by each component of the mixture. table: histogram.csv."""
    is_labelled = table["matched"].notna().all()
    kinds = list(KINDS) if is_labelled else [_UNKNOWN]
    bars = []
    for row in table.to_dict("records"):
        foot = 0
        for kind in kinds:
            top = foot + int(row[kind])
            bars.append({"low": row["low"], "high": row["high"], "from": foot, "to": top, "kind": kind})
            bars[-1]["count"] = top - foot
            foot = top
    colour = name("kind", scale={"domain": list(KINDS) if is_labelled else [*KINDS, _UNKNOWN]})
    x = number("low", "loss of the pair", scale={"nice": False}, axis={"grid": False})
    spans = {"x2": {"field": "high"}, "y": number("from", "pairs"), "y2": {"field": "to"}}
    tips = [tip("low", ".3f"), tip("high", ".3f"), tip("kind"), tip("count")]
    layers = [layer("bar", {**spans, "tooltip": tips}, rows=bars, opacity=0.55)]
    if table["expected_matched"].notna().all():
        lines = [
            {"low": (row["low"] + row["high"]) / 2, "expected": row[f"expected_{kind}"], "kind": kind}
            for kind in KINDS
            for row in table.to_dict("records")
        ]
        dashed = {"y": number("expected", "pairs"), "strokeDash": name("kind", legend=None)}
        layers.append(layer("line", dashed, rows=lines, strokeWidth=2))
    return chart([], _MEDIUM, *layers, x=x, color=colour)


def costs(table: pd.DataFrame) -> dict:
    """Median transport cost of matched and of mismatched pairs per epoch, in a band from the first
    to the third quartile. table: rows of ``quartiles``."""
    dashed = {"strokeDash": name("kind", legend=None), "tooltip": [tip("epoch"), tip("kind"), tip("median", ".3f")]}
    cost = {"title": "transport cost", "scale": {"zero": False}}
    return chart(
        table.to_dict("records"),
        _MEDIUM,
        layer("area", {"y": number("low") | cost, "y2": {"field": "high"}}, opacity=0.18),
        layer("line", {"y": number("median") | cost, **dashed}, strokeWidth=2, point=True),
        x=epochs_axis(table["epoch"].tolist()),
        color=name("kind", scale={"domain": list(KINDS)}),
    )


def reviewed(ranked: list[dict]) -> dict:
    """Mismatches found against pairs reviewed, expected and in truth. ranked: of metrics.json."""
    rows = [
        {"reviewed": row["first"], "found": row[key] * row["first"], "kind": kind}
        for kind, key in (("expected", "estimated"), ("in truth", "precision"))
        for row in ranked
        if row[key] is not None
    ]
    x, y = number("reviewed", "pairs reviewed, the most doubtful first"), number("found", "mismatches found")
    shared = {"color": name("kind"), "strokeDash": name("kind")}
    tips = [tip("reviewed"), tip("found", ".0f")]
    return chart(rows, _MEDIUM, layer("line", strokeWidth=2, point=True), x=x, y=y, **shared, tooltip=tips)


def alignment(mean: list[float]) -> dict:
    """Bars: the mean refined alignment by rank; line: the level of a uniform alignment (L2RM,
    Figure 7)."""
    rows = [{"rank": rank, "weight": weight} for rank, weight in enumerate(mean, 1)]
    x = number("rank", "captions of the batch, sorted", scale={"nice": False}, axis={"grid": False})
    y = {"y": number("weight", "refined alignment")}
    return chart(
        rows,
        SMALL,
        layer("bar", {"x": x, **y, "tooltip": [tip("rank"), tip("weight", ".4f")]}, rows=rows),
        layer("rule", y, rows=[{"weight": 1 / len(mean)}], strokeWidth=1.5, strokeDash=[4, 4]),
    )


def quartiles(table: pd.DataFrame) -> pd.DataFrame:
    """epoch, kind, low, median, high from costs.csv, with values spread evenly within a bin; kinds
    without pairs are absent."""
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
    """A line a criterion, a point a bin with pairs, and the diagonal. measured: of metrics.json."""
    rows = [
        {"criterion": criterion, "told": bins["probability"], "matched": bins["matched"], "pairs": bins["pairs"]}
        for criterion, figures in measured.items()
        for bins in figures["bins"]
        if bins["pairs"]
    ]
    colour = name("criterion", legend=None, scale={"domain": list(measured)})
    coloured = {"color": colour, "tooltip": [tip("criterion"), tip("told", ".3f"), tip("matched", ".3f"), tip("pairs")]}
    return chart(
        rows,
        260,
        layer("line", rows=[{"told": 0, "matched": 0}, {"told": 1, "matched": 1}], **_DIAGONAL),
        layer("line", coloured, strokeWidth=1.75),
        layer("point", coloured, filled=True, size=45, opacity=1),
        x=number("told", "probability told", scale=_UNIT, axis={"grid": False, "tickCount": 5}),
        y=number("matched", scale=_UNIT, axis={"tickCount": 5}),
    )


_UNIT = {"domain": [0, 1]}
_DIAGONAL: dict[str, Any] = {"strokeDash": [4, 4], "strokeWidth": 1, "opacity": 0.5}


def balance(rows: list[tuple[str, int, int]]) -> dict:
    """Bars to the right for repaired queries, to the left for broken ones. rows: criterion,
    repaired, broken."""
    bars = [
        {"criterion": criterion, "change": kind, "queries": count, "at": sign * count}
        for criterion, repaired, broken in rows
        for kind, count, sign in (("repaired", repaired, 1), ("broken", broken, -1))
    ]
    return chart(
        bars,
        22 * len(rows) + 10,
        *(
            layer("bar", where=f"datum.change === '{kind}'", style=kind, height={"band": 0.7})
            for kind in ("repaired", "broken")
        ),
        x=number("at", axis={"labelExpr": "abs(datum.value)", "tickCount": 5, "format": "d"}),
        y=name("criterion", sort=None, axis={"domain": False, "ticks": False}),
        tooltip=[tip("criterion"), tip("change"), tip("queries")],
    )


PARTS = ("validation", "ranked")


def curves(tables: dict[str, pd.DataFrame], names: dict[str, str]) -> dict:
    """R@K against lambda for one direction and K, one colour a criterion and one dash a split; a
    point marks the chosen lambda. tables: rows of relaxation.parquet by criterion. names: of the
    two splits, by PARTS."""
    rows = [
        {"criterion": criterion, "split": names[part], "lambda": lam, "recall": round(value, 3), "chosen": chosen}
        for criterion, table in tables.items()
        for part in PARTS
        for lam, value, chosen in zip(table["lambda"], table[part], table["chosen"].tolist(), strict=True)
        if pd.notna(value)
    ]
    dash = name("split", legend=None, scale={"domain": [names[part] for part in PARTS]})
    return chart(
        rows,
        190,
        layer("line", {"strokeDash": dash}, strokeWidth=1.75),
        layer("point", where="datum.chosen", filled=True, size=55, opacity=1),
        x=number("lambda", "λ", axis={"grid": False, "tickCount": 10}, scale={"zero": False, "nice": False}),
        y=number("recall", scale=_TIGHT, axis={"tickCount": 5}),
        color=name("criterion", legend=None, scale={"domain": list(tables)}),
        tooltip=[tip("criterion"), tip("split"), tip("lambda"), tip("recall", ".1f")],
    )


# N_k as the papers draw it (HAL and RGM, Figs. 2 and 3): both axes logarithmic, before and after a
# criterion.
#
# Unlike the papers, items are binned and a bin's share is divided by its width, because few items
# of a small data set share a large N_k. Items with N_k = 0 have no place on a log axis; the page
# gives their number.

_POWERS = [10.0**power for power in range(-6, 7)]
_HUB_TICKS = [first * 10**power for power in range(7) for first in (1, 2, 5)]
# The largest N_k, and the lowest and highest share.
Extent = tuple[int, float, float]


def extent(columns: list[np.ndarray]) -> Extent:
    """Of the charts of a row. columns: N_k of the items under each criterion."""
    shares = [row["share"] for n in columns for row in points(n)] or [1.0]
    return max(2, *(int(n.max()) for n in columns)), min(shares) / 1.5, max(shares) * 1.5


def points(n: np.ndarray) -> list[dict]:
    """One row a bin: its middle on a log axis, its range as text, its items, and their share per
    value of N_k."""
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
    """Share of the items against N_k: a line with points for ``after``, a plain line for ``before``
    (or None), and a vertical line at the mean, the N_k of every item if all were retrieved equally
    often."""
    largest, lowest, highest = extent
    mean = [{"n": float(after.mean())}] if after.any() else []
    log = {"type": "log", "nice": False}
    ticks = {"values": _HUB_TICKS, "grid": False, "format": "~s", "labelOverlap": "greedy"}
    x = number("n", scale={**log, "domain": [0.9, largest * 1.1]}, axis=ticks)
    y = number("share", scale={**log, "domain": [lowest, highest]}, axis={"values": _POWERS, "format": "~%"})
    tips = [tip("range", title="queries"), tip("items"), tip("share", ".2%", "share per value")]
    line: dict[str, Any] = {"style": "after-line", "strokeWidth": 2, "point": {"size": 16, "style": "after-point"}}
    return chart(
        [],
        SMALL,
        layer("rule", {"x": x}, rows=mean, style="mean", strokeDash=[2, 3]),
        layer("line", {"x": x, "y": y}, rows=[] if before is None else points(before), style="before"),
        layer("line", {"x": x, "y": y, "tooltip": tips}, rows=points(after), **line),
    )
