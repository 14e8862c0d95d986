"""A batch encoded in chunks with the gradient of the whole batch: its negatives stay, its memory does not.

Gao et al., Scaling deep contrastive learning batch size under memory limited setup, 2021. The loss only needs the vectors.
They are computed chunk by chunk without a graph, the loss gives their gradient, and each chunk is encoded once more to
take that gradient to the weights. One more forward pass; activations of one chunk only.
"""

import torch
from torch import Tensor, nn

from vse_pipe.core.errors import PipelineError, UsageError
from vse_pipe.ranking.fragments import Words
from vse_pipe.train.data import Batch
from vse_pipe.train.scheme import Scheme

# What to do about numbers that are not finite.
ADVICE = "lower train.lr, or check the loss's parameters and the features"


def backward(scheme: Scheme, batch: Batch, chunk: int) -> float:
    """Put the gradient of the batch's loss into the weights; returns the loss.

    The sum over chunks is the gradient of the undivided batch up to rounding. Random layers draw the same numbers in both
    passes. Raises UsageError for layers that look at the batch as a whole, PipelineError on a loss that is not finite.
    """
    model, device, precision = scheme.model, scheme.setting.device, scheme.setting.train.precision
    require_independent_rows(model)
    parts = batch.split(chunk)
    draws, encoded = [], []
    with torch.no_grad():
        for part in parts:
            draws.append(_state(device))
            encoded.append(model.encode(part, device, precision))
    images = torch.cat([one for one, _ in encoded]).requires_grad_()
    texts = _joined([one for _, one in encoded])
    total = scheme.terms(images, texts, batch).total()
    value = finite(total)
    total.backward()
    after = _state(device)
    wanted = zip(
        *(_gradients(*both) for both in zip((images, texts), zip(*encoded, strict=True), strict=True)), strict=True
    )
    for part, state, gradients in zip(parts, draws, wanted, strict=True):
        _restore(device, state)
        torch.autograd.backward([_vectors(side) for side in model.encode(part, device, precision)], gradients)
    _restore(device, after)
    return value


def _vectors(side: Tensor | Words) -> Tensor:
    """What the gradient of one side belongs to."""
    return side.vectors if isinstance(side, Words) else side


def _joined(parts: list[Tensor | Words]) -> Tensor | Words:
    """The captions of all chunks, ready to take a gradient."""
    words = [part for part in parts if isinstance(part, Words)]
    whole = Words.cat(words) if words else torch.cat([_vectors(part) for part in parts])
    _vectors(whole).requires_grad_()
    return whole


def _gradients(whole: Tensor | Words, parts: tuple[Tensor | Words, ...]) -> tuple[Tensor, ...]:
    """The gradient of one side, cut into its chunks."""
    gradient = _vectors(whole).grad
    assert gradient is not None
    return gradient.split([len(_vectors(part)) for part in parts])


def finite(total: Tensor) -> float:
    """The loss as a number. Raises PipelineError when it is NaN or infinite."""
    value = total.item()
    if value != value or value in (float("inf"), float("-inf")):
        raise PipelineError(f"the loss is {value}; {ADVICE}")
    return value


def require_independent_rows(model: nn.Module, address: str = "train.chunk") -> None:
    """Raises UsageError when a layer of an encoder, as it is in training, looks at the batch as a whole.

    A similarity's own network may: scores are computed of the whole batch at once. address: of the value in params.yaml,
    for the message.
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
