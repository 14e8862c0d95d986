"""Trainings of a network inside of the model, and `embed` of their models."""

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.train.painted import RUN, loaded, original
from tests.train.some import Killed, adam, check_resumes, files_of
from vse_pipe.artifacts import embeddings, features, model_files, pairs
from vse_pipe.core.errors import IntegrityError, MissingResource, UsageError
from vse_pipe.embed.stage import embed
from vse_pipe.evaluate.stage import evaluate
from vse_pipe.extract.stage import extract
from vse_pipe.inject.stage import inject
from vse_pipe.project import paths
from vse_pipe.project.params.schema import TrainParams
from vse_pipe.project.registry import BACKBONES
from vse_pipe.train import checkpoint, inputs, loop, model, optimise, stage
from vse_pipe.train.encoders import finetune as backbone
from vse_pipe.train.encoders.finetune import Pictures
from vse_pipe.train.heads import OwnRate
from vse_pipe.train.scheme import Moment, set_rates
from vse_pipe.train.stage import train

pytestmark = pytest.mark.acceptance

FT = {"after": 2, "lr": 1e-3}
NORMS = ("running_mean", "running_var", "num_batches_tracked")


@pytest.fixture
def epochs(monkeypatch):
    """The model after every epoch, and what its checkpoint holds."""
    models, real = [], checkpoint.save

    def save(out, model, optimizer, progress, mark):
        models.append({name: value.clone() for name, value in model.state_dict().items()})
        real(out, model, optimizer, progress, mark)

    monkeypatch.setattr(loop.checkpoint, "save", save)
    return models


def _network(model: dict, statistics: bool = False) -> dict:
    return {
        name: value
        for name, value in model.items()
        if name.startswith("img.backbone.") and (name.rpartition(".")[2] in NORMS) is statistics
    }


def _same(one: dict, other: dict) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_the_network_stays_until_its_epoch_and_moves_from_then_on(painted_project, epochs):
    train(loaded(FT), "ft", "cpu")
    before = _network(original())
    assert len(before) > 100
    assert _same(_network(epochs[0]), before)
    assert _same(_network(epochs[1]), before)
    moved = [name for name in before if not torch.equal(epochs[2][name], before[name])]
    assert len(moved) == len(before)
    assert not _same(_network(epochs[3]), _network(epochs[2]))
    for weights in epochs:
        assert _same(_network(weights, statistics=True), _network(original(), statistics=True))
    rows = model_files.read_history(paths.trained("ft"))
    assert np.isfinite(rows.loss).all()
    assert rows.epoch.tolist() == [1, 2, 3, 4]


def test_a_fixed_network_stays_and_has_no_moments(painted_project, epochs):
    """RC: what it sees of an image varies, the network does not."""
    params = loaded({"trainable": False}, epochs=2)
    train(params, "ft", "cpu")
    for weights in epochs:
        assert _same({**_network(weights), **_network(weights, True)}, original())
    tensors = load_file(paths.trained("ft") / checkpoint.STATE)
    owners = {name.split("/")[1] for name in tensors if name.startswith("optimizer/")}
    assert {name for name in owners if name.startswith("img.")} == {"img.fc.weight", "img.fc.bias"}
    crops = model_files.read_history(paths.trained("ft")).loss.tolist()
    train(loaded({"trainable": False, "after": 9}, epochs=2), "ft", "cpu")
    assert model_files.read_history(paths.trained("ft")).loss.tolist() != crops, "stored features are no random crops"


def test_updated_statistics_move(painted_project, epochs):
    train(loaded({"batch_norm": "updated", "after": 1}, epochs=2), "ft", "cpu")
    still = _network(original(), statistics=True)
    assert _same(_network(epochs[0], True), still)
    assert not any(torch.equal(_network(epochs[1], True)[name], value) for name, value in still.items())


@pytest.mark.parametrize("options", [FT, {**FT, "after": 1, "batch_norm": "updated", "before": "crops"}])
def test_a_killed_run_goes_on_and_ends_bit_equal(painted_project, options):
    check_resumes(loaded(options), "ft", 1, 3)


def test_two_networks_of_a_run_each_train_a_backbone_of_their_own(painted_project):
    options = {"scheme": {"warm_up": 1}}
    run = {**RUN, "scheme": "ncr", "loss": "max", "options": options}
    params = loaded({"after": 1}, run=run, epochs=3)
    check_resumes(params, "ft", 2)
    kept = [load_file(paths.trained("ft") / place / model_files.MODEL) for place in ("", "peer")]
    last = load_file(paths.trained("ft") / checkpoint.STATE)
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
    model = torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    optimizer = adam(model, 1e-2)
    model(torch.randn(2, 3, 8, 8)).square().sum().backward()
    optimizer.step()
    checkpoint.save(tmp_path, model, optimizer, checkpoint.Progress(1), "a")
    again = torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    other = adam(again, 1e-2)
    checkpoint.resume(tmp_path, again, other, "a")
    moment, expected = other.state[again.weight]["exp_avg"], optimizer.state[model.weight]["exp_avg"]
    assert moment.stride() == again.weight.stride()
    assert torch.equal(moment, expected)


def test_rates_fall_alike_and_the_network_s_from_its_own_epoch():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
    model[1].own_rate = OwnRate(1e-3, after=3)
    optimizer = adam(model, 1e-1)
    params = TrainParams(lr=1e-1, lr_update=2)
    found = []
    for epoch in range(8):
        returned = set_rates(optimizer, params, Moment(epoch))
        rates = [group["lr"] for group in optimizer.param_groups]
        assert returned == rates[0]
        found.append(rates)
    rest, own = zip(*found, strict=True)
    assert rest == pytest.approx([1e-1] * 2 + [1e-2] * 2 + [1e-3] * 2 + [1e-4] * 2)
    assert own == pytest.approx([1e-3] * 5 + [1e-4] * 2 + [1e-5])


def test_features_without_images_are_refused(painted_project):
    params = loaded(FT)
    held = params.features["small"]
    member = type(held.backbone)("precomp", BACKBONES.options("precomp")())
    params.features["small"] = type(held)(held.dataset, member)
    with pytest.raises(UsageError, match=r"needs features made from images; features\.small is 'precomp'"):
        train(params, "ft", "cpu")


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_chunks_give_the_gradient_of_the_whole_batch(painted_project, monkeypatch, precision):
    steps = []

    def compared(scheme, optimizer, batch):
        model, train_params = scheme.setting.model, scheme.setting.train
        for chunk in (len(batch.pairs), 3):
            model.zero_grad()
            value = optimise.backward(scheme, batch, chunk)
            steps.append((value, {n: p.grad.clone() for n, p in model.named_parameters()}))
        assert train_params.precision == precision
        raise Killed

    monkeypatch.setattr(loop, "step", compared)
    with pytest.raises(Killed):
        train(loaded({}, precision=precision), "ft", "cpu")
    (whole, expected), (parts, found) = steps
    tolerance = 1e-4 if precision == "float32" else 0.1
    assert parts == pytest.approx(whole, rel=tolerance)
    norm = torch.cat([grad.flatten() for grad in expected.values()]).norm()
    difference = torch.cat([(found[name] - expected[name]).flatten() for name in expected]).norm()
    assert difference < 10 * tolerance * norm
    assert all(expected[name].any() for name in expected if name.startswith("img.backbone"))


@pytest.mark.parametrize("before", ["features", "crops"])
def test_moving_statistics_and_chunks_are_refused_before_anything_is_removed(painted_project, before):
    train(loaded({}, epochs=1), "ft", "cpu")
    whole = files_of("ft")
    params = loaded({"batch_norm": "updated", "after": 3, "before": before}, chunk=3)
    with pytest.raises(UsageError, match=r"^runs\.ft\.train\.chunk: 'img\.backbone.* normalises over the whole batch"):
        train(params, "ft", "cpu")
    assert files_of("ft") == whole


def test_chunks_that_hold_a_whole_batch_are_none(painted_project):
    train(loaded({"batch_norm": "updated"}, epochs=1, chunk=8), "ft", "cpu")


@pytest.mark.parametrize("after", [0, 1, 5])
def test_the_check_of_chunks_changes_no_result(painted_project, after):
    train(loaded({"after": after}, epochs=2, chunk=3), "ft", "cpu")
    whole = files_of("ft")
    shutil.rmtree(paths.trained("ft"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage, "_check_chunks", lambda *a: None)
        train(loaded({"after": after}, epochs=2, chunk=3), "ft", "cpu")
    assert files_of("ft") == whole


def test_the_fingerprint_covers_images_weights_and_transform(painted_project):
    params, cpu = loaded(FT), torch.device("cpu")
    stored = features.read(paths.extracted("toy", "small"))
    depends = backbone.load_network("small", params.features["small"], stored, params.seed, cpu).depends
    assert {"images_sha256", "weights", "transform", "code_sha256", "libraries"} <= depends.keys()
    marks = {
        checkpoint.run_fingerprint(params.runs["ft"], 3, [], cpu, about)
        for about in (None, depends, {**depends, "weights": {}})
    }
    assert len(marks) == 3
    train(params, "ft", "cpu")
    read = inputs.input_files(params.runs["ft"])
    expected = checkpoint.run_fingerprint(params.runs["ft"], params.seed, read, cpu, depends)
    assert checkpoint.fingerprint(paths.trained("ft")) == expected


def test_a_memory_bank_holds_what_the_network_sees_now(painted_project):
    """Its vectors come from the images once the network has moved."""
    run = {**RUN, "loss": "hal", "scheme": "memory_bank", "options": {"scheme": {"share": 0.5}}}
    params = loaded({"lr": 1e-3}, run=run, epochs=2)
    seen = []
    real = Pictures.tested

    def tested(self, work):
        seen.append(len(work))
        return real(self, work)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Pictures, "tested", tested)
        train(params, "ft", "cpu")
    assert len(seen) == 3, "validation twice, the bank of the second epoch once"


def test_l2rm_rematches_images_that_the_network_is_trained_on(painted_project):
    """Its foreign images are read anew every epoch: features before epoch ``after``, pixels from then on."""
    run = {**RUN, "scheme": "l2rm", "noise": "half", "options": {"scheme": {"warm_up": 1, "cost_lr": 1e-3}}}
    params = loaded(FT, run=run)
    inject(params, "half")
    check_resumes(params, "ft", 3)
    records = pairs.read_rematching(paths.trained("ft"))
    assert [record["epoch"] for record in records] == [2, 3, 4]


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
