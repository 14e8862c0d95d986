"""Trainings of a network inside of the model, and `embed` of their models."""

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch.nn.functional import normalize

from tests.train.painted import RUN, loaded, original
from tests.train.some import check_resumes, files_of, history
from vse_pipe.artifacts import embeddings, features, model_files, pairs
from vse_pipe.core.errors import IntegrityError, MissingResource, UsageError
from vse_pipe.core.files import read_json
from vse_pipe.embed.stage import embed
from vse_pipe.extract.stage import extract
from vse_pipe.inject.stage import inject
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Member
from vse_pipe.project.registry import BACKBONES
from vse_pipe.train import model
from vse_pipe.train.checkpoint import Checkpoint
from vse_pipe.train.pictures import Pictures
from vse_pipe.train.stage import train

pytestmark = pytest.mark.acceptance

FT = {"after": 2, "lr": 1e-3}
NORMS = ("running_mean", "running_var", "num_batches_tracked")


@pytest.fixture
def epochs(monkeypatch):
    """The model after every epoch, and what its checkpoint holds."""
    models, real = [], Checkpoint.save

    def save(self, model, *rest):
        models.append({name: value.clone() for name, value in model.state_dict().items()})
        real(self, model, *rest)

    monkeypatch.setattr(Checkpoint, "save", save)
    return models


def _network(model: dict, statistics: bool = False) -> dict:
    named = {name: value for name, value in model.items() if name.startswith("img.backbone.")}
    return {name: value for name, value in named.items() if (name.rpartition(".")[2] in NORMS) is statistics}


def _same(one: dict, other: dict) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def _train(options: dict, features: dict | None = None, run: dict = RUN, **section):
    params = loaded(options, features, run, **section)
    train(params, "ft", "cpu")
    return params


def _vectors():
    return embeddings.read(paths.embedded("ft") / embeddings.IMAGES)


def test_the_network_stays_until_its_epoch_and_moves_from_then_on(painted_project, epochs):
    _train(FT)
    before = _network(original())
    assert len(before) > 100
    assert [_same(_network(epochs[epoch]), before) for epoch in (0, 1)] == [True, True]
    assert [name for name in before if torch.equal(epochs[2][name], before[name])] == []
    assert not _same(_network(epochs[3]), _network(epochs[2]))
    assert all(_same(_network(weights, statistics=True), _network(original(), statistics=True)) for weights in epochs)
    assert np.isfinite(history("ft").loss).all()
    assert history("ft").epoch.tolist() == [1, 2, 3, 4]


def test_a_fixed_network_stays_and_is_embedded_from_its_stored_features(painted_project, epochs):
    """RC: what it sees of an image varies, the network does not."""
    _train({"trainable": False}, epochs=2)
    assert all(_same({**_network(weights), **_network(weights, True)}, original()) for weights in epochs)
    crops = history("ft").loss.tolist()
    params = _train({"trainable": False, "after": 9}, epochs=2)
    assert history("ft").loss.tolist() != crops, "stored features are no random crops"
    shutil.rmtree("raw")
    embed(params, "ft", "cpu")


@pytest.mark.parametrize("options", [FT, {**FT, "after": 1, "batch_norm": "updated", "before": "crops"}])
def test_a_killed_run_goes_on_and_ends_bit_equal(painted_project, options):
    check_resumes(loaded(options), "ft", 1, 3)


def test_features_without_images_and_other_images_are_refused(painted_project):
    params = loaded(FT)
    member = Member("precomp", BACKBONES.options("precomp")())
    params.features["small"] = params.features["small"].model_copy(update={"backbone": member})
    with pytest.raises(UsageError, match=r"needs features made from images; features\.small is 'precomp'"):
        train(params, "ft", "cpu")
    params = _train({"lr": 1e-3}, epochs=1)
    picture = sorted((painted_project / "raw").iterdir())[-1]
    picture.write_bytes(picture.read_bytes() + b"\0")
    with pytest.raises(IntegrityError, match="changed after prepare read it"):
        embed(params, "ft", "cpu")
    assert not paths.embedded("ft").exists()


def test_moving_statistics_and_chunks_are_refused_before_anything_is_removed(painted_project):
    _train({"batch_norm": "updated"}, epochs=1, chunk=8)  # chunks that hold a whole batch are none
    whole = files_of("ft")
    for before in ("features", "crops"):
        wanted = r"train\.chunk: 'img\.backbone.* normalises over the whole batch"
        with pytest.raises(UsageError, match=wanted):
            _train({"batch_norm": "updated", "after": 3, "before": before}, chunk=3)
        assert files_of("ft") == whole, before


def test_l2rm_rematches_images_that_the_network_is_trained_on(painted_project):
    """Its foreign images are read anew every epoch: features before epoch ``after``, pixels from then on."""
    run = {**RUN, "scheme": "l2rm", "noise": "half", "options": {"scheme": {"warm_up": 1, "cost_lr": 1e-3}}}
    inject(loaded(FT, run=run), "half")
    check_resumes(loaded(FT, run=run), "ft", 3)
    assert [record["epoch"] for record in read_json(paths.trained("ft") / pairs.REMATCHING, list)] == [2, 3, 4]


def test_embeddings_are_those_of_the_trained_network(painted_project, monkeypatch):
    """Without the weights that training began with, from the images alone."""
    params = _train({"lr": 1e-3}, epochs=2)
    monkeypatch.setattr(model, "image_inputs", lambda *a: pytest.fail("stored features were read"))
    embed(params, "ft", "cpu")
    found, files = _vectors(), model_files.read(paths.trained("ft"))
    module = BACKBONES.load("torchvision").build(params.features["small"].backbone.params, 99).module
    module.load_state_dict({k.removeprefix("img.backbone."): v for k, v in files.weights.items() if "backbone" in k})
    stored = features.read(paths.extracted("toy", "small"))
    pictures = Pictures.join("toy", stored, files.config["backbone"], torch.device("cpu"))
    (pixels,) = pictures.tested([stored.rows_of(found.ids)])
    with torch.inference_mode():
        given = normalize(module.eval()(pixels), dim=1)
        expected = normalize(given @ files.weights["img.fc.weight"].T + files.weights["img.fc.bias"], dim=1)
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
