"""Which queries the page shows: a fixed mix of repaired, right, broken and wrong ones, drawn from the seed."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

# In the order they take turns: a short page still shows that a criterion can both help and hurt.
KINDS = ("repaired", "right", "wrong", "broken")


@dataclass(frozen=True)
class Pick:
    """repaired: wrong under the baseline, right under the contrast; broken: the reverse; right, wrong: under both."""

    query_id: int
    kind: str


def mix(baseline: pd.DataFrame, contrast: pd.DataFrame, count: int, generator: np.random.Generator) -> list[Pick]:
    """``count`` queries (fewer if there are not so many), the kinds taking turns; right means a hit at 1.

    baseline, contrast: ranks of the same queries, indexed by query_id in ascending order, so that the choice depends
    on the generator alone.
    """
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


@dataclass(frozen=True)
class Change:
    """Queries that a criterion answers and the baseline does not, and the reverse; ids in ascending order."""

    repaired: np.ndarray
    broken: np.ndarray


def change(baseline: pd.DataFrame, contrast: pd.DataFrame, k: int) -> Change:
    """What turns right or wrong at K = ``k``. baseline, contrast: as for ``mix``."""
    before, after = baseline[f"hit_{k}"].to_numpy(), contrast[f"hit_{k}"].to_numpy()
    ids = baseline.index.to_numpy()
    return Change(ids[~before & after], ids[before & ~after])


def worst(ranks: pd.DataFrame, count: int) -> list[int]:
    """query_ids whose best correct item ranks lowest, worst first; equal ranks in ascending order of query_id."""
    missed = ranks[ranks["rank"] > 1]
    return [int(number) for number in missed.sort_values("rank", ascending=False, kind="stable").index[:count]]
