"""When a run has learned what its settings give: the one rule by which training stops early, and by which a run that has
ended is said to have converged or not. It needs the validation rsum of each epoch and nothing else."""

from collections.abc import Sequence

# Of a run that names no patience.
WINDOW = 3
# The share of the best rsum by which the last epochs may still have risen: 3 of 300 points, what epochs of a flat curve differ by.
RISE = 0.01
# The points by which they may have risen however low rsum is: at chance a hundredth of it is less than one query of a hundred.
NOISE = 0.5


def waited(rsums: Sequence[float], since: int = 0) -> int:
    """Epochs in which rsum has not risen: those after the first of the best, or after the first ``since``, whichever are fewer.

    rsums: of every epoch so far. since: epochs that do not count as waiting, such as those of a warm-up.
    """
    best = max(range(len(rsums)), key=rsums.__getitem__) + 1 if rsums else 0
    return max(0, len(rsums) - max(best, since))


def converged(rsums: Sequence[float], patience: int | None = None) -> bool:
    """Whether the last ``patience`` epochs raised the best rsum by no more than a hundredth of it, or half a point if that is more.

    A run that patience has ended has converged. A run that ended with its last epoch has converged if its curve had become
    flat. A run of no more than ``patience`` epochs is judged by all epochs after its first. One epoch cannot be compared with
    anything: it has not converged.

    rsums: of every epoch, in percent. patience: that of the run; None: 3 epochs.
    """
    last = min(patience or WINDOW, len(rsums) - 1)
    return last > 0 and max(rsums) - max(rsums[:-last]) <= max(RISE * max(rsums), NOISE)
