"""Trainings of a network inside of the model, and `embed` of their models."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn.functional import normalize

from tests.train.painted import RUN, loaded, original
from tests.train.some import Killed, adam, check_resumes, files_of, history, last_state
from vse_pipe.artifacts import embeddings, features, model_files, pairs
from vse_pipe.core.errors import IntegrityError, MissingResource, UsageError
from vse_pipe.embed.stage import embed
from vse_pipe.evaluate.stage import evaluate
from vse_pipe.extract.stage import extract
from vse_pipe.inject.stage import inject
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Member
from vse_pipe.project.registry import BACKBONES
from vse_pipe.train import checkpoint, inputs, loop, model, optimise
from vse_pipe.train.encoders import finetune as backbone
from vse_pipe.train.pictures import Pictures
from vse_pipe.train.stage import train

pytestmark = pytest.mark.acceptance

FT = {"after": 2, "lr": 1e-3}
NORMS = ("running_mean", "running_var", "num_batches_tracked")


@pytest.fixture
def epochs(monkeypatch):
    """The model after every epoch, and what its checkpoint holds."""
    models, real = [], checkpoint.save

    def save(out, model, *rest):
        models.append({name: value.clone() for name, value in model.state_dict().items()})
        real(out, model, *rest)

    monkeypatch.setattr(loop.checkpoint, "save", save)
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


def test_a_fixed_network_stays_has_no_moments_and_is_embedded_from_its_stored_features(painted_project, epochs):
    """RC: what it sees of an image varies, the network does not."""
    _train({"trainable": False}, epochs=2)
    assert all(_same({**_network(weights), **_network(weights, True)}, original()) for weights in epochs)
    crops = history("ft").loss.tolist()
    state = last_state(loaded({"trainable": False}, epochs=2), "ft")
    assert 2 < len({name.split("/")[1] for name in state if name.startswith("optimizer/")}) < 20
    params = _train({"trainable": False, "after": 9}, epochs=2)
    assert history("ft").loss.tolist() != crops, "stored features are no random crops"
    shutil.rmtree("raw")
    embed(params, "ft", "cpu")


def test_updated_statistics_move_and_a_model_with_a_branch_is_restored(painted_project, epochs):
    _train({"batch_norm": "updated", "after": 1}, epochs=2)
    still = _network(original(), statistics=True)
    assert _same(_network(epochs[0], True), still)
    assert not any(torch.equal(_network(epochs[1], True)[name], value) for name, value in still.items())
    embed(_train({"head": "two_branch", "branch": {"hidden": 8}}, epochs=1), "ft", "cpu")
    files = load_file(paths.trained("ft") / model_files.MODEL)
    assert {name.split(".")[2] for name in files if name.startswith("img.fc.")} == {"fc1", "fc2", "bn"}
    np.testing.assert_allclose(np.linalg.norm(_vectors().vectors, axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("options", [FT, {**FT, "after": 1, "batch_norm": "updated", "before": "crops"}])
def test_a_killed_run_goes_on_and_ends_bit_equal(painted_project, options):
    check_resumes(loaded(options), "ft", 1, 3)


def test_two_networks_of_a_run_each_train_a_backbone_of_their_own(painted_project):
    run = {**RUN, "scheme": "ncr", "loss": "max", "options": {"scheme": {"warm_up": 1}}}
    params = loaded({"after": 1}, run=run, epochs=3)
    check_resumes(params, "ft", 2)
    last = last_state(params, "ft")
    train(params, "ft", "cpu")
    kept = [load_file(paths.trained("ft") / place / model_files.MODEL) for place in ("", "peer")]
    moved = [
        _network({name.removeprefix(start): value for name, value in last.items() if name.startswith(start)})
        for start in ("model/", "scheme/model/")
    ]
    assert not _same(*moved)
    assert not any(_same(network, _network(original())) for network in moved)
    assert not torch.equal(kept[0]["img.fc.weight"], kept[1]["img.fc.weight"])
    embed(params, "ft", "cpu")
    assert evaluate(params, "ft", ["nns"], "cpu")["nns"]["similarity"] == "cosine + cosine"


def test_moments_come_back_laid_out_like_their_weights(tmp_path):
    """The fused optimizer walks memory, not indices: plain moments beside channels-last weights would be mixed up."""
    model, again = (torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last) for _ in range(2))
    optimizer, other = adam(model, 1e-2), adam(again, 1e-2)
    model(torch.randn(2, 3, 8, 8)).square().sum().backward()
    optimizer.step()
    checkpoint.save(tmp_path, model, optimizer, checkpoint.Progress(1), "a")
    checkpoint.resume(tmp_path, again, other, "a")
    moment, expected = other.state[again.weight]["exp_avg"], optimizer.state[model.weight]["exp_avg"]
    assert moment.stride() == again.weight.stride()
    assert torch.equal(moment, expected)


def test_features_without_images_and_other_images_are_refused(painted_project):
    params = loaded(FT)
    member = Member("precomp", BACKBONES.options("precomp")())
    params.features["small"] = replace(params.features["small"], backbone=member)
    with pytest.raises(UsageError, match=r"needs features made from images; features\.small is 'precomp'"):
        train(params, "ft", "cpu")
    params = _train({"lr": 1e-3}, epochs=1)
    picture = sorted((painted_project / "raw").iterdir())[-1]
    picture.write_bytes(picture.read_bytes() + b"\0")
    with pytest.raises(IntegrityError, match="changed after prepare read it"):
        embed(params, "ft", "cpu")
    assert not paths.embedded("ft").exists()


@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-4), ("bfloat16", 0.1)])
def test_chunks_give_the_gradient_of_the_whole_batch(painted_project, monkeypatch, precision, tolerance):
    steps = []

    def compared(scheme, optimizer, batch):
        model = scheme.setting.model
        for chunk in (len(batch.pairs), 3):
            model.zero_grad()
            value = optimise.backward(scheme, batch, chunk).item()
            steps.append((value, {n: p.grad.clone() for n, p in model.named_parameters()}))
        assert scheme.setting.train.precision == precision
        raise Killed

    monkeypatch.setattr(optimise, "step", compared)
    with pytest.raises(Killed):
        _train({}, precision=precision)
    (whole, expected), (parts, found) = steps
    assert parts == pytest.approx(whole, rel=tolerance)
    norm = torch.cat([grad.flatten() for grad in expected.values()]).norm()
    difference = torch.cat([(found[name] - expected[name]).flatten() for name in expected]).norm()
    assert difference < 10 * tolerance * norm
    assert all(expected[name].any() for name in expected if name.startswith("img.backbone"))


def test_moving_statistics_and_chunks_are_refused_before_anything_is_removed(painted_project):
    _train({"batch_norm": "updated"}, epochs=1, chunk=8)  # chunks that hold a whole batch are none
    whole = files_of("ft")
    for before in ("features", "crops"):
        wanted = r"^runs\.ft\.train\.chunk: 'img\.backbone.* normalises over the whole batch"
        with pytest.raises(UsageError, match=wanted):
            _train({"batch_norm": "updated", "after": 3, "before": before}, chunk=3)
        assert files_of("ft") == whole, before


def test_the_fingerprint_covers_images_weights_and_transform(painted_project):
    params, cpu = _train(FT), torch.device("cpu")
    stored = features.read(paths.extracted("toy", "small"))
    depends = backbone.load_network("small", params.features["small"], stored, params.seed, cpu).depends
    assert {"images_sha256", "weights", "transform", "code_sha256", "libraries"} <= depends.keys()
    about = None, depends, {**depends, "weights": {}}
    run = params.runs["ft"]
    assert len({checkpoint.fingerprint_of("ft", run, [], cpu, one) for one in about}) == 3
    read = inputs.input_files(run, "ft")
    expected = checkpoint.fingerprint_of("ft", run, read, cpu, depends)
    assert checkpoint.is_finished(paths.trained("ft"), expected)


def test_a_memory_bank_holds_what_the_network_sees_now(painted_project, monkeypatch):
    """Its vectors come from the images once the network has moved."""
    seen, real = [], Pictures.tested
    monkeypatch.setattr(Pictures, "tested", lambda self, work: seen.append(len(work)) or real(self, work))
    run = {**RUN, "loss": "hal", "scheme": "memory_bank", "options": {"scheme": {"share": 0.5}}}
    _train({"lr": 1e-3}, run=run, epochs=2)
    assert len(seen) == 3, "validation twice, the bank of the second epoch once"


def test_l2rm_rematches_images_that_the_network_is_trained_on(painted_project):
    """Its foreign images are read anew every epoch: features before epoch ``after``, pixels from then on."""
    run = {**RUN, "scheme": "l2rm", "noise": "half", "options": {"scheme": {"warm_up": 1, "cost_lr": 1e-3}}}
    inject(loaded(FT, run=run), "half")
    check_resumes(loaded(FT, run=run), "ft", 3)
    assert [record["epoch"] for record in pairs.read_rematching(paths.trained("ft"))] == [2, 3, 4]


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
