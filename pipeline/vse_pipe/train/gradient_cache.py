"""A batch is encoded in chunks and still has the gradient of the whole batch: all negatives, less memory.

Source: Gao et al., Scaling deep contrastive learning batch size under memory limited setup, 2021. Vectors are computed chunk
by chunk without a graph, the loss gives their gradient, and a second forward pass of each chunk takes it to the weights. Only
the activations of one chunk are in memory.
"""

import torch
from torch import Tensor, nn

from vse_pipe.core.errors import PipelineError, UsageError
from vse_pipe.ranking.fragments import Words
from vse_pipe.train.data import Batch
from vse_pipe.train.scheme import Scheme

# Advice for numbers that are not finite.
ADVICE = "lower train.lr, or check the loss's parameters and the features"


def backward(scheme: Scheme, batch: Batch, chunk: int) -> float:
    """Add the gradient of the batch's loss to the weights; returns the loss.

    The sum over chunks is the gradient of the undivided batch up to rounding. Random layers draw the same numbers in both
    passes. Raises UsageError for layers that use the whole batch, PipelineError on a loss that is not finite.
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
    value = finite(total)
    total.backward()
    after = _state(device)
    chunk_gradients = zip(
        *(_gradients(*both) for both in zip((images, texts), zip(*encoded, strict=True), strict=True)), strict=True
    )
    for part, state, gradients in zip(parts, draws, chunk_gradients, strict=True):
        _restore(device, state)
        torch.autograd.backward([_vectors(side) for side in model.encode(part, device, precision)], gradients)
    _restore(device, after)
    return value


def _vectors(side: Tensor | Words) -> Tensor:
    """The tensor of one side that has the gradient."""
    return side.vectors if isinstance(side, Words) else side


def _joined(parts: list[Tensor | Words]) -> Tensor | Words:
    """The captions of all chunks, ready to take a gradient."""
    words = [part for part in parts if isinstance(part, Words)]
    texts = Words.cat(words) if words else torch.cat([_vectors(part) for part in parts])
    _vectors(texts).requires_grad_()
    return texts


def _gradients(side: Tensor | Words, parts: tuple[Tensor | Words, ...]) -> tuple[Tensor, ...]:
    """The gradient of one side, cut into its chunks."""
    gradient = _vectors(side).grad
    assert gradient is not None
    return gradient.split([len(_vectors(part)) for part in parts])


def finite(total: Tensor) -> float:
    """The loss as a number. Raises PipelineError when it is NaN or infinite."""
    value = total.item()
    if value != value or value in (float("inf"), float("-inf")):
        raise PipelineError(f"the loss is {value}; {ADVICE}")
    return value


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
    return [*states, torch.cuda.get_rng_state(device)] if device.type == "cuda" else states


def _restore(device: torch.device, states: list[Tensor]) -> None:
    torch.set_rng_state(states[0])
    if device.type == "cuda":
        torch.cuda.set_rng_state(states[1], device)
