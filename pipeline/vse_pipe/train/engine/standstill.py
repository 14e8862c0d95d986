"""Whether a run stands still before it has learned anything: said after the epoch, and ended where nothing can move it.

On a plateau loss and validation stand still at chance, and the gradients are as large as ever. Training may leave a plateau: MAX
stands at ``2 x batch x margin`` for some epochs, with gradients of norm 0.3 and more. A dead run has no gradients: where HAL's relu passes
none, their norm falls below 1e-6 within an epoch. Only a dead run is ended.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from vse_pipe.core.console import warn
from vse_pipe.core.errors import DeadRun

# Norm of all gradients below which no weight moves. Spread over a million weights it is a tenth of the eps that Adam divides by.
VANISHED = 1e-6
# A loss of which no gradient is left has not reached its minimum of 0.
UNSOLVED = 1e-3
# Relative change of the mean loss, between the last two quarters of an epoch, below which it stands still.
STILL = 1e-3
# Steps that an epoch needs to tell whether its loss stands still: two a quarter.
FEWEST = 8
# Chance varies: rsum is at chance up to half above it, or a twentieth of the way to the highest rsum, whichever is less.
ABOVE, ON_THE_WAY, HIGHEST = 0.5, 0.05, 600.0


class StepResult(NamedTuple):
    """Mean loss of a step's batch, norm of all gradients before clipping, and pairs of the batch."""

    loss: float
    norm: float
    pairs: int


@dataclass
class Watch:
    """Looks at every epoch of a run.

    name: of the run; loss: of its loss. chance: rsum that random ranks have on the validation split. stuck: mean loss and pairs of
    a batch to what the loss says of a point that it does not leave; None of a loss that says nothing. stops: whether a dead run is
    ended, ``train.stop_when_dead``.
    """

    name: str
    loss: str
    chance: float
    stuck: Callable[[float, int], str | None] | None = None
    stops: bool = True
    warned: int = 0

    def after(self, epoch: int, steps: Sequence[StepResult], rsum: float) -> None:
        """Warn of the first epoch that stood still at chance. Raises DeadRun where no gradient is left.

        epoch: counted from 1. steps: those of the epoch in their order; rsum: that of validation after it.
        """
        if not steps or not self._at_chance(rsum):
            return
        pairs = max(step.pairs for step in steps)
        losses = [step.loss for step in steps if step.pairs == pairs]  # the loss of a short batch is another
        quarter = -(-len(losses) // 4)
        value = float(np.mean(losses[-quarter:]))
        reason = self.stuck(value, pairs) if self.stuck else None
        norm = max(step.norm for step in steps[-quarter:])
        place = (
            f"train {self.name}, epoch {epoch}: validation rsum {rsum:.1f} is about that of chance ({self.chance:.1f})"
        )
        if norm <= VANISHED and (reason or value > UNSOLVED):
            reason = reason or f"the loss stands at {value:.4g}; {self._advice()}"
            message = f"{place}, and no gradient is left (norm {norm:.1e}): {reason}"
            if self.stops:
                raise DeadRun(f"{message}; train.stop_when_dead: false trains on")
            self._warn(epoch, message)
        elif reason:
            self._warn(epoch, f"{place}, and {reason}")
        elif len(losses) >= FEWEST:
            before = float(np.mean(losses[-2 * quarter : -quarter]))
            if abs(value - before) < STILL * abs(before):
                self._warn(
                    epoch, f"{place}, and the loss stands still at {value:.4g}; if it stays there, {self._advice()}"
                )

    def end(self, row: Mapping[str, Any], pairs: int) -> str | None:
        """Why a run that has ended at chance stood still, None for every other run. It is a warning too, unless ``after`` has just said so.

        row: the last of history.csv; pairs: of a batch.
        """
        reason = self.stuck(row["loss"], pairs) if self.stuck and self._at_chance(row["val_rsum"]) else None
        if reason and self.warned != row["epoch"]:
            warn(f"train {self.name}: {reason}")
        return reason

    def _at_chance(self, rsum: float) -> bool:
        return rsum <= self.chance + min(ABOVE * self.chance, ON_THE_WAY * (HIGHEST - self.chance))

    def _warn(self, epoch: int, message: str) -> None:
        if not self.warned:
            warn(message)
            self.warned = epoch

    def _advice(self) -> str:
        return f"change train.lr or train.warm_up, the options of loss.{self.loss}, or train.precision"
