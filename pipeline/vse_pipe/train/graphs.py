"""CUDA graphs of both encoders in training: one call of the host starts a pass, not some hundred.

Losses, schemes and optimisers stay as they are. A replay overwrites vectors and activations of the
one before: each is followed by its backward pass, and nobody keeps its vectors.
"""

import gc
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from vse_pipe.core import processes
from vse_pipe.core.console import warn
from vse_pipe.core.devices import sent
from vse_pipe.ranking.fragments import Words
from vse_pipe.train.data import Batch, Pairs, text_lengths
from vse_pipe.train.heads import exact
from vse_pipe.train.model import DualEncoder, Setting

_KIND = "cuda"
# After a capture that failed, older versions leave allocator and stream unusable.
_IS_SAFE = torch.__version__ >= "2.15"
# Captions are padded to a multiple of it, so that an epoch needs few graphs.
_WORDS = 4
# Largest distance of vectors and gradients from those without a graph, as a share of their norm.
_DISTANCE = 1e-3
# Share of the GPU's memory that graphs leave free.
_FREE = 1 / 8


class Graphs:
    """The passes of a training, by model and shapes of a batch. Where a graph fails, has other
    values or leaves too little memory, all run without, on the same inputs, after a warning."""

    def __init__(self) -> None:
        self._passes: dict[tuple, _Pass] = {}

    def encoder(self, model: DualEncoder, batch: Batch) -> Callable[..., tuple[Tensor, Tensor | Words]]:
        """The pass of such batches; ``model.encode`` where there is none."""
        known = self._passes.get(_key(model, batch))
        if known is None:
            return model.encode
        return lambda batch, device, precision: known(*_inputs(batch, device))

    def capture(self, setting: Setting, models: tuple[DualEncoder, ...]) -> None:
        """Passes of full batches for ``static`` models, once a training. No other thread may use
        the GPU meanwhile."""
        is_whole = processes.rank_count() == 1 and not 0 < setting.train.chunk < setting.train.batch_size
        static = [model for model in models if model.is_static]
        if not self._passes and setting.device.type == _KIND and _IS_SAFE and is_whole and static:
            examples = list(product(static, _examples(setting.pairs, setting.train.batch_size)))
            self._passes = {_key(*example): _Pass(example[0], setting) for example in examples}
            inputs = {_key(*example): _inputs(example[1], setting.device) for example in examples}
            if inputs:
                self._graph(inputs, setting)

    def _graph(self, inputs: dict[tuple, tuple[Tensor, ...]], setting: Setting) -> None:
        module = torch.get_device_module(setting.device)
        torch.autograd.graph.set_warn_on_accumulate_grad_stream_mismatch(False)  # a graph keeps its stream
        gc.collect()  # graphs of trainings before, whose end would end a capture
        gc.disable()
        try:
            # Rows in another order than below: what a graph holds fixed shows there.
            samples = tuple(tuple(side.flip(0) for side in given) for given in inputs.values())
            with module.stream(module.current_stream(setting.device)):
                torch.cuda.make_graphed_callables(tuple(self._passes.values()), samples)
            for key, given in inputs.items():
                sides = zip(_results(self._passes[key], given), _results(_Pass(key[0], setting), given), strict=True)
                if not all((side - right).norm() <= _DISTANCE * right.norm() for side, right in sides):
                    raise RuntimeError(f"captions of {key[-1]} words have other values than without")
            free, total = torch.cuda.mem_get_info(setting.device)
            if free < _FREE * total:
                raise RuntimeError(f"{free / 2**30:.1f} GiB of the GPU's memory are left")
        except RuntimeError as error:
            warn(f"{setting.run.image.name} and {setting.run.text.name} train without CUDA graphs: {error}")
            # None stays, because the end of one can take memory from others.
            self._passes = {key: _Pass(key[0], setting) for key in self._passes}
        finally:
            gc.enable()


def _examples(pairs: Pairs, size: int) -> list[Batch]:
    """A batch of ``size`` pairs for each padded length from the median of the captions on. They
    follow from the data, so that every epoch and a resumed run have the same graphs."""
    lengths = _padded(text_lengths(pairs.texts, pairs.places))
    order = lengths.argsort(kind="stable")
    ends = np.searchsorted(lengths[order], np.unique(lengths[order][len(order) // 2 :]), side="right")
    return [pairs.batch(order[end - size : end]) for end in ends if end >= size]


class _Pass(nn.Module):
    """``model.encode`` on inputs that lie on the device; a module, because a graph needs weights."""

    def __init__(self, model: DualEncoder, setting: Setting) -> None:
        super().__init__()
        self.img, self.txt = model.img, model.txt
        is_half = setting.train.precision == "bfloat16"
        self.casting = partial(torch.autocast, setting.device.type, torch.bfloat16, enabled=is_half)

    def forward(self, features: Tensor, tokens: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        with self.casting():
            return exact(self.img(features)), exact(self.txt(tokens, lengths))


def _key(model: DualEncoder, batch: Batch) -> tuple:
    rows, length = batch.texts[0].shape[:2]
    return model, batch.features.shape, rows, _padded(length)


def _padded(length: Any) -> Any:
    return -(-length // _WORDS) * _WORDS


def _inputs(batch: Batch, device: torch.device) -> tuple[Tensor, ...]:
    tokens, lengths = batch.texts
    longer = pad(tokens, (0, _padded(tokens.shape[1]) - tokens.shape[1]))
    return sent(batch.features, device), sent(longer, device), sent(lengths, device)


def _results(encode: nn.Module, inputs: tuple[Tensor, ...]) -> list[Tensor]:
    """Vectors of both sides, and the gradients of weights towards the vectors of the other side."""
    vectors = encode(*inputs)
    towards = [side.detach().clone() for side in reversed(vectors)]
    return [*vectors, *torch.autograd.grad(vectors, list(encode.parameters()), towards)]
