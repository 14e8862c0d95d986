"""--max-drop: when a comparison counts as a failure."""

from vse_pipe.core.errors import Regression
from vse_pipe.ranking.comparison import Comparison, FigureRow

# Below this no p-value can be significant, and nothing could ever fail.
FEWEST_RESAMPLES = 40
_WATCHED = ("r@1", "r@5", "r@10", "mrr", "map", "map@r", "r_precision", "ndcg@10", "rsum")


def check(comparisons: list[Comparison], max_drop: float) -> None:
    """Raises Regression when R@K of either direction, mrr, map, map@r, r_precision, ndcg@10 or rsum is lower in B
    than in A by more than ``max_drop`` points with p < 0.05, Holm's where there are several B's. Med r and Mean r, which are no shares, and hubness never
    count."""
    lines = [
        f"{one.b.metrics.get('inference')}: {line}"
        for one in comparisons
        for line in map(_line, (row for row in one.rows if _fell(row, max_drop)))
    ]
    if lines:
        raise Regression("\n".join(f"{line}; allowed is {max_drop:g}" for line in lines))


def _fell(row: FigureRow, max_drop: float) -> bool:
    return row.address[-1] in _WATCHED and -row.difference > max_drop and row.significant


def _line(row: FigureRow) -> str:
    return f"{' '.join(row.address)} fell by {-row.difference:.2f} ({row.a:.2f} to {row.b:.2f}, p = {row.decisive:.3f})"
