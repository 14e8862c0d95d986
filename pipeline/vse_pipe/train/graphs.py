"""CUDA graphs of both encoders in training: one call of the host starts a pass, not some hundred.

Losses, schemes and optimisers stay as they are. A replay overwrites vectors and activations of the
one before: each is followed by its backward pass, and nobody keeps its vectors.
"""

from functools import partial
from itertools import product

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from vse_pipe.core import processes
from vse_pipe.core.console import warn
from vse_pipe.core.devices import sent
from vse_pipe.train.data import Batch, text_lengths
from vse_pipe.train.heads import exact
from vse_pipe.train.model import DualEncoder
from vse_pipe.train.scheme import Encode, Scheme, Setting

_KIND = "cuda"
# Captions are padded to a multiple of it, so that an epoch needs few graphs.
_WORDS = 4
# Largest distance of vectors and gradients from those without a graph, as a share of their norm.
_DISTANCE = 1e-3


def capture(scheme: Scheme, batches: list[np.ndarray]) -> None:
    """Add a graph to ``scheme.graphs`` for each length of the epoch's full batches, for models whose
    passes a graph can repeat. No other thread may use the GPU meanwhile. Batches of a graph that
    fails or has other values are encoded without, after a warning."""
    setting, size = scheme.setting, scheme.setting.train.batch_size
    is_whole = processes.rank_count() == 1 and not 0 < setting.train.chunk < size
    models = [model for model in scheme.models if setting.device.type == _KIND and is_whole and model.is_static]
    examples: dict[int, np.ndarray] = {}
    for pairs in batches if models else []:
        if len(pairs) == size:
            lengths = text_lengths(setting.pairs.texts, setting.pairs.places[pairs])
            examples[_padded(int(lengths.max()))] = pairs
    for model, pairs in product(models, examples.values()):
        batch = setting.pairs.batch(pairs)
        if (key := key_of(model, batch)) not in scheme.graphs:
            scheme.graphs[key] = _captured(model, batch, setting)


def key_of(model: DualEncoder, batch: Batch) -> tuple:
    """The graph of ``model`` for batches of these shapes."""
    rows, length = batch.texts[0].shape[:2]
    return model, batch.features.shape, rows, _padded(length)


def _padded(length: int) -> int:
    return -(-length // _WORDS) * _WORDS


def _inputs(batch: Batch, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    tokens, lengths = batch.texts
    longer = pad(tokens, (0, _padded(tokens.shape[1]) - tokens.shape[1]))
    return sent(batch.features, device), sent(longer, device), sent(lengths, device)


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


def _captured(model: DualEncoder, batch: Batch, setting: Setting) -> Encode:
    inputs, graphed = _inputs(batch, setting.device), _Pass(model, setting)
    expected = _results(_Pass(model, setting), inputs)
    try:
        # Rows in another order than in the comparison: what the graph holds fixed shows there.
        torch.cuda.make_graphed_callables(graphed, tuple(side.flip(0) for side in inputs))
        sides = zip(_results(graphed, inputs), expected, strict=True)
        off = torch.stack([(found - right).norm() / right.norm() for found, right in sides]).max()
        if not off < _DISTANCE:
            raise RuntimeError(f"its values differ by {off:.0e}")
    except RuntimeError as error:
        warn(f"batches of {inputs[1].shape[1]} words are encoded without a CUDA graph: {error}")
        return model.encode
    return lambda batch, device, precision: graphed(*_inputs(batch, device))


def _results(encode: nn.Module, inputs: tuple[Tensor, ...]) -> list[Tensor]:
    """Vectors of both sides, and the gradients of weights towards the vectors of the other side."""
    vectors = encode(*inputs)
    towards = [side.detach().clone() for side in reversed(vectors)]
    return [*vectors, *torch.autograd.grad(vectors, list(encode.parameters()), towards)]
