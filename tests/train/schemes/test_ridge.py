"""Runs under ridge: the kept model is the regression with the strength that is best on val."""

from pathlib import Path

import numpy as np
import pytest

from tests.naive import training as naive
from tests.toy_project import PARAMS, WORDS, load_params, write_prepared, write_word_vectors
from tests.train.schemes.test_cca import sides_of_train
from vse_pipe.artifacts import captions, embeddings, images, model_files
from vse_pipe.core.errors import InputError, UsageError
from vse_pipe.embed.stage import embed
from vse_pipe.extract.text_stage import extract_texts
from vse_pipe.inject.stage import inject
from vse_pipe.project import paths
from vse_pipe.train.closed_form import moments_of
from vse_pipe.train.schemes.ridge import ridge_map
from vse_pipe.train.stage import train

STRENGTHS = [1e-3, 0.1, 10.0]


def _params(embed_size: int | None = None, epochs: int = 3, strengths: list | None = None):
    options = {"text": {"nonlinear": False}, "scheme": {"strengths": strengths or STRENGTHS}}
    members = {"text": "two_branch", "texts": "means", "scheme": "ridge", "options": options}
    run = {**PARAMS["runs"]["sum"], **members}
    run["train"] = {"epochs": epochs, "embed_size": embed_size or 10}
    means = {"dataset": "toy", "method": "mean_vectors", "vectors": "words.npz"}
    return load_params(Path(), texts={"means": means}, runs={"ridge": run})


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_prepared()
    write_word_vectors()
    inject(_params(), "clean")
    extract_texts(_params(), "means")


def test_the_kept_model_is_the_regression_with_the_best_strength_on_val(project):
    params = _params()
    train(params, "ridge", "cpu")
    embed(params, "ridge", "cpu")
    rsums = model_files.read_history(paths.trained("ridge")).val_rsum.tolist()
    config = model_files.read_config(paths.trained("ridge"))
    assert config["best"]["epoch"] == 1 + rsums.index(max(rsums))
    assert config["ended"]["converged"]
    strength = STRENGTHS[config["best"]["epoch"] - 1]
    image_side, text_side = sides_of_train()
    expected = naive.ridge_cosines(text_side, image_side, strength)
    text_vectors = embeddings.read(paths.embedded("ridge") / captions.NAME).split("train")
    image_vectors = embeddings.read(paths.embedded("ridge") / images.NAME)
    rows = [image_vectors.ids.tolist().index(image) for image in text_vectors.image_ids]
    np.testing.assert_allclose(image_vectors.vectors[rows] @ text_vectors.vectors.T, expected, atol=1e-5)


def test_every_strength_gives_another_map_and_its_unit_follows_the_features():
    rows = np.random.default_rng(0).standard_normal((40, 9)) + 3
    covariance = moments_of(lambda: [rows])[1]
    weak, strong = (ridge_map(covariance, 4, strength) for strength in (0.1, 10.0))
    assert weak.shape == (4, 5)
    assert np.linalg.norm(strong) < np.linalg.norm(weak) / 2
    scaled = moments_of(lambda: [rows * 7])[1]
    np.testing.assert_allclose(ridge_map(scaled, 4, 0.1), weak)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"embed_size": 5}, "images of 10 numbers, .*: set train.embed_size 10, not 5"),
        ({"epochs": 2}, "one of its strengths an epoch: set train.epochs 3, not 2"),
        ({"strengths": [1.0]}, "one of its strengths an epoch: set train.epochs 1, not 3"),
    ],
)
def test_another_width_or_number_of_epochs_is_refused_with_the_right_one(project, changes, message):
    with pytest.raises(UsageError, match=message):
        train(_params(**changes), "ridge", "cpu")


def test_constant_texts_are_refused_as_input(project):
    np.savez("words.npz", words=np.array(WORDS), vectors=np.ones((len(WORDS), 8), np.float32))
    extract_texts(_params(), "means")
    with pytest.raises(InputError, match="singular"):
        train(_params(), "ridge", "cpu")
