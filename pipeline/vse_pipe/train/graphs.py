"""CUDA graphs of both encoders in training: one call of the host starts a pass, not some hundred.

Losses, schemes and optimisers stay as they are. A replay overwrites vectors and activations of the
one before: each is followed by its backward pass, and nobody keeps its vectors.
"""

import gc
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from vse_pipe.core import processes
from vse_pipe.core.console import warn
from vse_pipe.core.devices import sent
from vse_pipe.ranking.fragments import Words
from vse_pipe.train.data import Batch, text_lengths
from vse_pipe.train.heads import exact
from vse_pipe.train.model import DualEncoder

if TYPE_CHECKING:
    from vse_pipe.train.scheme import Setting

_KIND = "cuda"
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
        self._is_refused = False

    def encoder(self, model: DualEncoder, batch: Batch) -> Callable[..., tuple[Tensor, Tensor | Words]]:
        """The pass of such batches; ``model.encode`` where there is none."""
        known = self._passes.get(_key(model, batch))
        if known is None:
            return model.encode
        return lambda batch, device, precision: known(*_inputs(batch, device))

    def capture(self, setting: "Setting", models: tuple[DualEncoder, ...], batches: list[np.ndarray]) -> None:
        """Passes of ``static`` models for each length in an epoch's full batches. No other thread
        may use the GPU meanwhile."""
        size, pairs = setting.train.batch_size, setting.pairs
        is_whole = processes.rank_count() == 1 and not 0 < setting.train.chunk < size
        static = [model for model in models if setting.device.type == _KIND and is_whole and model.is_static]
        examples: dict[int, np.ndarray] = {}
        for chosen in batches if static else []:
            if len(chosen) == size:
                examples[_padded(int(text_lengths(pairs.texts, pairs.places[chosen]).max()))] = chosen
        inputs: dict[tuple, tuple[Tensor, ...]] = {}
        for model, chosen in product(static, examples.values()):
            batch = pairs.batch(chosen)
            if (key := _key(model, batch)) not in self._passes:
                inputs[key] = _inputs(batch, setting.device)
                self._passes[key] = _Pass(model, setting)
        if inputs and not self._is_refused:
            self._graph(inputs, setting)

    def _graph(self, inputs: dict[tuple, tuple[Tensor, ...]], setting: "Setting") -> None:
        module = torch.get_device_module(setting.device)
        torch.autograd.graph.set_warn_on_accumulate_grad_stream_mismatch(False)  # each graph keeps its stream
        # Rows in another order than below: what a graph holds fixed shows there.
        samples = tuple(tuple(side.flip(0) for side in given) for given in inputs.values())
        gc.collect()
        gc.disable()  # the end of another training's graph would end a capture
        try:
            with module.stream(module.current_stream(setting.device)):  # a capture that fails leaves its own
                torch.cuda.make_graphed_callables(tuple(self._passes[key] for key in inputs), samples)
            for key, given in inputs.items():
                sides = zip(_results(self._passes[key], given), _results(_Pass(key[0], setting), given), strict=True)
                if not all((side - right).norm() <= _DISTANCE * right.norm() for side, right in sides):
                    raise RuntimeError(f"captions of {key[-1]} words have other values than without")
            free, total = torch.cuda.mem_get_info(setting.device)
            if free < _FREE * total:
                raise RuntimeError(f"{free / 2**30:.1f} GiB of the GPU's memory are left")
        except RuntimeError as error:
            warn(f"{setting.run.image.name} and {setting.run.text.name} train without CUDA graphs: {error}")
            self._is_refused = True
        finally:
            gc.enable()
        if self._is_refused:  # none stays, because the end of one can take memory from others
            self._passes = {key: _Pass(key[0], setting) for key in self._passes}
            gc.collect()

    def close(self) -> None:
        """The graphs end now, not during a capture of the next training."""
        self._passes.clear()
        gc.collect()


class _Pass(nn.Module):
    """``model.encode`` on inputs that lie on the device; a module, because a graph needs weights."""

    def __init__(self, model: DualEncoder, setting: "Setting") -> None:
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


def _padded(length: int) -> int:
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
