"""The steps of an epoch: Adam or SGD, gradient clipping (vsepp and its descendants), batches
encoded in chunks, and averages of the weights."""

import contextlib
import math
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from inspect import unwrap
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.checkpoint import checkpoint

from vse_pipe.core import devices, processes
from vse_pipe.core.console import track
from vse_pipe.core.errors import PipelineError, UsageError
from vse_pipe.core.seeds import derive_seed
from vse_pipe.project.params.schema import TrainParams
from vse_pipe.ranking.fragments import Words
from vse_pipe.train.data import Batch
from vse_pipe.train.heads import OwnRate
from vse_pipe.train.model import DualEncoder, batch_norms
from vse_pipe.train.scheme import Scheme

# Steps between two looks at a GPU's losses: each look waits until it has computed them.
_READ_EVERY = 64


class _Uncompiled(torch.optim.Optimizer):
    """Drops the wrappers that keep torch.compile out of an optimiser. They import the compiler,
    which takes as long as the import of the rest of torch."""

    zero_grad = unwrap(torch.optim.Optimizer.zero_grad)
    add_param_group = unwrap(torch.optim.Optimizer.add_param_group)
    state_dict = unwrap(torch.optim.Optimizer.state_dict)
    load_state_dict = unwrap(torch.optim.Optimizer.load_state_dict)


class _Adam(_Uncompiled, torch.optim.Adam):
    step = torch.no_grad()(unwrap(torch.optim.Adam.step))


class _SGD(_Uncompiled, torch.optim.SGD):
    step = torch.no_grad()(unwrap(torch.optim.SGD.step))


def optimizer_for(model: nn.Module, params: TrainParams) -> torch.optim.Optimizer:
    """Adam with default betas and eps, or SGD with ``params.momentum``, for the parameters that
    take a gradient.

    The first group trains at ``params.lr``. Each rate of modules with an ``own_rate`` is a further
    group.
    """
    rates: dict[nn.Parameter, OwnRate] = {}
    later = None
    modules: list[Any] = list(model.modules())
    for module in modules:
        if hasattr(module, "own_rate"):
            rates |= dict.fromkeys(module.parameters(), module.own_rate)
        later = later or getattr(module, "takes_over", None)
    layers: dict[OwnRate | None, list[nn.Parameter]] = {}
    for weight in model.parameters():
        if weight.requires_grad:
            layers.setdefault(rates.get(weight), []).append(weight)
    rest = {"params": layers.pop(None, []), "rate": OwnRate(params.lr), "later": later}
    groups = [rest] if rest["params"] else []
    groups += [{"params": weights, "rate": rate, "later": None} for rate, weights in layers.items()]
    common: dict[str, Any] = {"lr": params.lr, "weight_decay": params.weight_decay, "fused": True}
    if params.optimiser == "sgd":
        return _SGD(groups, momentum=params.momentum, **common)
    return _Adam(groups, **common)


class StepResult(NamedTuple):
    """Loss of a step's batch, a sum or a mean over its pairs as the loss says, norm of all
    gradients before clipping, and pairs of the batch."""

    loss: float
    norm: float
    pairs: int


def mean_loss(steps: Sequence[StepResult]) -> float:
    """The mean over all batches, by their pairs; 0 without any step."""
    return sum(step.loss * step.pairs for step in steps) / max(sum(step.pairs for step in steps), 1)


def train_epoch(
    scheme: Scheme,
    optimizer: torch.optim.Optimizer,
    averages: "Averages",
    sampled: list[np.ndarray],
    epoch: int,
) -> list[StepResult]:
    """Train on the epoch's batches. sampled: pairs of each batch; epoch: counted from 0."""
    setting = scheme.setting
    for model in scheme.models:
        model.start(epoch)
        model.train()
    # Dropout draws from torch's generator; the seed of an epoch lets a resumed run draw the same
    # numbers. Each further process draws its own, unless all encode the whole batch.
    place = [processes.rank()] if processes.rank() and not setting.model.encodes_whole_batches else []
    torch.manual_seed(derive_seed(setting.run.seed, "dropout", epoch, *place))
    scheme.epoch = epoch
    scheme.start(epoch)
    averages.start(epoch, anew=epoch in scheme.starts)
    batches = scheme.batches(epoch, sampled)
    steps: list[StepResult] = []
    unread: list[Tensor] = []
    pixels_of = epoch if setting.model.trains_on_pixels else None
    with (
        devices.rounded(setting.train.precision),
        contextlib.closing(setting.pairs.batches(batches, pixels_of)) as reading,
        contextlib.closing(_ahead(reading, setting.device)) as placed,
    ):
        scheme.graphs.capture(setting, scheme.models)  # before the first batch, whose thread uses the GPU
        for number, batch in enumerate(track(placed, len(batches), "batches")):
            scheme.step, scheme.passed = number, epoch + number / len(batches)
            scheme.set_rates(optimizer, epoch, number, len(batches))
            unread.append(step(scheme, optimizer, batch))
            averages.follow(scheme.model)
            if len(unread) == _READ_EVERY or number + 1 == len(batches):
                for loss, norm in torch.stack(unread).tolist():
                    require_finite(loss, norm)
                    steps.append(StepResult(loss, norm, len(batches[len(steps)])))
                unread.clear()
    return steps


def _ahead(batches: Iterator[Batch], device: torch.device) -> Generator[Batch, None, None]:
    """The batches on the device. For a GPU a thread gathers and sends the next one while it
    computes. Processes that train together send their rows themselves, because their exchanges must
    keep one order."""
    placed = batches if processes.rank_count() > 1 else (batch.to(device) for batch in batches)
    if device.type != "cuda" or processes.rank_count() > 1:
        yield from placed
        return
    with ThreadPoolExecutor(1, thread_name_prefix="gather") as pool:
        following = pool.submit(next, placed, None)
        while (batch := following.result()) is not None:
            following = pool.submit(next, placed, None)
            yield batch


def step(scheme: Scheme, optimizer: torch.optim.Optimizer, batch: Batch) -> Float[Tensor, "2"]:
    """Make one update. Returns the loss before the update and the norm of all gradients before it
    is clipped.

    optimizer: optimiser of the run's model; a scheme may replace it. A loss or a norm that is not
    finite changes no weight. On the CPU it raises PipelineError; a GPU would have to be waited for,
    so there ``require_finite`` of the result does.
    """
    params = scheme.setting.train
    batch = scheme.prepare(batch)
    model, optimizer = scheme.model, scheme.optimizer(optimizer)
    optimizer.zero_grad(set_to_none=True)
    is_divided = 0 < params.chunk < len(batch.pairs)
    encode = scheme.graphs.encoder(model, batch)
    if is_divided:
        encode = partial(encoded_in_chunks, model, params.chunk)
    total = scheme.terms(*encode(batch, scheme.setting.device, params.precision), batch).total()
    total.backward()
    if processes.rank_count() > 1:
        model.sum_gradients()
    norm = get_total_norm([weight.grad for weight in model.parameters() if weight.grad is not None])
    result = torch.stack([total.detach(), norm.to(total.dtype)])
    if result.is_cpu:
        require_finite(*result.tolist())
    else:
        # Fused kernels then do nothing.
        optimizer.found_inf = (~result.isfinite().all()).float()  # type: ignore[attr-defined]
    # On a CPU to multiply by 1 takes a sixth of a step's overhead.
    if not result.is_cpu or norm > params.grad_clip:
        clip_grads_with_norm_(model.parameters(), params.grad_clip, norm)
    optimizer.step()
    return result


def require_finite(loss: float, norm: float) -> None:
    """Raises PipelineError when the loss or the norm of the gradients is NaN or infinite."""
    for name, value in (("loss", loss), ("norm of the gradients", norm)):
        if not math.isfinite(value):
            advice = "lower train.lr, or check the loss's parameters and the features"
            raise PipelineError(f"the {name} is {value}; {advice}")


def encoded_in_chunks(
    model: DualEncoder, chunk: int, batch: Batch, device: torch.device, precision: str = "float32"
) -> tuple[Tensor, Tensor | Words]:
    """As ``model.encode``, ``chunk`` pairs at a time. The batch still has all of its negatives, and
    only the activations of one chunk are in memory.

    Source: Gao et al., Scaling deep contrastive learning batch size under memory limited setup,
    2021. The backward pass encodes each chunk once more, with the same random numbers. The gradient
    is that of the undivided batch up to rounding.
    """
    # torch keeps the random state of the devices of its tensor arguments, and a batch is none.
    place = torch.empty(0, device=device)

    def encode(part: Batch, place: Tensor) -> tuple[Tensor, Tensor | Words]:
        return model.encode(part, device, precision)

    parts = [checkpoint(encode, part, place, use_reentrant=False) for part in batch.split(chunk)]
    images, texts = zip(*parts, strict=True)
    joined = Words.joined if isinstance(texts[0], Words) else torch.cat
    return torch.cat(images), joined(texts)


def require_independent_rows(model: nn.Module) -> None:
    """Raises UsageError when a layer of an encoder uses the whole batch in its present mode.

    The network of a similarity may do so, because scores are computed for the whole batch.
    """
    for name, layer in batch_norms(model).items():
        if layer.training and name.partition(".")[0] != "sim":
            raise UsageError(
                f"train.chunk: '{name}' normalises over the whole batch, so chunks would change the "
                "result; set train.chunk: 0, or freeze or leave out the batch normalisation"
            )


def _follow(decay: float, averaged: Any, current: Any, steps: Tensor | int) -> None:
    count = int(steps)
    get_ema_multi_avg_fn(min(decay, (1 + count) / (10 + count)))(averaged, current, steps)


class Averages:
    """Moving averages of the weights of the scheme's models: ``d * average + (1 - d) * weights``
    after each step.

    After n steps d is the smaller of ``decay`` and (1 + n) / (10 + n) (TensorFlow's
    ``num_updates``). Buffers such as running statistics are those of the weights. ``models`` are
    the scheme's models without ``decay``, and without any step (``cca``).
    """

    def __init__(self, models: Sequence[DualEncoder], decay: float | None) -> None:
        self._models = tuple(models)
        # Any: its modules are AveragedModels, which torch does not say.
        self._averaged: Any = nn.ModuleList()
        if decay is not None:
            follow = partial(_follow, decay)
            for model in models:
                self._averaged.append(AveragedModel(model, multi_avg_fn=follow).eval())

    @property
    def models(self) -> tuple[DualEncoder, ...]:
        averages = zip(self._averaged, self._models, strict=False)
        return tuple(average.module if average.n_averaged else model for average, model in averages) or self._models

    def start(self, epoch: int, anew: bool) -> None:
        """Prepare ``epoch``, counted from 0. anew: it begins with fresh weights."""
        for average in self._averaged:
            average.module.start(epoch)
            if anew:
                average.n_averaged.zero_()

    def follow(self, model: DualEncoder) -> None:
        """Update the average of ``model`` after a step."""
        for average, followed in zip(self._averaged, self._models, strict=False):
            if followed is model:
                average.update_parameters(model)

    def state(self) -> dict[str, Tensor]:
        return self._averaged.state_dict()

    def load_state(self, state: dict[str, Tensor]) -> None:
        self._averaged.load_state_dict(state)
