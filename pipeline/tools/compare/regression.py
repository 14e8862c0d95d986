"""--max-drop: when a comparison counts as a failure."""

from pipeline.core.errors import Regression
from pipeline.tools.compare.difference import Comparison, FigureRow

SIGNIFICANT = 0.05
# Below this no p-value can be significant, and nothing could ever fail.
FEWEST_RESAMPLES = 40
_WATCHED = ("r@1", "r@5", "r@10", "mrr", "map", "map@r", "r_precision", "ndcg@10", "rsum")


def check(comparisons: list[Comparison], max_drop: float) -> None:
    """Raises Regression when R@K of either direction, mrr, map, map@r, r_precision, ndcg@10 or rsum is lower in B
    than in A by more than ``max_drop`` points with p < 0.05. Med r and Mean r, which are no shares, and hubness never
    count."""
    lines = [
        f"{one.b.metrics.get('inference')}: {line}"
        for one in comparisons
        for line in map(_line, (row for row in one.rows if _fell(row, max_drop)))
    ]
    if lines:
        raise Regression("\n".join(f"{line}; allowed is {max_drop:g}" for line in lines))


def _fell(row: FigureRow, max_drop: float) -> bool:
    if row.address[-1] not in _WATCHED or row.p is None:
        return False
    return -row.difference > max_drop and row.p < SIGNIFICANT


def _line(row: FigureRow) -> str:
    return f"{' '.join(row.address)} fell by {-row.difference:.2f} ({row.a:.2f} to {row.b:.2f}, p = {row.p:.3f})"
