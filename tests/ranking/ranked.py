"""ranks.parquet and occurrence.parquet as tables, drawn at random: for tests of what reads them."""

import functools

import numpy as np
import pyarrow as pa

from tests.naive import evaluate as naive

TOP = pa.list_(pa.field("element", pa.int64(), nullable=False))
SHARES = ("ap", "ap_at_r", "r_precision", "ndcg_10")


@functools.lru_cache(maxsize=64)
def tables(
    images: int = 40, captions: int = 3, folds: int = 1, quality: float = 0.5, seed: int = 0, matching: bool = False
) -> tuple[pa.Table, pa.Table]:
    """Every fold has ``images`` images; image i has 1 + i mod ``captions`` captions. quality: chance of a
    first rank, in units of an image's own ease, which its captions share. Ids are neither dense nor
    sorted."""
    ranks, occurrence = [], []
    for fold in range(folds):
        rng = np.random.default_rng([seed, fold])
        # Same queries whatever the seed, so that two evaluations can be paired.
        ids = np.random.default_rng(fold).permutation(images) * 10 + 7 + 10_000 * fold
        owners = np.repeat(ids, 1 + np.arange(images) % captions)
        texts = np.arange(len(owners))[::-1] + 100_000 * (1 + fold)
        ease = dict(zip(ids.tolist(), rng.random(images), strict=True))
        sides = {"image_to_text": (ids, ids, texts), "text_to_image": (texts, owners, ids)}
        for direction, (queries, of_image, items) in sides.items():
            eases = np.array([ease[image] for image in of_image.tolist()])
            one = _side(rng, queries, of_image, items, eases, quality, matching)
            ranks.append(_heading(one, direction, fold))
            occurrence.append(_heading(_occurrence(one, items), direction, fold))
    return pa.concat_tables(ranks), pa.concat_tables(occurrence)


def _side(rng, queries, of_image, items, eases, quality, matching) -> pa.Table:
    count = len(queries)
    position = 1.0 + rng.geometric(np.clip(0.6 * quality * eases + 0.2 * quality, 0.02, 1.0), count) - 1
    popular = np.arange(len(items), 0, -1) ** 2.0
    popular /= popular.sum()
    lengths = rng.integers(0, 11, count) if matching else np.full(count, 10)
    chosen = [rng.choice(items, min(n, len(items)), replace=False, p=popular) for n in lengths]
    shares = rng.random((len(SHARES), count))
    columns = {
        "query_id": queries,
        "image_id": of_image,
        "rank": pa.nulls(count, pa.float64()) if matching else position,
        **{f"hit_{k}": position <= k for k in (1, 5, 10)},
        **{name: pa.nulls(count, pa.float64()) if matching else shares[i] for i, name in enumerate(SHARES)},
        "top": pa.array(chosen, type=TOP),
    }
    return pa.table(columns)


def _occurrence(ranks: pa.Table, items: np.ndarray) -> pa.Table:
    tops = ranks["top"].to_pylist()
    counts = {}
    for k in (1, 5, 10):
        times = dict.fromkeys(items.tolist(), 0)
        for top in tops:
            for item in top[:k]:
                times[item] += 1
        counts[f"n_{k}"] = pa.array(list(times.values()), pa.int32())
    return pa.table({"item_id": items, **counts})


def _heading(table: pa.Table, direction: str, fold: int) -> pa.Table:
    table = table.add_column(0, "fold", pa.repeat(pa.scalar(fold, pa.int32()), len(table)))
    return table.add_column(0, "direction", pa.repeat(direction, len(table)))


def measured(rows: list[dict], occurrence: pa.Table, times: dict[int, dict]) -> dict[tuple, float]:
    """By address, in plain loops. rows: of ranks; times: by fold and image, how often it counts."""
    items: dict[tuple, list] = {}
    for row in occurrence.to_pylist():
        items.setdefault((row["direction"], row["fold"]), []).append(row["item_id"])
    return flat(naive.measure(rows, items, times))


def flat(nested: dict) -> dict[tuple, object]:
    """By address, as Figures gives them."""
    found = {}
    for name, value in nested.items():
        found |= {(name, metric): one for metric, one in value.items()} if isinstance(value, dict) else {(name,): value}
    return found
