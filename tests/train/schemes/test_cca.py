"""Runs under cca: what they end with is what the formulas say, and they end so after a kill."""

from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest
from scipy.linalg import LinAlgError

from tests.naive import training as naive
from tests.toy_project import PARAMS, load_params, write_prepared, write_word_vectors
from tests.train.some import some_pairs, some_scheme
from vse_pipe.artifacts import captions, embeddings, features, images, model_files, texts
from vse_pipe.core.errors import UsageError
from vse_pipe.embed.stage import embed
from vse_pipe.extract.text_stage import extract_texts
from vse_pipe.inject.stage import inject
from vse_pipe.project import paths
from vse_pipe.train import closed_form
from vse_pipe.train.closed_form import moments_of
from vse_pipe.train.schemes.cca import canonical
from vse_pipe.train.stage import train

LINEAR = {"text": "two_branch", "options": {"text": {"nonlinear": False}, "scheme": {"eta": 1e-3}}}
RUN = {**PARAMS["runs"]["sum"], **LINEAR, "scheme": "cca", "texts": "means", "train": {"epochs": 1, "embed_size": 5}}


def _params(**changes):
    means = {"dataset": "toy", "method": "mean_vectors", "vectors": "words.npz"}
    return load_params(Path(), texts={"means": means}, runs={"cca": {**RUN, **changes}})


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_prepared()
    write_word_vectors()
    inject(_params(), "clean")
    extract_texts(_params(), "means")


def sides_of_train() -> list[np.ndarray]:
    """Features of the images and vectors of the captions of the split train, a row a caption."""
    told = captions.read(paths.prepared("toy")).filter(pc.equal(pc.field("split"), "train"))
    seen, read = features.read(paths.extracted("toy", "plain")), texts.read(paths.extracted("toy", "means"))
    places = read.places_of(told["caption_id"].to_numpy())
    sides = seen.array[seen.rows_of(told["image_id"].to_numpy())], read.array[read.rows[places]]
    return [np.asarray(side, np.float64) for side in sides]


@pytest.mark.parametrize("image", ["linear", "two_branch"])
def test_a_run_ends_with_the_canonical_directions_of_its_train_pairs(project, monkeypatch, image):
    monkeypatch.setattr(closed_form, "_BLOCK_BYTES", 7 * 8 * 18)  # several blocks, the last one short
    options = {**RUN["options"], **({"image": {"nonlinear": False}} if image == "two_branch" else {})}
    params = _params(image=image, options=options)
    train(params, "cca", "cpu")
    embed(params, "cca", "cpu")
    rows = model_files.read_history(paths.trained("cca"))
    assert (rows.epoch.tolist(), rows.loss.tolist()) == ([1], [0.0])
    read = embeddings.read(paths.embedded("cca") / captions.NAME).split("train")
    seen = embeddings.read(paths.embedded("cca") / images.NAME)
    shown = seen.vectors[[seen.ids.tolist().index(owner) for owner in read.image_ids]]
    _, cosines = naive.correlations_and_cosines(*sides_of_train(), 1e-3, 5)
    np.testing.assert_allclose(shown @ read.vectors.T, cosines, atol=1e-5)


def test_what_cannot_be_set_is_refused(project):
    wanted = r"no more than 8 dimensions.* not 9"
    with pytest.raises(UsageError, match=wanted):
        train(_params(train={"embed_size": 9}), "cca", "cpu")
    with pytest.raises(UsageError, match="take two_branch"):
        some_scheme(some_pairs(), name="cca", train={"embed_size": 2})


@pytest.mark.parametrize(
    "changes",
    [
        {"text": "two_branch", "options": {}},
        {"options": {"text": {"nonlinear": False}, "image": {"no_imgnorm": True}}},
    ],
)
def test_encoders_that_do_more_or_less_than_a_linear_map_to_unit_length_are_refused(project, changes):
    with pytest.raises(UsageError, match=r"scheme 'cca' sets one linear layer .*nonlinear: false"):
        train(_params(**changes), "cca", "cpu")
    assert not paths.trained("cca").exists()


def _sides_canonical(rows=60, images=7, texts=5, shared=3, seed=0):
    rng = np.random.default_rng(seed)
    common = rng.standard_normal((rows, shared))
    sides = [common @ rng.standard_normal((shared, width)) for width in (images, texts)]
    return [side + 0.5 * rng.standard_normal(side.shape) + 40 for side in sides]


def _ours(images, texts, eta, size, parts=4):
    rows = np.concatenate([images, texts], axis=1)
    mean, covariance = moments_of(lambda: np.array_split(rows, parts))
    correlations, *maps = canonical(covariance, images.shape[1], eta, size)
    means = np.split(mean, [images.shape[1]])
    sides = zip((images, texts), means, maps, strict=True)
    mapped = [(side - mean) @ one.T for side, mean, one in sides]
    units = [side / np.linalg.norm(side, axis=1, keepdims=True) for side in mapped]
    return correlations, units[0] @ units[1].T


@pytest.mark.parametrize("eta", [0.0, 1e-4, 0.1])
@pytest.mark.parametrize(("images", "texts", "size"), [(7, 5, 5), (5, 7, 5), (7, 5, 3), (4, 4, 4), (3, 1, 1)])
def test_they_are_those_of_the_generalised_eigenproblem(eta, images, texts, size):
    sides = _sides_canonical(images=images, texts=texts)
    (correlations, cosines), wanted = _ours(*sides, eta, size), naive.correlations_and_cosines(*sides, eta, size)
    np.testing.assert_allclose(correlations, wanted[0], atol=1e-9)
    np.testing.assert_allclose(cosines, wanted[1], atol=1e-8)


@pytest.mark.parametrize("shift", [0.0, 1e6])
def test_moments_do_not_depend_on_the_blocks_nor_suffer_from_a_large_mean(shift):
    rows = np.concatenate(_sides_canonical(), axis=1)
    mean, covariance = moments_of(lambda: (block + shift for block in np.array_split(rows, 7)))
    np.testing.assert_allclose(mean, rows.mean(axis=0) + shift)
    np.testing.assert_allclose(np.tril(covariance), np.tril(np.cov(rows.T)), rtol=1e-7, atol=1e-8)


def test_a_side_without_variance_maps_to_nothing_and_a_singular_one_is_refused():
    images, texts = _sides_canonical()
    _, covariance = moments_of(lambda: [np.concatenate([images, np.full_like(texts, 3.0)], axis=1)])
    correlations, image_map, _ = canonical(covariance, 7, 1e-3, 5)
    np.testing.assert_allclose(correlations, 0, atol=1e-12)
    np.testing.assert_allclose(image_map, 0, atol=1e-9)
    images, texts = _sides_canonical()
    rows = np.concatenate([np.repeat(images[:, :1], 4, axis=1) * 1e9, texts], axis=1)
    with pytest.raises(LinAlgError):
        canonical(moments_of(lambda: [rows])[1], 4, 0.0, 2)
