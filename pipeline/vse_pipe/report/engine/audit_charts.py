"""The charts of an audit: losses with the fitted mixture, and transport costs over the epochs."""

import altair as alt
import pandas as pd

from vse_pipe.report.engine.charts import SMALL, epochs_axis, spec

KINDS = ("matched", "mismatched")
_UNKNOWN = "pairs"
_HEIGHT = 240


def losses(table: pd.DataFrame) -> dict:
    """Bars: pairs per bin, matched under mismatched where the truth is known; lines: what each component of the mixture
    expects there. table: histogram.csv."""
    known = table["matched"].notna().all()
    kinds = list(KINDS) if known else [_UNKNOWN]
    bars = [bar for row in table.to_dict("records") for bar in _stacked(row, kinds)]
    scale = alt.Scale(domain=list(KINDS) if known else [*KINDS, _UNKNOWN])
    colour = alt.Color("kind:N", title=None, scale=scale)
    x = alt.X("low:Q", title="loss of the pair", scale=alt.Scale(nice=False), axis=alt.Axis(grid=False))
    tip = [
        alt.Tooltip("low:Q", format=".3f"),
        alt.Tooltip("high:Q", format=".3f"),
        alt.Tooltip("kind:N"),
        alt.Tooltip("count:Q"),
    ]
    layers = [
        alt.Chart(alt.Data(values=bars))
        .mark_bar(opacity=0.55)
        .encode(x=x, x2="high:Q", y=alt.Y("from:Q", title="pairs"), y2="to:Q", color=colour, tooltip=tip)
    ]
    lines = [
        {"low": (row["low"] + row["high"]) / 2, "expected": row[f"expected_{kind}"], "kind": kind}
        for kind in KINDS
        for row in table.to_dict("records")
    ]
    if table["expected_matched"].notna().all():
        line = alt.Chart(alt.Data(values=lines)).mark_line(strokeWidth=2)
        layers.append(
            line.encode(x="low:Q", y="expected:Q", color=colour, strokeDash=alt.StrokeDash("kind:N", legend=None))
        )
    return spec(alt.layer(*layers), height=_HEIGHT)


def _stacked(row: dict, kinds: list[str]) -> list[dict]:
    """One bar a kind, each on top of the one before."""
    made, foot = [], 0
    for kind in kinds:
        count = int(row[kind])
        made.append(
            {"low": row["low"], "high": row["high"], "from": foot, "to": foot + count, "kind": kind, "count": count}
        )
        foot += count
    return made


def costs(table: pd.DataFrame) -> dict:
    """Median transport cost of matched and of mismatched pairs per epoch, in a band from the first to the third quartile.

    table: rows of ``quartiles``.
    """
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


def alignment(mean: list[float]) -> dict:
    """Bars: the mean refined alignment by rank, and the level at which all captions would have the same (L2RM, Figure 7)."""
    rows = [{"rank": rank, "weight": weight} for rank, weight in enumerate(mean, 1)]
    x = alt.X("rank:Q", title="captions of the batch, sorted", scale=alt.Scale(nice=False), axis=alt.Axis(grid=False))
    base = alt.Chart(alt.Data(values=rows)).encode(x=x, y=alt.Y("weight:Q", title="refined alignment"))
    tip = [alt.Tooltip("rank:Q"), alt.Tooltip("weight:Q", format=".4f")]
    level = alt.Chart(alt.Data(values=[{"weight": 1 / len(mean)}])).mark_rule(strokeWidth=1.5, strokeDash=[4, 4])
    return spec(alt.layer(base.mark_bar().encode(tooltip=tip), level.encode(y="weight:Q")), height=SMALL)


def quartiles(table: pd.DataFrame) -> pd.DataFrame:
    """epoch, kind, low, median, high from costs.csv, values within a bin spread evenly; kinds without pairs left out."""
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
