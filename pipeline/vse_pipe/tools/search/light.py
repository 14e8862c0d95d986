"""Text encoders for one sentence in numpy: importing torch takes longer than all the rest of a search.

The same equations and weights as ``vse_pipe.train.encoders.text``, in evaluation; results are equal up to rounding. Encoders
that are not here, and options of theirs that are not, are asked through torch.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from jaxtyping import Float32, Int

Weights = Mapping[str, np.ndarray]
Encode = Callable[..., np.ndarray]
# Of ``nn.BatchNorm1d``, and of ``functional.normalize``.
_OF_VARIANCE, _SHORTEST = 1e-5, 1e-12


def encoder(name: str, params: Any, weights: Weights) -> Encode | None:
    """What takes the inputs of the text encoder ``name``, of one caption, and gives (1, dim) float32; None of one that is not
    here. weights: those of the text side, without ``txt.``."""
    if name == "gru" and params.pooling != "gpo":
        return lambda tokens, lengths: _unit(_gru(params, weights, tokens[0, : int(lengths[0])]), params)
    if name == "two_branch":
        return lambda vectors: _unit(_branch(params, weights, vectors), params)
    if name == "residual":
        return lambda vectors: _unit(_residual(weights, vectors), params)
    return None


def _unit(vectors: Float32[np.ndarray, "1 dim"], params: Any) -> Float32[np.ndarray, "1 dim"]:
    """At unit length, a row of zeros as it is; absolute where the options say so."""
    found = vectors / max(float(np.linalg.norm(vectors)), _SHORTEST)
    return np.abs(found) if params.use_abs else found


def _gru(params: Any, weights: Weights, tokens: Int[np.ndarray, " length"]) -> Float32[np.ndarray, "1 dim"]:
    states = weights["embed.weight"][tokens]
    for layer in range(params.layers):
        ways = [_read(weights, f"l{layer}", states)]
        if params.bidirectional:
            ways.append(_read(weights, f"l{layer}_reverse", states[::-1])[::-1])
        states = np.concatenate(ways, axis=1)
    if params.pooling == "last":
        pooled = np.mean([ways[0][-1], *(way[0] for way in ways[1:])], axis=0)
    else:
        averaged = np.mean(ways, axis=0)
        pooled = averaged.max(axis=0) if params.pooling == "max" else averaged.mean(axis=0)
    return _linear(weights, "fc", pooled[None]) if params.projection else pooled[None]


def _read(weights: Weights, of: str, inputs: Float32[np.ndarray, "length _"]) -> Float32[np.ndarray, "length dim"]:
    """The state after each token of one layer in one direction; gates in PyTorch's order r, z, n."""
    hidden_weight, hidden_bias = weights[f"rnn.weight_hh_{of}"], weights[f"rnn.bias_hh_{of}"]
    gates = inputs @ weights[f"rnn.weight_ih_{of}"].T + weights[f"rnn.bias_ih_{of}"]
    state, found = np.zeros(hidden_weight.shape[1], np.float32), []
    for given in gates:
        r, z, new = np.split(given, 3)
        of_r, of_z, of_new = np.split(hidden_weight @ state + hidden_bias, 3)
        z = _sigmoid(z + of_z)
        state = (1 - z) * np.tanh(new + _sigmoid(r + of_r) * of_new) + z * state
        found.append(state)
    return np.stack(found)


def _sigmoid(values: Float32[np.ndarray, " dim"]) -> Float32[np.ndarray, " dim"]:
    return 0.5 * (1 + np.tanh(0.5 * values))


def _branch(params: Any, weights: Weights, vectors: Float32[np.ndarray, "1 _"]) -> Float32[np.ndarray, "1 dim"]:
    place = 1
    while f"fc{place}.0.weight" in weights:
        vectors = _linear(weights, f"fc{place}.0", vectors)
        if params.batch_norm == "first":
            vectors = _normalised(weights, f"fc{place}.1", vectors)
        vectors, place = np.maximum(vectors, 0), place + 1
    vectors = _linear(weights, f"fc{place}", vectors)
    return _normalised(weights, "bn", vectors) if "bn.weight" in weights else vectors


def _residual(weights: Weights, vectors: Float32[np.ndarray, "1 _"]) -> Float32[np.ndarray, "1 dim"]:
    hidden = np.maximum(_linear(weights, "mlp.0", vectors), 0)
    return _linear(weights, "fc", vectors) + _linear(weights, "mlp.3", hidden)


def _linear(weights: Weights, name: str, vectors: Float32[np.ndarray, "1 _"]) -> Float32[np.ndarray, "1 dim"]:
    return vectors @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def _normalised(weights: Weights, name: str, vectors: Float32[np.ndarray, "1 dim"]) -> Float32[np.ndarray, "1 dim"]:
    mean, variance, scale, shift = (
        weights[f"{name}.{key}"] for key in ("running_mean", "running_var", "weight", "bias")
    )
    return (vectors - mean) / np.sqrt(variance + np.float32(_OF_VARIANCE)) * scale + shift
