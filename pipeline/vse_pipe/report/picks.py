"""Which queries the page shows."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

# In this order they take turns, so that a short page shows both gains and losses of a criterion.
KINDS = ("repaired", "right", "wrong", "broken")


@dataclass(frozen=True)
class Pick:
    """kind: repaired (wrong under the baseline, right under the contrast), broken, right, wrong."""

    query_id: int
    kind: str


def mix(baseline: pd.DataFrame, contrast: pd.DataFrame, count: int, generator: np.random.Generator) -> list[Pick]:
    """At most ``count`` queries, the kinds by turns; right means a hit at 1.

    baseline, contrast: ranks of the same queries, indexed by query_id in ascending order, so that
    only the generator chooses."""
    before, after = baseline["hit_1"].to_numpy(), contrast["hit_1"].to_numpy()
    masks = {"repaired": ~before & after, "right": before & after, "wrong": ~before & ~after, "broken": before & ~after}
    ids = baseline.index.to_numpy()
    waiting = {kind: list(generator.permutation(ids[masks[kind]])) for kind in KINDS}
    chosen: list[Pick] = []
    while len(chosen) < count and any(waiting.values()):
        for kind in KINDS:
            if waiting[kind] and len(chosen) < count:
                chosen.append(Pick(int(waiting[kind].pop()), kind))
    return chosen


def change(baseline: pd.DataFrame, contrast: pd.DataFrame, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The ids, ascending, of queries that turn right at K = ``k``, and of those that turn wrong.
    baseline, contrast: as in ``mix``."""
    before, after = baseline[f"hit_{k}"].to_numpy(), contrast[f"hit_{k}"].to_numpy()
    ids = baseline.index.to_numpy()
    return ids[~before & after], ids[before & ~after]


def worst(ranks: pd.DataFrame, count: int) -> list[int]:
    """query_ids with the lowest ranks of the best correct item, worst first, then by query_id."""
    missed = ranks[ranks["rank"] > 1]
    return [int(number) for number in missed.sort_values("rank", ascending=False, kind="stable").index[:count]]
