"""Fisher vectors of the hybrid Gaussian-Laplacian mixture (Klein et al., CVPR 2015; Perronnin et al., ECCV 2010)."""

import numpy as np
from jaxtyping import Float, Float32, Float64
from scipy.sparse import csr_array

from vse_pipe.extract.text_engine.mixture import Mixture, posteriors

_TINY = 1e-12


def fisher_vectors(
    counts: csr_array, points: Float[np.ndarray, "points dim"], mixture: Mixture
) -> Float64[np.ndarray, "captions fisher"]:
    """(captions, 2 * components * dim): a caption's words as the direction in which the mixture would move for them.

    counts: (captions, points), how often each word occurs; points of any precision, those in use become float64. The gradient of the log-likelihood of a caption's N words
    with respect to location m and scale s, divided by the root of the Fisher information, diagonal as usual. With z =
    (x - m) / s, a word's share g of the component and the component's weight w, summed over the words:

        Gaussian   location  g z / sqrt(N w)          scale  g (z^2 - 1) / sqrt(2 N w)     information N w / s^2, 2 N w / s^2
        Laplacian  location  g sign(z) / sqrt(N w)    scale  g (|z| - 1) / sqrt(N w)       information N w / s^2, both

    All locations come first, component by component, then all scales. A caption without words is the zero vector.
    """
    used = np.unique(counts.indices)
    counts, points = counts[:, used], points[used].astype(np.float64)
    shares, _ = posteriors(mixture, points)
    components, dim = mixture.location.shape
    out = np.empty((counts.shape[0], 2, components, dim))
    for k, laplacian in enumerate(mixture.laplacian):
        z = (points - mixture.location[k]) / mixture.scale[k]
        first = np.where(laplacian, np.sign(z), z)
        second = np.where(laplacian, np.abs(z) - 1.0, (z * z - 1.0) / np.sqrt(2.0))
        share = shares[:, k, None] / np.sqrt(max(mixture.weights[k], _TINY))
        out[:, 0, k] = counts @ (share * first)
        out[:, 1, k] = counts @ (share * second)
    words = np.asarray(counts.sum(axis=1)).reshape(-1, 1)
    return out.reshape(len(out), -1) / np.sqrt(np.maximum(words, 1.0))


def improved(vectors: Float64[np.ndarray, "captions fisher"]) -> Float32[np.ndarray, "captions fisher"]:
    """Power normalisation sign(x) sqrt(|x|), then unit length; zero vectors stay zero."""
    powered = np.sign(vectors) * np.sqrt(np.abs(vectors))
    lengths = np.linalg.norm(powered, axis=1, keepdims=True)
    return (powered / np.maximum(lengths, _TINY)).astype(np.float32)
