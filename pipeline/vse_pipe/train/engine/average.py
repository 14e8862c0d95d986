"""Exponential moving averages of a run's weights: what is validated, kept and exported in their place."""

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from vse_pipe.train.engine.model import DualEncoder


def _rising(decay: float) -> Callable[[Any, Any, Tensor | int], None]:
    def follow(averaged: Any, current: Any, steps: Tensor | int) -> None:
        count = int(steps)
        get_ema_multi_avg_fn(min(decay, (1 + count) / (10 + count)))(averaged, current, steps)

    return follow


class Averages:
    """Of each of the scheme's models ``d * average + (1 - d) * weights`` after each of its steps; the first is the weights
    themselves. After n steps d is ``decay``, or (1 + n) / (10 + n) where that is less (TensorFlow's ``num_updates``): else the
    average of a short training would still be what it began with. Buffers are averaged too, such as running statistics, which belong to the weights they were taken
    under. decay: None for none, ``models`` are then the scheme's own.
    """

    def __init__(self, models: Sequence[DualEncoder], decay: float | None) -> None:
        self._own = tuple(models)
        # Any: their ``module`` is a DualEncoder, which torch does not say.
        self._averaged: list[Any] = [
            AveragedModel(model, multi_avg_fn=_rising(decay), use_buffers=True)
            for model in self._own
            if decay is not None
        ]
        for one in self._averaged:
            one.eval()

    def __bool__(self) -> bool:
        return bool(self._averaged)

    @property
    def models(self) -> tuple[DualEncoder, ...]:
        """What is validated and kept."""
        return tuple(one.module for one in self._averaged) or self._own

    def start(self, epoch: int, anew: bool) -> None:
        """Before an epoch, counted from 0. anew: it begins with fresh weights, so nothing before counts."""
        for one in self._averaged:
            one.module.start(epoch)
            if anew:
                one.n_averaged.zero_()

    def follow(self, model: DualEncoder) -> None:
        """After a step of ``model``."""
        for own, one in zip(self._own, self._averaged, strict=False):
            if own is model:
                one.update_parameters(model)

    def end(self) -> None:
        """After an epoch. Weights that were set without a step (``cca``) are their own average."""
        for own, one in zip(self._own, self._averaged, strict=False):
            if not one.n_averaged:
                one.update_parameters(own)

    def state(self) -> dict[str, Tensor]:
        return {
            f"{place}/{name}": tensor
            for place, one in enumerate(self._averaged)
            for name, tensor in one.state_dict().items()
        }

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Take over what ``state`` gave."""
        for place, one in enumerate(self._averaged):
            prefix = f"{place}/"
            one.load_state_dict(
                {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
            )
