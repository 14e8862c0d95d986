"""N_k as the papers draw it (HAL and RGM, Figs. 2 and 3): both axes logarithmic, before and after a criterion.

Differs from them: items are binned, and a bin's share is divided by its width, because a small data set has hardly two
items with the same large N_k. Items with N_k = 0 have no place on a log axis; the page says how many there are.
"""

from copy import deepcopy
from dataclasses import dataclass
from functools import cache

import altair as alt
import numpy as np

from vse_pipe.report.engine.charts import SMALL, spec
from vse_pipe.report.engine.hubness import log_histogram

_POWERS = [10.0**power for power in range(-6, 7)]
_TICKS = [first * 10**power for power in range(7) for first in (1, 2, 5)]


@dataclass(frozen=True)
class Extent:
    """What the charts of a row share: the largest N_k, and the lowest and the highest share."""

    largest: int
    lowest: float
    highest: float


def extent(columns: list[np.ndarray]) -> Extent:
    """columns: N_k of the items under each criterion."""
    shares = [row["share"] for n in columns for row in points(n)] or [1.0]
    return Extent(max(2, *(int(n.max()) for n in columns)), min(shares) / 1.5, max(shares) * 1.5)


def points(n: np.ndarray) -> list[dict]:
    """One a bin: its middle on a log axis, its values in words, its items, and their share per value of N_k."""
    return [
        {
            "n": round(float(np.sqrt(low * high)), 3),
            "range": f"{low}" if low == high else f"{low} to {high}",
            "items": items,
            "share": float(f"{items / len(n) / (high - low + 1):.4g}"),
        }
        for low, high, items in log_histogram(n)
    ]


def distribution(after: np.ndarray, before: np.ndarray | None, shared: Extent) -> dict:
    """Share of the items against N_k: a line with points after, a plain line before (None: nothing to compare with), and
    an upright line at the mean, where all items would be if all were retrieved equally often."""
    mean = [{"n": float(after.mean())}] if after.any() else []
    rows = [mean, [] if before is None else points(before), points(after)]
    made = deepcopy(_layout())
    for layer, values in zip(made["layer"], rows, strict=True):
        layer["data"] = {"values": values}
        layer["encoding"]["x"]["scale"]["domain"] = [0.9, shared.largest * 1.1]
        if "y" in layer["encoding"]:
            layer["encoding"]["y"]["scale"]["domain"] = [shared.lowest, shared.highest]
    return made


@cache
def _layout() -> dict:
    """Everything but the rows and the ends of the axes: Altair needs longer to check a chart than all the rest takes."""
    empty = alt.Chart(alt.Data(values=[]))
    scale = alt.Scale(type="log", domain=[1, 2], nice=False)
    x_axis = alt.Axis(values=_TICKS, grid=False, format="~s", labelOverlap="greedy")
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
