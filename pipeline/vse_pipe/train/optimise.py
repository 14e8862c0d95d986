"""One optimisation step: Adam or SGD, gradient clipping (vsepp and its descendants)."""

from collections.abc import Callable, Sequence
from inspect import unwrap
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from vse_pipe.core import processes
from vse_pipe.core.errors import PipelineError
from vse_pipe.project.params.schema import TrainParams
from vse_pipe.train import gradient_cache
from vse_pipe.train.data import Batch
from vse_pipe.train.heads import OwnRate
from vse_pipe.train.model import DualEncoder
from vse_pipe.train.scheme import Scheme


class _Uncompiled(torch.optim.Optimizer):
    """Without the wrappers that keep torch.compile out of an optimiser: they import the compiler for it, which takes as long
    as importing the rest of torch, and nothing is compiled here."""

    zero_grad = unwrap(torch.optim.Optimizer.zero_grad)
    add_param_group = unwrap(torch.optim.Optimizer.add_param_group)
    state_dict = unwrap(torch.optim.Optimizer.state_dict)
    load_state_dict = unwrap(torch.optim.Optimizer.load_state_dict)


class _Adam(_Uncompiled, torch.optim.Adam):
    step = torch.no_grad()(unwrap(torch.optim.Adam.step))


class _SGD(_Uncompiled, torch.optim.SGD):
    step = torch.no_grad()(unwrap(torch.optim.SGD.step))


def optimizer_for(model: nn.Module, params: TrainParams) -> torch.optim.Optimizer:
    """Adam with default betas and eps, or SGD with ``params.momentum``. Parameters that take no gradient are left out.

    Each module with an ``own_rate`` is a group of its own; the first group is all the rest, at ``params.lr``.
    """
    own = {module: module.own_rate for module in model.modules() if hasattr(module, "own_rate")}
    later = next((module.takes_over for module in model.modules() if hasattr(module, "takes_over")), None)
    theirs = {parameter for module in own for parameter in module.parameters()}
    rest = [parameter for parameter in model.parameters() if parameter not in theirs]
    groups: list[dict[str, Any]] = [{"params": rest, "rate": OwnRate(params.lr), "later": later}]
    groups += [{"params": module.parameters(), "rate": rate, "later": None} for module, rate in own.items()]
    trained = [{**group, "params": [one for one in group["params"] if one.requires_grad]} for group in groups]
    trained = [group for group in trained if group["params"]]
    common: dict[str, Any] = {"lr": params.lr, "weight_decay": params.weight_decay, "fused": True}
    if params.optimiser == "sgd":
        return _SGD(trained, momentum=params.momentum, **common)
    return _Adam(trained, **common)


def step(scheme: Scheme, optimizer: torch.optim.Optimizer, batch: Batch) -> tuple[float, float]:
    """Forward, backward, clip the norm of all gradients, update. Returns the loss before the update, and that norm before it
    is clipped.

    optimizer: that of the run's own model; a scheme that trains another one has its own.
    Raises PipelineError on a loss that is not finite, before any weight changes.
    """
    params = scheme.setting.train
    batch = scheme.prepare(batch)
    model, optimizer = scheme.model, scheme.optimizer(optimizer)
    optimizer.zero_grad(set_to_none=True)
    if params.chunk and params.chunk < len(batch.pairs):
        value = gradient_cache.backward(scheme, batch, params.chunk)
    else:
        images, texts = model.encode(batch, scheme.setting.device, params.precision)
        total = scheme.terms(images, texts, batch).total()
        value = gradient_cache.finite(total)
        total.backward()
    if processes.rank_count() > 1:
        model.sum_gradients()
    norm = clip(model, params.grad_clip)
    optimizer.step()
    return value, norm


def clip(model: nn.Module, limit: float) -> float:
    """Scale all gradients so that their common norm is at most ``limit``, as ``clip_grad_norm_`` does. Returns the norm before.

    Below the limit that one multiplies every gradient by 1, which is a sixth of a step's overhead. Raises PipelineError
    when the norm is NaN or infinite: the step would spoil every weight.
    """
    gradients = [weight.grad for weight in model.parameters() if weight.grad is not None]
    norm = get_total_norm(gradients)
    if not torch.isfinite(norm):
        raise PipelineError(f"the norm of the gradients is {norm.item()}; {gradient_cache.ADVICE}")
    if norm > limit:
        clip_grads_with_norm_(model.parameters(), limit, norm)
    return norm.item()


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
