"""What `embed` makes of a model that trained on pixels."""

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.train.painted import loaded, original
from vse_pipe.artifacts import embeddings, features, model_files
from vse_pipe.core.errors import IntegrityError, MissingResource
from vse_pipe.embed.stage import embed
from vse_pipe.extract.stage import extract
from vse_pipe.project import paths
from vse_pipe.project.registry import BACKBONES
from vse_pipe.train import model
from vse_pipe.train.encoders.image.finetune import Pictures
from vse_pipe.train.stage import train


def test_embeddings_are_those_of_the_trained_network(painted_project, monkeypatch):
    """Without the weights that training began with, from the images alone."""
    params = loaded({"lr": 1e-3}, epochs=2)
    train(params, "ft", "cpu")
    monkeypatch.setattr(model, "image_inputs", lambda *a: pytest.fail("stored features were read"))
    embed(params, "ft", "cpu")
    found = embeddings.read(paths.embedded("ft") / embeddings.IMAGES)
    files = model_files.read(paths.trained("ft"))
    module = BACKBONES.load("torchvision").build(params.features["small"].backbone.params, 99).module
    network = {k.removeprefix("img.backbone."): v for k, v in files.weights.items() if "backbone" in k}
    module.load_state_dict(network)
    stored = features.read(paths.extracted("toy", "small"))
    pictures = Pictures.join("toy", stored, files.config["backbone"], torch.device("cpu"))
    (pixels,) = pictures.tested([stored.rows_of(found.ids)])
    with torch.inference_mode():
        given = module.eval()(pixels)
        given = given / given.norm(dim=1, keepdim=True)
        expected = given @ files.weights["img.fc.weight"].T + files.weights["img.fc.bias"]
        expected = expected / expected.norm(dim=1, keepdim=True)
    np.testing.assert_allclose(found.vectors, expected.numpy(), atol=1e-5)
    assert np.abs(given.numpy() - stored.array[stored.rows_of(found.ids)]).max() > 1e-4, "it has moved"


def test_a_model_is_embedded_without_its_first_weights(painted_project):
    """Sizes, mean and std come from the model folder too, not from what the weights were published with."""
    state = {k.removeprefix("img.backbone.net."): v for k, v in original().items()}
    state |= {"fc.weight": torch.zeros(1000, 1024), "fc.bias": torch.zeros(1000)}
    save_file({name: value.contiguous() for name, value in state.items()}, "first.safetensors")
    params = loaded({"lr": 1e-3}, {"weights": "first.safetensors", "mean": [0.1, 0.2, 0.3]}, epochs=1)
    with pytest.raises(IntegrityError, match="made with other weights and transform than there are now"):
        train(params, "ft", "cpu")
    extract(params, "small", "cpu")
    train(params, "ft", "cpu")
    embed(params, "ft", "cpu")
    whole = (paths.embedded("ft") / embeddings.IMAGES).read_bytes()
    (painted_project / "first.safetensors").unlink()
    embed(params, "ft", "cpu")
    assert (paths.embedded("ft") / embeddings.IMAGES).read_bytes() == whole
    described = json.loads((paths.trained("ft") / model_files.CONFIG).read_text())["backbone"]
    assert described["transform"]["mean"] == [0.1, 0.2, 0.3]
    assert len(described["weights"]["sha256"]) == 64
    with pytest.raises(MissingResource, match=r"first\.safetensors: no such weights file"):
        train(params, "ft", "cpu")


def test_a_model_with_a_branch_is_restored(painted_project):
    params = loaded({"head": "two_branch", "branch": {"hidden": 8}}, epochs=1)
    train(params, "ft", "cpu")
    embed(params, "ft", "cpu")
    files = load_file(paths.trained("ft") / model_files.MODEL)
    assert {name.split(".")[2] for name in files if name.startswith("img.fc.")} == {"fc1", "fc2", "bn"}
    vectors = embeddings.read(paths.embedded("ft") / embeddings.IMAGES).vectors
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)


def test_a_fixed_network_is_embedded_from_its_stored_features(painted_project):
    params = loaded({"trainable": False}, epochs=1)
    train(params, "ft", "cpu")
    shutil.rmtree("raw")
    embed(params, "ft", "cpu")


def test_other_images_are_refused_by_embed(painted_project):
    params = loaded({"lr": 1e-3}, epochs=1)
    train(params, "ft", "cpu")
    picture = sorted((painted_project / "raw").iterdir())[-1]
    picture.write_bytes(picture.read_bytes() + b"\0")
    with pytest.raises(IntegrityError, match="changed after prepare read it"):
        embed(params, "ft", "cpu")
    assert not paths.embedded("ft").exists()
