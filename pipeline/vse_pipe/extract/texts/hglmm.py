"""Fisher vectors of word vectors under a hybrid Gaussian-Laplacian mixture (Klein et al., CVPR 2015)."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float32, Float64

from vse_pipe.core import seeds
from vse_pipe.core.console import track, warn
from vse_pipe.core.errors import InputError
from vse_pipe.extract.text_methods import Corpus, State
from vse_pipe.extract.texts.options import HglmmOptions as Params


def fit(corpus: Corpus, params: Params, seed: int) -> State:
    """ICA, then the mixture, on the distinct words of the train captions that have a vector; then PCA on train captions.

    Raises InputError for a file that cannot be used and when there are too few words or captions for what is asked.
    """
    from vse_pipe.extract import fisher
    from vse_pipe.extract.tokens import known_words, splitter

    words, raw, about = known_words(corpus, params)
    tokens = splitter(params)
    met = {token for text in corpus.of("train") for token in tokens(text)}
    trained = np.array([place for place, word in enumerate(words) if word in met], dtype=np.int64)
    rotation, offset = _independent(raw[trained], params, seeds.derive_seed(seed, "ica") % 2**32)
    points = (raw.astype(np.float64) - offset) @ rotation.T
    if params.components > len(trained):
        raise InputError(
            f"hglmm: components is {params.components}, the train captions hold {len(trained)} known words"
        )
    start = seeds.derive_seed(seed, "mixture") % 2**32
    found = fisher.fit(points[trained], params.components, start, params.max_iterations, params.tolerance)
    if not found.converged:
        warn(f"hglmm: the mixture still gained after {params.max_iterations} iterations; raise max_iterations")
    about["mixture"] = {
        "words": len(trained),
        "iterations": len(found.history) - 1,
        "log_likelihood": found.history[-1],
        "laplacian_share": float(found.mixture.laplacian.mean()),
    }
    arrays = {"vectors": points.astype(np.float32), "ica": rotation, "ica_mean": offset}
    state = State(words, {**arrays, **_stored(found.mixture)}, about)
    return state if params.pca is None else _reduced(state, list(corpus.of("train")), params.pca, params, seed)


def transform(texts: list[str], state: State, params: Params) -> Float32[np.ndarray, "captions dim"]:
    """(captions, 2 * components * dimensions of a word), or ``pca`` of them; no known word gives the zero vector.

    Power normalisation, unit length, then PCA, without another normalisation; the paper says no more of the order
    than that the PCA comes last.
    """
    vectors = _fisher(texts, state, params)
    if "pca" not in state.arrays:
        return vectors
    reduced = (vectors - state.arrays["pca_mean"]) @ state.arrays["pca"].T
    return np.where(vectors.any(axis=1, keepdims=True), reduced, 0.0).astype(np.float32)


def terms(text: str, params: Params) -> list[str]:
    """The words that are looked up among the known ones."""
    from vse_pipe.extract.tokens import splitter

    return splitter(params)(text)


def _fisher(texts: list[str], state: State, params: Params) -> Float32[np.ndarray, "captions fisher"]:
    from vse_pipe.extract.fisher import fisher_vectors, improved
    from vse_pipe.extract.tokens import bags, splitter

    counts = bags(map(splitter(params), texts), state.words)
    return improved(fisher_vectors(counts, state.arrays["vectors"], _mixture_of(state)))


def _independent(
    vectors: Float32[np.ndarray, "words dim"], params: Params, seed: int
) -> tuple[Float64[np.ndarray, "components dim"], Float64[np.ndarray, " dim"]]:
    """(rotation, offset) of the ICA; (vectors - offset) @ rotation.T has independent columns of variance 1."""
    import warnings

    from sklearn.decomposition import FastICA
    from sklearn.exceptions import ConvergenceWarning

    count, dim = vectors.shape
    if params.ica == "none":
        return np.eye(dim), np.zeros(dim)
    components = dim if params.ica == "all" else params.ica
    if components > dim or components >= count:
        raise InputError(
            f"hglmm: ica asks for {components} components of {count} known words with {dim} dimensions; it needs no more "
            "than the dimensions and fewer than the words: set ica to a smaller number or to none"
        )
    ica = FastICA(components, whiten="unit-variance", random_state=seed, max_iter=params.ica_iterations, tol=1e-4)
    with warnings.catch_warnings(record=True) as caught, np.errstate(divide="ignore", invalid="ignore"):
        warnings.simplefilter("always", ConvergenceWarning)
        try:
            ica.fit(vectors.astype(np.float64))
        except (ValueError, np.linalg.LinAlgError) as error:
            reason = str(error).splitlines()[0]
            raise InputError(f"hglmm: the word vectors do not vary ({reason}); set ica: none") from error
    if any(issubclass(entry.category, ConvergenceWarning) for entry in caught):
        warn(f"hglmm: the ICA did not converge in {params.ica_iterations} iterations; raise ica_iterations")
    return ica.components_, ica.mean_


def _reduced(state: State, train: list[str], components: int, params: Params, seed: int) -> State:
    """``state`` with the PCA of the Fisher vectors of train captions."""
    from vse_pipe.extract.fisher import principal

    if params.pca_captions is not None and params.pca_captions < len(train):
        chosen = seeds.generator(seed, "pca").choice(len(train), params.pca_captions, replace=False)
        train = [train[place] for place in np.sort(chosen)]
    size = 2 * state.arrays["location"].size
    if components > min(size, len(train) - 1):
        raise InputError(
            f"hglmm: pca is {components}, but {len(train)} train captions with {size} dimensions have fewer "
            "principal components"
        )

    def blocks() -> Iterator[np.ndarray]:
        starts = range(0, len(train), params.block)
        for start in track(starts, len(starts), f"hglmm, PCA of {len(train)} train captions"):
            yield _fisher(train[start : start + params.block], state, params)

    mean, directions = principal(blocks(), components)
    learnt = {"pca_mean": mean.astype(np.float32), "pca": directions.astype(np.float32)}
    return State(state.words, {**state.arrays, **learnt}, {**state.about, "pca_captions": len(train)})


def _stored(mixture) -> dict[str, np.ndarray]:
    return {**vars(mixture), "laplacian": mixture.laplacian.astype(np.uint8)}


def _mixture_of(state: State):
    from vse_pipe.extract.fisher import Mixture

    arrays = state.arrays
    return Mixture(arrays["weights"], arrays["laplacian"].astype(bool), arrays["location"], arrays["scale"])
