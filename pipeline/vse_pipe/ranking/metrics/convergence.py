"""Convergence of a run: one rule for early stopping and finished runs, from the validation rsum of each epoch."""

from collections.abc import Sequence

# Epochs of patience for a run without one.
WINDOW = 3
# The last epochs of a flat curve may raise the best rsum by this share (3 of 300 points), or by these points if that is
# more: at chance level a hundredth of rsum is less than one query in a hundred.
RISE, NOISE = 0.01, 0.5


def waited(rsums: Sequence[float], since: int = 0) -> int:
    """Epochs since the first best rsum, or since the first ``since`` epochs if these are fewer.

    rsums: of every epoch so far. since: epochs that do not count as waiting, such as a warm-up.
    """
    best = max(range(len(rsums)), key=rsums.__getitem__) + 1 if rsums else 0
    return max(0, len(rsums) - max(best, since))


def converged(rsums: Sequence[float], patience: int | None = None) -> bool:
    """Whether the last ``patience`` epochs raised the best rsum by at most a hundredth of it, or half a point if more.

    A run ended by patience has converged. A run that ended with its last epoch has converged if its curve is flat. A
    run of at most ``patience`` epochs is judged by all epochs after its first; a single epoch has not converged.

    rsums: of every epoch, in percent. patience: of the run; None: 3 epochs.
    """
    last = min(patience or WINDOW, len(rsums) - 1)
    return last > 0 and max(rsums) - max(rsums[:-last]) <= max(RISE * max(rsums), NOISE)
