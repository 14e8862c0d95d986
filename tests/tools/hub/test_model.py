"""The loader of a packed model, with no project around it."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torchvision import models

from tests.train.conftest import extraction, painted_project  # noqa: F401 (fixtures)
from tests.train.painted import RAW, RUN, loaded
from vse_pipe.artifacts import captions, embeddings, features
from vse_pipe.core.errors import IntegrityError, UsageError
from vse_pipe.core.files import read_json, sha256, write_json
from vse_pipe.embed.stage import embed
from vse_pipe.extract.stage import extract
from vse_pipe.project import paths
from vse_pipe.project.params.load import load
from vse_pipe.tools.hub import networks
from vse_pipe.tools.pack import LOADER, pack
from vse_pipe.train.stage import train


@pytest.fixture
def packed(made, tmp_path, monkeypatch):
    """What the run ``sum`` was packed into, outside of its project, which is not the working directory any more."""
    pack(load(paths.PARAMS), "sum", tmp_path / "hub", None)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "hub"


def test_captions_and_features_have_the_vectors_of_the_run_to_the_last_bit(packed, made):
    (network,) = networks(packed)
    said = captions.read(made / paths.prepared("toy"))["text"].to_pylist()
    stored = features.read(made / paths.extracted("toy", "plain"))
    sides = [
        embeddings.read(made / paths.embedded("sum") / name).vectors
        for name in (embeddings.IMAGES, embeddings.CAPTIONS)
    ]
    found = network.features(np.asarray(stored.array)), network.captions(said)
    assert np.array_equal(found[0].numpy(), sides[0])
    assert np.array_equal(found[1].numpy(), sides[1])
    assert torch.equal(network.scores(*found), found[0] @ found[1].T)


def test_what_cannot_be_encoded_is_said(packed):
    (network,) = networks(packed)
    with pytest.raises(UsageError, match=r"the model reads features of shape \(10,\), not an array of shape \(2, 3\)"):
        network.features(np.zeros((2, 3), np.float32))
    with pytest.raises(UsageError, match="features 'precomp' were computed elsewhere"):
        network.images([packed / "a.jpg"])


def test_a_file_that_was_changed_is_refused(packed):
    text = (packed / "texts" / "meta.json").read_text()
    (packed / "texts" / "meta.json").write_text(text.replace('"tokens.npy": "', '"tokens.npy": "0'))
    with pytest.raises(IntegrityError, match="not the texts that the model was trained on"):
        networks(packed)[0].captions(["a red dog"])
    meta = read_json(packed / "features" / "meta.json")
    write_json(packed / "features" / "meta.json", {**meta, "sha256": "0" * 64})
    with pytest.raises(IntegrityError, match="not the features that the model was trained on"):
        networks(packed)[0].images([packed / "a.jpg"])
    (packed / "model.safetensors").write_bytes(b"")
    with pytest.raises(IntegrityError, match="content does not match the digest"):
        networks(packed)


@pytest.mark.acceptance
@pytest.mark.parametrize("image", ["linear", "finetune"])
def test_the_loader_of_the_card_runs_and_scores_photos_as_the_run_does(painted_project, tmp_path, monkeypatch, image):  # noqa: F811
    params = loaded({}, run={**RUN, "image": image}, epochs=1)
    train(params, "ft", "cpu")
    embed(params, "ft", "cpu")
    pack(params, "ft", tmp_path / "hub", None)
    sides = [embeddings.read(paths.embedded("ft") / name) for name in (embeddings.IMAGES, embeddings.CAPTIONS)]
    said = captions.read(paths.prepared("toy"))["text"].to_pylist()[:2]
    for name, number in (("a.jpg", 0), ("b.jpg", 1)):
        shutil.copyfile(RAW / f"{number:03d}.png", tmp_path / "hub" / name)
    monkeypatch.chdir(tmp_path / "hub")
    known = {"Path": Path}
    exec(LOADER.replace('"two dogs run along a beach", "a red car in the snow"', ", ".join(map(repr, said))), known)
    assert len([line for line in LOADER.splitlines() if line]) == 8
    expected = sides[0].vectors[:2] @ sides[1].vectors[:2].T
    np.testing.assert_allclose(known["scores"].numpy(), expected, atol=1e-5)


def test_own_weights_are_packed_and_photos_have_the_vectors_of_the_run(painted_project, tmp_path, monkeypatch, capsys):  # noqa: F811
    """The network's file lay in the project alone; what loads the pack needs nothing else."""
    Path("own").mkdir()
    save_file(models.shufflenet_v2_x0_5().state_dict(), "own/network.safetensors")
    params = loaded({}, {"weights": "own/network.safetensors"}, run={**RUN, "image": "linear"}, epochs=1)
    extract(params, "small", "cpu")
    train(params, "ft", "cpu")
    embed(params, "ft", "cpu")
    digests = pack(params, "ft", tmp_path / "hub", None)
    digest = sha256(Path("own/network.safetensors"))
    held = f"weights/{digest[:8]}-network.safetensors"
    assert digests[held] == digest
    card = (tmp_path / "hub/README.md").read_text()
    assert "whose weights lie in weights/" in card
    assert f"weights: models/ft/{held}" in card
    expected = embeddings.read(paths.embedded("ft") / embeddings.IMAGES).vectors[:2]
    photos = [(RAW / f"{number:03d}.png").resolve() for number in (0, 1)]
    Path("own/network.safetensors").rename("elsewhere.safetensors")
    monkeypatch.chdir(tmp_path / "hub")
    (one,) = networks(Path())
    np.testing.assert_allclose(one.images(photos).numpy(), expected, atol=1e-5)
    monkeypatch.chdir(painted_project)
    assert not list(pack(params, "ft", tmp_path / "without", None).keys() & {held})
    assert "network.safetensors is not there; without it the pack encodes no new photos" in capsys.readouterr().err
    Path("own/network.safetensors").write_bytes(b"other")
    with pytest.raises(IntegrityError, match="other weights than features were made with"):
        pack(params, "ft", tmp_path / "other", None)
