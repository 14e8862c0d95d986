"""One optimisation step: Adam or SGD, gradient clipping (vsepp and its descendants), batches encoded in chunks."""

import math
from collections.abc import Callable, Sequence
from inspect import unwrap
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from vse_pipe.core import processes
from vse_pipe.core.errors import PipelineError, UsageError
from vse_pipe.project.params.schema import TrainParams
from vse_pipe.ranking.fragments import Words
from vse_pipe.train.checkpoint import tensors_under
from vse_pipe.train.data import Batch
from vse_pipe.train.heads import OwnRate
from vse_pipe.train.model import DualEncoder
from vse_pipe.train.scheme import Scheme

# Advice for numbers that are not finite.
ADVICE = "lower train.lr, or check the loss's parameters and the features"


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

    The first group trains at ``params.lr``. Each module with an ``own_rate`` is a further group, and so is each rate of a
    module with ``own_rates``.
    """
    rates = {module: module.own_rate for module in model.modules() if hasattr(module, "own_rate")}
    layers: dict[OwnRate, list[nn.Parameter]] = {}
    for own_rates in filter(None, (getattr(module, "own_rates", None) for module in model.modules())):
        for parameter, rate in own_rates().items():
            layers.setdefault(rate, []).append(parameter)
    later = next((module.takes_over for module in model.modules() if hasattr(module, "takes_over")), None)
    rated = {parameter for module in rates for parameter in module.parameters()}
    rated.update(*layers.values())
    rest = [parameter for parameter in model.parameters() if parameter not in rated]
    groups: list[dict[str, Any]] = [{"params": rest, "rate": OwnRate(params.lr), "later": later}]
    groups += [{"params": module.parameters(), "rate": rate, "later": None} for module, rate in rates.items()]
    groups += [{"params": parameters, "rate": rate, "later": None} for rate, parameters in layers.items()]
    trained = [
        {**group, "params": [parameter for parameter in group["params"] if parameter.requires_grad]} for group in groups
    ]
    trained = [group for group in trained if group["params"]]
    common: dict[str, Any] = {"lr": params.lr, "weight_decay": params.weight_decay, "fused": True}
    if params.optimiser == "sgd":
        return _SGD(trained, momentum=params.momentum, **common)
    return _Adam(trained, **common)


def step(scheme: Scheme, optimizer: torch.optim.Optimizer, batch: Batch) -> Float[Tensor, "2"]:
    """Make one update. Returns the loss before the update and the norm of all gradients before it is clipped.

    optimizer: optimiser of the run's model; a scheme may replace it. A loss or a norm that is not finite changes no weight.
    On the CPU it raises PipelineError; a GPU would have to be waited for, so there ``require_finite`` of the result does.
    """
    params = scheme.setting.train
    batch = scheme.prepare(batch)
    model, optimizer = scheme.model, scheme.optimizer(optimizer)
    optimizer.zero_grad(set_to_none=True)
    if params.chunk and params.chunk < len(batch.pairs):
        total = backward(scheme, batch, params.chunk)
    else:
        images, texts = model.encode(batch, scheme.setting.device, params.precision)
        total = scheme.terms(images, texts, batch).total()
        total.backward()
    if processes.rank_count() > 1:
        model.sum_gradients()
    norm = get_total_norm([weight.grad for weight in model.parameters() if weight.grad is not None])
    result = torch.stack([total.detach(), norm.to(total.dtype)])
    if result.is_cpu:
        require_finite(*result.tolist())
    else:
        optimizer.found_inf = (~result.isfinite().all()).float()  # type: ignore[attr-defined]  # fused kernels then do nothing
    if not result.is_cpu or norm > params.grad_clip:  # on a CPU to multiply by 1 takes a sixth of a step's overhead
        clip_grads_with_norm_(model.parameters(), params.grad_clip, norm)
    optimizer.step()
    return result


def require_finite(loss: float, norm: float) -> None:
    """Raises PipelineError when the loss or the norm of the gradients is NaN or infinite."""
    for name, value in (("loss", loss), ("norm of the gradients", norm)):
        if not math.isfinite(value):
            raise PipelineError(f"the {name} is {value}; {ADVICE}")


def backward(scheme: Scheme, batch: Batch, chunk: int) -> Float[Tensor, ""]:
    """Add the gradient of the batch's loss to the weights; returns the loss. The batch is encoded in chunks and still has
    all of its negatives, with less memory.

    Source: Gao et al., Scaling deep contrastive learning batch size under memory limited setup, 2021. Vectors are computed
    chunk by chunk without a graph, the loss gives their gradient, and a second forward pass of each chunk takes it to the
    weights. Only the activations of one chunk are in memory.

    The sum over chunks is the gradient of the undivided batch up to rounding. Random layers draw the same numbers in both
    passes. Raises UsageError for layers that use the whole batch.
    """
    model, device, precision = scheme.model, scheme.setting.device, scheme.setting.train.precision
    require_independent_rows(model)
    parts = batch.split(chunk)
    draws, encoded = [], []
    with torch.no_grad():
        for part in parts:
            draws.append(_state(device))
            encoded.append(model.encode(part, device, precision))
    images = torch.cat([part for part, _ in encoded]).requires_grad_()
    texts = _joined([part for _, part in encoded])
    total = scheme.terms(images, texts, batch).total()
    total.backward()
    after = _state(device)
    chunk_gradients = zip(
        *(_gradients(*both) for both in zip((images, texts), zip(*encoded, strict=True), strict=True)), strict=True
    )
    for part, state, gradients in zip(parts, draws, chunk_gradients, strict=True):
        _restore(device, state)
        torch.autograd.backward([_vectors(side) for side in model.encode(part, device, precision)], gradients)
    _restore(device, after)
    return total.detach()


def _vectors(side: Tensor | Words) -> Tensor:
    """The tensor of one side that has the gradient."""
    return side.vectors if isinstance(side, Words) else side


def _joined(parts: list[Tensor | Words]) -> Tensor | Words:
    """The captions of all chunks, ready to take a gradient."""
    words = [part for part in parts if isinstance(part, Words)]
    texts = Words.joined(words) if words else torch.cat([_vectors(part) for part in parts])
    _vectors(texts).requires_grad_()
    return texts


def _gradients(side: Tensor | Words, parts: tuple[Tensor | Words, ...]) -> tuple[Tensor, ...]:
    """The gradient of one side, cut into its chunks."""
    gradient = _vectors(side).grad
    assert gradient is not None
    return gradient.split([len(_vectors(part)) for part in parts])


def require_independent_rows(model: nn.Module, address: str = "train.chunk") -> None:
    """Raises UsageError when a layer of an encoder uses the whole batch in its present mode.

    The network of a similarity may do so, because scores are computed for the whole batch. address: key in params.yaml, for
    the message.
    """
    for name, layer in model.named_modules():
        encodes = name.partition(".")[0] != "sim"
        if encodes and isinstance(layer, nn.modules.batchnorm._BatchNorm) and layer.training:
            raise UsageError(
                f"{address}: '{name}' normalises over the whole batch, so chunks would change the result; "
                "set train.chunk: 0, or freeze or leave out the batch normalisation"
            )


def _state(device: torch.device) -> list[Tensor]:
    states = [torch.get_rng_state()]
    if device.type == "cuda":
        return [*states, torch.cuda.get_rng_state(device)]
    return [*states, torch.mps.get_rng_state()] if device.type == "mps" else states


def _restore(device: torch.device, states: list[Tensor]) -> None:
    torch.set_rng_state(states[0])
    if device.type == "cuda":
        torch.cuda.set_rng_state(states[1], device)
    elif device.type == "mps":
        torch.mps.set_rng_state(states[1])


def _rising(decay: float) -> Callable[[Any, Any, Tensor | int], None]:
    def follow(averaged: Any, current: Any, steps: Tensor | int) -> None:
        count = int(steps)
        get_ema_multi_avg_fn(min(decay, (1 + count) / (10 + count)))(averaged, current, steps)

    return follow


class Averages:
    """Moving averages of the weights of the scheme's models: ``d * average + (1 - d) * weights`` after each step.

    The first average is the weights themselves. After n steps d is the smaller of ``decay`` and (1 + n) / (10 + n)
    (TensorFlow's ``num_updates``), so that the average of a short training forgets its start. Buffers such as running
    statistics are averaged too, but not masks with infinities, whose mean is no number. Without ``decay`` nothing is
    averaged, and ``models`` are the scheme's models.
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
        self._masks = [
            [name for name, buffer in average.module.named_buffers() if buffer.isinf().any()]
            for average in self._averaged
        ]

    def __bool__(self) -> bool:
        return bool(self._averaged)

    @property
    def models(self) -> tuple[DualEncoder, ...]:
        return tuple(average.module for average in self._averaged) or self._models

    def start(self, epoch: int, anew: bool) -> None:
        """Prepare ``epoch``, counted from 0. anew: the epoch begins with fresh weights, so averaging starts again."""
        for average in self._averaged:
            average.module.start(epoch)
            if anew:
                average.n_averaged.zero_()

    def follow(self, model: DualEncoder) -> None:
        """Update the average of ``model`` after a step."""
        for place, average in enumerate(self._averaged):
            if self._models[place] is model:
                average.update_parameters(model)
                for name in self._masks[place]:
                    average.module.get_buffer(name).copy_(model.get_buffer(name))

    def end(self) -> None:
        """Close an epoch: weights that were set without a step (``cca``) become the average."""
        for model, average in zip(self._models, self._averaged, strict=False):
            if not average.n_averaged:
                self.follow(model)

    def state(self) -> dict[str, Tensor]:
        return {
            f"{place}/{name}": tensor
            for place, average in enumerate(self._averaged)
            for name, tensor in average.state_dict().items()
        }

    def load_state(self, state: dict[str, Tensor]) -> None:
        for place, average in enumerate(self._averaged):
            average.load_state_dict(tensors_under(state, f"{place}/"))
