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
from vse_pipe.train.checkpoint import tensors_under
from vse_pipe.train.data import Batch
from vse_pipe.train.heads import OwnRate
from vse_pipe.train.model import DualEncoder
from vse_pipe.train.scheme import Scheme


class _Uncompiled(torch.optim.Optimizer):
    """Drops the wrappers that keep torch.compile out of an optimiser. They import the compiler, which takes as long as the
    import of the rest of torch."""

    zero_grad = unwrap(torch.optim.Optimizer.zero_grad)
    add_param_group = unwrap(torch.optim.Optimizer.add_param_group)
    state_dict = unwrap(torch.optim.Optimizer.state_dict)
    load_state_dict = unwrap(torch.optim.Optimizer.load_state_dict)


class _Adam(_Uncompiled, torch.optim.Adam):
    step = torch.no_grad()(unwrap(torch.optim.Adam.step))


class _SGD(_Uncompiled, torch.optim.SGD):
    step = torch.no_grad()(unwrap(torch.optim.SGD.step))


def optimizer_for(model: nn.Module, params: TrainParams) -> torch.optim.Optimizer:
    """Adam with default betas and eps, or SGD with ``params.momentum``, for the parameters that take a gradient.

    The first group trains at ``params.lr``. Each module with an ``own_rate`` is a further group.
    """
    rates = {module: module.own_rate for module in model.modules() if hasattr(module, "own_rate")}
    later = next((module.takes_over for module in model.modules() if hasattr(module, "takes_over")), None)
    rated = {parameter for module in rates for parameter in module.parameters()}
    rest = [parameter for parameter in model.parameters() if parameter not in rated]
    groups: list[dict[str, Any]] = [{"params": rest, "rate": OwnRate(params.lr), "later": later}]
    groups += [{"params": module.parameters(), "rate": rate, "later": None} for module, rate in rates.items()]
    trained = [
        {**group, "params": [parameter for parameter in group["params"] if parameter.requires_grad]} for group in groups
    ]
    trained = [group for group in trained if group["params"]]
    common: dict[str, Any] = {"lr": params.lr, "weight_decay": params.weight_decay, "fused": True}
    if params.optimiser == "sgd":
        return _SGD(trained, momentum=params.momentum, **common)
    return _Adam(trained, **common)


def step(scheme: Scheme, optimizer: torch.optim.Optimizer, batch: Batch) -> tuple[float, float]:
    """Make one update. Returns the loss before the update and the norm of all gradients before it is clipped.

    optimizer: optimiser of the run's model; a scheme may replace it. Raises PipelineError on a loss that is not finite,
    before any weight changes.
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
    """Scale all gradients so that their common norm is at most ``limit``. Returns the norm before.

    Unlike ``clip_grad_norm_`` it does not multiply by 1 below the limit, which takes a sixth of a step's overhead. Raises
    PipelineError when the norm is NaN or infinite, because the step would spoil every weight.
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
    """Moving averages of the weights of the scheme's models: ``d * average + (1 - d) * weights`` after each step.

    The first average is the weights themselves. After n steps d is the smaller of ``decay`` and (1 + n) / (10 + n)
    (TensorFlow's ``num_updates``), so that the average of a short training forgets its start. Buffers such as running
    statistics are averaged too. Without ``decay`` nothing is averaged, and ``models`` are the scheme's models.
    """

    def __init__(self, models: Sequence[DualEncoder], decay: float | None) -> None:
        self._models = tuple(models)
        # Any: their ``module`` is a DualEncoder, which torch does not say.
        self._averaged: list[Any] = [
            AveragedModel(model, multi_avg_fn=_rising(decay), use_buffers=True)
            for model in self._models
            if decay is not None
        ]
        for average in self._averaged:
            average.eval()

    def __bool__(self) -> bool:
        return bool(self._averaged)

    @property
    def models(self) -> tuple[DualEncoder, ...]:
        """The models that are validated and saved."""
        return tuple(average.module for average in self._averaged) or self._models

    def start(self, epoch: int, anew: bool) -> None:
        """Prepare ``epoch``, counted from 0. anew: the epoch begins with fresh weights, so averaging starts again."""
        for average in self._averaged:
            average.module.start(epoch)
            if anew:
                average.n_averaged.zero_()

    def follow(self, model: DualEncoder) -> None:
        """Update the average of ``model`` after a step."""
        for source, average in zip(self._models, self._averaged, strict=False):
            if source is model:
                average.update_parameters(model)

    def end(self) -> None:
        """Close an epoch: weights that were set without a step (``cca``) become the average."""
        for model, average in zip(self._models, self._averaged, strict=False):
            if not average.n_averaged:
                average.update_parameters(model)

    def state(self) -> dict[str, Tensor]:
        return {
            f"{place}/{name}": tensor
            for place, average in enumerate(self._averaged)
            for name, tensor in average.state_dict().items()
        }

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Restore the result of ``state``."""
        for place, average in enumerate(self._averaged):
            average.load_state_dict(tensors_under(state, f"{place}/"))
