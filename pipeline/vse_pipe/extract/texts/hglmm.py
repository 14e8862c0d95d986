"""Fisher vectors of word vectors by a Gaussian-Laplacian mixture (Klein et al., CVPR 2015)."""

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float32, Float64
from scipy.sparse import csr_array

from vse_pipe.core.console import track, warn
from vse_pipe.core.errors import InputError
from vse_pipe.core.seeds import derive_seed
from vse_pipe.extract.text_methods import Corpus, State, bags, known_words, tokenize
from vse_pipe.extract.texts.options import HglmmOptions as Params

_ICA_ITERATIONS = 200


def fit(corpus: Corpus, params: Params, seed: int) -> State:
    """ICA, then the mixture, on the distinct words of the train captions that have a vector; then
    PCA on train captions.

    Raises InputError for a file that cannot be used and for too few words or captions."""
    words, raw, about = known_words(corpus, params)
    met = {token for text in corpus.texts_of("train") for token in tokenize(text)}
    trained = np.array([place for place, word in enumerate(words) if word in met], dtype=np.int64)
    rotation, offset = _independent(raw[trained], params, derive_seed(seed, "ica") % 2**32)
    points = (raw.astype(np.float64) - offset) @ rotation.T
    if params.components > len(trained):
        raise InputError(
            f"hglmm: components is {params.components}, the train captions hold {len(trained)} known words"
        )
    start = derive_seed(seed, "mixture") % 2**32
    mixture, history = fit_mixture(points[trained], params.components, start)
    about["mixture"] = {
        "words": len(trained),
        "iterations": len(history) - 1,
        "log_likelihood": history[-1],
        "laplacian_share": float(mixture.laplacian.mean()),
    }
    arrays = {"vectors": points.astype(np.float32), "ica": rotation, "ica_mean": offset, **vars(mixture)}
    state = State(words, {**arrays, "laplacian": mixture.laplacian.astype(np.uint8)}, about)
    return state if params.pca is None else _reduced(state, list(corpus.texts_of("train")), params.pca, params)


def transform(texts: list[str], state: State, params: Params) -> Float32[np.ndarray, "captions dim"]:
    """(captions, 2 * components * dimensions of a word), or ``pca`` of them; zero for a caption
    without a known word.

    Power normalisation, unit length, then PCA, without another normalisation. The paper only says
    that PCA is last."""
    vectors = _fisher(texts, state)
    if "pca" not in state.arrays:
        return vectors
    reduced = (vectors - state.arrays["pca_mean"]) @ state.arrays["pca"].T
    return np.where(vectors.any(axis=1, keepdims=True), reduced, 0.0).astype(np.float32)


def terms(text: str, params: Params) -> list[str]:
    """The words that are looked up."""
    return tokenize(text)


def _fisher(texts: list[str], state: State) -> Float32[np.ndarray, "captions fisher"]:
    counts, arrays = bags(map(tokenize, texts), state.words), state.arrays
    mixture = Mixture(arrays["weights"], arrays["laplacian"].astype(bool), arrays["location"], arrays["scale"])
    return improved(fisher_vectors(counts, arrays["vectors"], mixture))


def _independent(
    vectors: Float32[np.ndarray, "words dim"], params: Params, seed: int
) -> tuple[Float64[np.ndarray, "components dim"], Float64[np.ndarray, " dim"]]:
    """(rotation, offset) of the ICA; (vectors - offset) @ rotation.T has variance 1."""
    from sklearn.decomposition import FastICA

    count, dim = vectors.shape
    if params.ica == "none":
        return np.eye(dim), np.zeros(dim)
    components = dim if params.ica == "all" else params.ica
    points = vectors.astype(np.float64)
    if components > (rank := np.linalg.matrix_rank(points - points.mean(axis=0))):
        raise InputError(
            f"hglmm: ica asks for {components} components of {count} known words with {dim} "
            f"dimensions, of which {rank} vary independently: set ica to a smaller number or to none"
        )
    ica = FastICA(components, whiten="unit-variance", random_state=seed, max_iter=_ICA_ITERATIONS, tol=1e-4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ica.fit(points)
    if ica.n_iter_ == _ICA_ITERATIONS:
        warn(f"hglmm: the ICA did not converge in {_ICA_ITERATIONS} iterations; set ica to a smaller number")
    return ica.components_, ica.mean_


def _reduced(state: State, train: list[str], components: int, params: Params) -> State:
    """``state`` with the PCA of the Fisher vectors of train captions."""
    size = 2 * state.arrays["location"].size
    if components > min(size, len(train) - 1):
        raise InputError(
            f"hglmm: pca is {components}, but {len(train)} train captions with {size} dimensions have fewer principal components"
        )

    def blocks() -> Iterator[np.ndarray]:
        starts = range(0, len(train), params.block)
        for start in track(starts, len(starts), f"hglmm, PCA of {len(train)} train captions"):
            yield _fisher(train[start : start + params.block], state)

    mean, directions = principal(blocks(), components)
    learnt = {"pca_mean": mean.astype(np.float32), "pca": directions.astype(np.float32)}
    return State(state.words, {**state.arrays, **learnt}, state.about)


# The hybrid Gaussian-Laplacian mixture (Klein et al., CVPR 2015): its density, and its fit by EM.
#
# Every component is a product over dimensions, and in each dimension of each component the density
# is either Gaussian (location: mean, scale: standard deviation) or Laplacian (location: median,
# scale: mean absolute deviation).

Points = Float64[np.ndarray, "points dim"]
Shares = Float64[np.ndarray, "points components"]
_FLOOR = 1e-2
_EM_STEPS, _EM_GAIN = 100, 1e-3
_LOG_TINY = -700.0


@dataclass(frozen=True)
class Mixture:
    """weights sum to 1; laplacian: of each dimension of each component, else Gaussian."""

    weights: Float64[np.ndarray, " components"]
    laplacian: Bool[np.ndarray, "components dim"]
    location: Float64[np.ndarray, "components dim"]
    scale: Float64[np.ndarray, "components dim"]


def posteriors(mixture: Mixture, points: Points) -> tuple[Shares, Float64[np.ndarray, " points"]]:
    """The share of each component in each point, and the log-likelihood of each point."""
    joint = np.empty((len(points), len(mixture.weights)))
    constant = np.where(mixture.laplacian, np.log(2.0), 0.5 * np.log(2.0 * np.pi)) + np.log(mixture.scale)
    with np.errstate(divide="ignore"):
        weights = np.maximum(np.log(mixture.weights), _LOG_TINY)
    for k, laplacian in enumerate(mixture.laplacian):
        z = np.abs(points - mixture.location[k]) / mixture.scale[k]
        density = np.where(laplacian, z, 0.5 * z * z).sum(axis=1)
        joint[:, k] = weights[k] - constant[k].sum() - density
    top = joint.max(axis=1, keepdims=True)
    shares = np.exp(joint - top)
    total = shares.sum(axis=1, keepdims=True)
    return shares / total, (top + np.log(total))[:, 0]


def fit_mixture(points: Points, components: int, seed: int) -> tuple[Mixture, list[float]]:
    """EM from a k-means++ start, until the mean log-likelihood gains less than 0.001 nats a point,
    and at most 100 steps. Returns the mixture, and the mean log-likelihood of a point under the first
    one and after each step.

    The M step takes, per component and dimension, the density with the higher expected
    log-likelihood, at its best location and scale, so the log-likelihood never falls. Scales stay
    above a hundredth of the standard deviation of their dimension; a component on a single point
    would otherwise have an infinite likelihood. The paper and the authors' binaries state neither
    start, floor nor stop. Each distinct word is one point, as the authors fit on the vocabulary."""
    spread = points.std(axis=0)
    floor = _FLOOR * np.where(spread > 0, spread, 1.0)
    order = points.argsort(axis=0, kind="stable")
    mixture = maximise(points, _start(points, components, seed), floor, order)
    shares, likelihood = posteriors(mixture, points)
    history = [float(likelihood.mean())]
    for _ in range(_EM_STEPS):
        mixture = maximise(points, shares, floor, order)
        shares, likelihood = posteriors(mixture, points)
        history.append(float(likelihood.mean()))
        if history[-1] - history[-2] < _EM_GAIN:
            break
    return mixture, history


def _start(points: Points, components: int, seed: int) -> Shares:
    """Shares of 1 for the nearest of ``components`` points that k-means++ picks."""
    from sklearn.cluster import kmeans_plusplus

    centres, _ = kmeans_plusplus(points, components, random_state=seed)
    nearest = ((centres * centres).sum(axis=1) - 2.0 * points @ centres.T).argmin(axis=1)
    return np.eye(components)[nearest]


def maximise(points: Points, shares: Shares, floor: Float64[np.ndarray, " dim"], order: np.ndarray) -> Mixture:
    """The M step. order: ``points.argsort(axis=0)``, the same in every step."""
    total = np.maximum(shares.sum(axis=0), np.exp(_LOG_TINY))[:, None]
    mean = shares.T @ points / total
    median = _medians(points, shares, order)
    variance, deviation = np.empty_like(mean), np.empty_like(mean)
    for k in range(len(mean)):
        variance[k] = shares[:, k] @ (points - mean[k]) ** 2 / total[k]
        deviation[k] = shares[:, k] @ np.abs(points - median[k]) / total[k]
    sigma, s = np.maximum(np.sqrt(variance), floor), np.maximum(deviation, floor)
    gaussian = -np.log(sigma) - 0.5 * np.log(2.0 * np.pi) - 0.5 * variance / sigma**2
    laplacian = gaussian < -np.log(2.0 * s) - deviation / s
    weights = shares.sum(axis=0) / len(points)
    return Mixture(weights, laplacian, np.where(laplacian, median, mean), np.where(laplacian, s, sigma))


def _medians(points: Points, shares: Shares, order: np.ndarray) -> Float64[np.ndarray, "components dim"]:
    """The lower weighted median of every dimension under every component's shares."""
    out = np.empty((shares.shape[1], points.shape[1]))
    half = 0.5 * shares.sum(axis=0)
    for d in range(points.shape[1]):
        below = shares[order[:, d]].cumsum(axis=0)
        out[:, d] = points[order[(below < half).sum(axis=0).clip(max=len(points) - 1), d], d]
    return out


_TINY = 1e-12


def fisher_vectors(
    counts: csr_array, points: Float[np.ndarray, "points dim"], mixture: Mixture
) -> Float64[np.ndarray, "captions fisher"]:
    """(captions, 2 * components * dim): the direction in which the words of a caption would move
    the mixture.

    counts: (captions, points), the occurrences of each word; points: of any precision, converted to
    float64 when used. It is the gradient of the log-likelihood of a caption's N words with respect
    to location m and scale s, divided by the root of the (diagonal) Fisher information. With z = (x
    - m) / s, a word's share g of the component and the component's weight w, summed over the words:

        Gaussian   location  g z / sqrt(N w)          scale  g (z^2 - 1) / sqrt(2 N w)     information N w / s^2, 2 N w / s^2
        Laplacian  location  g sign(z) / sqrt(N w)    scale  g (|z| - 1) / sqrt(N w)       information N w / s^2, both

    All locations come first, component by component, then all scales. A caption without words is
    the zero vector."""
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
    return (powered / np.maximum(np.linalg.norm(powered, axis=1, keepdims=True), _TINY)).astype(np.float32)


def principal(
    blocks: Iterable[Float32[np.ndarray, "_ dim"]], components: int
) -> tuple[Float64[np.ndarray, " dim"], Float64[np.ndarray, "components dim"]]:
    """The mean and the ``components`` directions of largest variance, largest first, each of unit
    length.

    The covariance takes 8 * dim * dim bytes, its sum and decomposition three times as much. The
    largest entry of a direction is positive."""
    from scipy.linalg import eigh

    total, products, count = np.zeros(1), np.zeros(1), 0
    for block in blocks:
        block = block.astype(np.float64)
        total = total + block.sum(axis=0)
        products = products + block.T @ block
        count += len(block)
    mean, dim = total / count, len(total)
    covariance = products / count - np.outer(mean, mean)
    _, vectors = eigh(covariance, subset_by_index=[dim - components, dim - 1])
    directions = vectors.T[::-1]
    signs = np.sign(directions[np.arange(components), np.abs(directions).argmax(axis=1)])
    return mean, directions * signs[:, None]
