"""Averages against a loop over weights, runs that keep them, and gradients in chunks."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from tests.toy_project import PARAMS, load_params
from tests.train.some import (
    FragmentModel,
    adam,
    check_resumes,
    killed_after,
    member,
    some_model,
    some_pairs,
    some_scheme,
)
from vse_pipe.artifacts import model_files
from vse_pipe.core.errors import UsageError
from vse_pipe.embed.stage import embed
from vse_pipe.evaluate.stage import evaluate
from vse_pipe.project import paths
from vse_pipe.project.registry import IMAGE_ENCODERS, LOSSES, TEXT_ENCODERS
from vse_pipe.train import checkpoint, loop, optimise
from vse_pipe.train.optimise import Averages, optimizer_for, step
from vse_pipe.train.stage import train


def _state(model):
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


@pytest.mark.parametrize(("loss", "name"), [("sigmoid", "plain"), ("max", "ncr"), ("decl", "decl")])
def test_averages_are_those_of_a_loop_over_weights(loss, name):
    options = {} if name == "plain" else {"warm_up": 3}
    scheme = some_scheme(some_pairs(), loss, name, train={"lr": 0.1, "epochs": 4}, **options)
    for model in scheme.models:
        model.register_buffer("running", torch.zeros(2))
    averages, own = Averages(scheme.models, 0.7), optimizer_for(scheme.setting.model, scheme.setting.train)
    wanted, steps = [None] * len(scheme.models), [0] * len(scheme.models)
    work = scheme.batches(0, [np.arange(8), np.arange(8, 16), np.arange(16, 24)])
    for pairs in work:
        step(scheme, own, scheme.setting.pairs.batch(pairs))
        scheme.model.running += 1
        averages.follow(scheme.model)
        place = scheme.models.index(scheme.model)
        now, before = _state(scheme.model), wanted[place]
        d = min(0.7, (1 + steps[place]) / (10 + steps[place]))
        wanted[place] = now if before is None else {key: d * before[key] + (1 - d) * now[key] for key in now}
        steps[place] += 1
    for found, expected in zip(averages.models, wanted, strict=True):
        for key, tensor in found.state_dict().items():
            assert torch.allclose(tensor, expected[key], atol=1e-6), key
    assert any(key.startswith("loss.") for key in wanted[0]) is (loss == "sigmoid")


def test_an_average_soon_forgets_where_it_began_and_then_keeps_its_decay():
    model = some_scheme(some_pairs()).setting.model
    averages, wanted = Averages([model], 0.9), 0.0
    for count in range(200):
        with torch.no_grad():
            model.img.fc.bias.fill_(float(count % 7))
        averages.follow(model)
        d = 0.0 if count == 0 else min(0.9, (1 + count) / (10 + count))
        wanted = d * wanted + (1 - d) * (count % 7)
    assert averages.models[0].img.fc.bias[0].item() == pytest.approx(wanted, abs=1e-5)


def test_fresh_weights_begin_a_new_average():
    model = some_scheme(some_pairs()).setting.model
    averages = Averages([model], 0.9)
    for value in (1.0, 2.0, 5.0):
        with torch.no_grad():
            model.img.fc.bias.fill_(value)
        averages.start(int(value), anew=value == 5.0)
        averages.follow(model)
        averages.end()
        assert averages.models[0].img.fc.bias[0].item() == pytest.approx({1.0: 1.0, 2.0: 20 / 11, 5.0: 5.0}[value])


def test_weights_set_without_a_step_are_their_own_average():
    model = some_scheme(some_pairs()).setting.model
    averages = Averages([model], 0.9)
    with torch.no_grad():
        model.img.fc.bias.fill_(3.0)
    averages.end()
    assert averages.models[0].img.fc.bias.eq(3.0).all()


def _params(root, **changes):
    return load_params(root, train={**PARAMS["train"], **changes})


def test_the_average_is_validated_and_kept_and_the_weights_train_as_without(project):
    train(_params(project), "sum", "cpu")
    plain, state = model_files.read_history(paths.trained("sum")), load_file(paths.trained("sum") / checkpoint.STATE)
    assert model_files.UNAVERAGED not in plain
    train(_params(project, average=0.8), "sum", "cpu")
    rows, kept = model_files.read_history(paths.trained("sum")), load_file(paths.trained("sum") / checkpoint.STATE)
    assert rows[model_files.UNAVERAGED].tolist() == plain.val_rsum.tolist()
    assert rows.val_rsum.tolist() != plain.val_rsum.tolist()
    trained = [name for name in state if name.startswith(("model/", "optim"))]
    assert trained
    assert all(torch.equal(kept[name], state[name]) for name in trained)
    weights = load_file(paths.trained("sum") / model_files.MODEL)
    best = json.loads((paths.trained("sum") / model_files.CONFIG).read_text())["best"]
    assert best["val_rsum"] == rows.val_rsum.max()
    assert best["epoch"] == rows.val_rsum.idxmax() + 1
    if best["epoch"] == rows.epoch.max():
        assert all(torch.equal(kept[f"average/0/module.{name}"], tensor) for name, tensor in weights.items())
    embed(_params(project), "sum", "cpu")
    val = load_params(project, evaluate={"split": "val", "ties": "pessimistic"})
    assert evaluate(val, "sum", ["nns"], "cpu")["nns"]["rsum"] == pytest.approx(best["val_rsum"], abs=1e-3)


@pytest.mark.acceptance
@pytest.mark.parametrize("changes", [{}, {"schedule": "cosine", "warm_up": 1.5}])
def test_a_killed_run_goes_on_to_the_same_bytes(project, changes):
    check_resumes(_params(project, average=0.8, **changes), "sum", 2)


def test_rates_of_the_last_steps_are_in_the_history(project):
    train(_params(project, schedule="cosine", warm_up=1.5, batch_size=100), "sum", "cpu")
    assert model_files.read_history(paths.trained("sum")).lr.tolist() == pytest.approx(
        [1e-2 * 2 / 3, 1e-2, 1e-2 * (0.5 + 0.5 * np.cos(np.pi * 0.2)), 1e-2 * (0.5 + 0.5 * np.cos(np.pi * 0.6))]
    )


def _told(monkeypatch, rsums):
    """Validation that finds these, epoch by epoch."""
    left = iter(rsums)
    monkeypatch.setattr(
        loop,
        "_validated",
        lambda *_: {column: next(left) if column == "val_rsum" else 0.0 for column in model_files.HISTORY_COLUMNS[3:]},
    )


@pytest.mark.parametrize(
    ("rsums", "patience", "ended"),
    [
        ([5, 6, 6, 5, 9, 9], 2, {"epoch": 4, "by": "patience", "converged": True}),
        ([5, 6, 6, 7, 7, 9], 2, {"epoch": 6, "by": "epochs", "converged": False}),
        ([5, 6, 7, 7, 7, 7], None, {"epoch": 6, "by": "epochs", "converged": True}),
        ([5, 6, 7, 7, 7, 9], None, {"epoch": 6, "by": "epochs", "converged": False}),
    ],
)
def test_patience_ends_a_run_and_its_config_says_how(project, monkeypatch, capsys, rsums, patience, ended):
    params = _params(project, epochs=6, patience=patience)
    _told(monkeypatch, rsums)
    train(params, "sum", "cpu")
    rows = model_files.read_history(paths.trained("sum"))
    assert rows.val_rsum.tolist() == rsums[: ended["epoch"]]
    assert json.loads((paths.trained("sum") / model_files.CONFIG).read_text())["ended"] == ended
    said = capsys.readouterr().err
    assert ("not converged" in said) is not ended["converged"]
    assert ("rsum has not risen" in said) is (ended["by"] == "patience")


def test_a_run_killed_after_its_last_epoch_of_patience_trains_no_further(project, monkeypatch):
    params = _params(project, epochs=6, patience=2)
    _told(monkeypatch, [5, 6, 6, 5])
    killed_after(4, params, "sum")
    train(params, "sum", "cpu")
    assert model_files.read_history(paths.trained("sum")).epoch.tolist() == [1, 2, 3, 4]


def test_nobody_waits_in_a_warm_up(project, monkeypatch):
    _told(monkeypatch, [9, 8, 7, 6, 5, 4])
    train(_params(project, epochs=6, patience=1, warm_up=2.5), "sum", "cpu")
    assert model_files.read_history(paths.trained("sum")).epoch.tolist() == [1, 2, 3, 4]


CPU = torch.device("cpu")


def _gradients(loss: str, chunk: int, **options) -> tuple[float, dict[str, torch.Tensor]]:
    pairs = some_pairs(40, each=4)
    model = some_model(pairs, text=member(TEXT_ENCODERS, "gru", word_dim=5, **options)).double().train()
    scheme = some_scheme(pairs, loss, model=model)
    batch = pairs.batch(np.arange(0, 40, 2))
    torch.manual_seed(0)
    double = type(batch)(batch.features.double(), batch.texts, batch.owners, batch.pairs)
    value = optimise.backward(scheme, double, chunk)
    return value, {name: weight.grad for name, weight in model.named_parameters()}


@pytest.mark.parametrize("loss", LOSSES.names())
@pytest.mark.parametrize("chunk", [1, 3, 20])
def test_chunks_give_the_gradient_of_the_whole_batch(loss, chunk):
    pairs = some_pairs(40, each=4)
    model = some_model(pairs).double()
    scheme = some_scheme(pairs, loss, model=model)
    batch = pairs.batch(np.arange(0, 40, 2))
    images = model.img(batch.features.double())
    texts = model.txt(*batch.texts)
    total = scheme.terms(images, texts, batch).total()
    total.backward()
    value, found = _gradients(loss, chunk)
    # Vectors pass through float32 on their way to the loss, as in a run.
    assert value == pytest.approx(total.item(), rel=1e-5)
    for name, weight in model.named_parameters():
        torch.testing.assert_close(found[name], weight.grad, rtol=1e-4, atol=1e-5)
        assert weight.grad.any(), name


@pytest.mark.parametrize("options", [{"dropout": 0.5}, {"drop_words": 0.5, "pooling": "gpo"}], ids=" ".join)
def test_both_passes_drop_the_same_words(options):
    """Were the second pass to draw anew, the gradient would not be that of the value returned."""
    value, found = _gradients("sum", 5, **options)
    again, same = _gradients("sum", 5, **options)
    assert value == again
    weight = "txt.rnn.weight_hh_l0"
    torch.testing.assert_close(found[weight], same[weight], rtol=0, atol=0)
    pairs = some_pairs(40, each=4)
    model = some_model(pairs, text=member(TEXT_ENCODERS, "gru", word_dim=5, **options)).train()
    scheme = some_scheme(pairs, "sum", model=model)
    batch = pairs.batch(np.arange(0, 40, 2))
    torch.manual_seed(0)
    parts = [model.encode(part, CPU) for part in batch.split(5)]
    images, texts = (torch.cat(side) for side in zip(*parts, strict=True))
    scheme.terms(images, texts, batch).total().backward()
    direct = model.get_parameter(weight).grad
    torch.testing.assert_close(found[weight].float(), direct, rtol=1e-3, atol=1e-4)


def test_a_step_with_chunks_is_a_step_without():
    after = []
    for chunk in (0, 3):
        pairs = some_pairs()
        scheme = some_scheme(pairs, train={"chunk": chunk})
        optimizer = torch.optim.SGD(scheme.setting.model.parameters(), lr=0.1)
        step(scheme, optimizer, pairs.batch(np.arange(0, 24, 3)))
        after.append(scheme.setting.model.state_dict())
    for name, weight in after[0].items():
        torch.testing.assert_close(after[1][name], weight, rtol=1e-4, atol=1e-6)


def test_batch_normalisation_is_refused():
    pairs = some_pairs()
    model = some_model(pairs, image=member(IMAGE_ENCODERS, "two_branch", hidden=7))
    scheme = some_scheme(pairs, model=model, train={"chunk": 3})
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    with pytest.raises(UsageError, match=r"train.chunk: 'img.* normalises over the whole batch"):
        step(scheme, adam(model, 0.1), pairs.batch(np.arange(8)))
    assert all(torch.equal(before[name], weight) for name, weight in model.state_dict().items())


def test_word_vectors_are_chunked_and_a_similarity_of_its_own_learns():
    pairs = some_pairs()
    found = []
    for chunk in (24, 5):
        model = FragmentModel(pairs.array.shape[1], pairs.texts.inputs)
        scheme = some_scheme(pairs, model=model)
        value = optimise.backward(scheme, pairs.batch(np.arange(24)), chunk)
        found.append((value, {name: weight.grad for name, weight in model.named_parameters()}))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-5)
    for name, gradient in found[0][1].items():
        assert gradient.any() or name == "sim.bias", name
        torch.testing.assert_close(found[1][1][name], gradient, rtol=1e-3, atol=1e-4)


def test_a_similarity_may_normalise_over_the_batch():
    model = torch.nn.ModuleDict({"sim": torch.nn.BatchNorm1d(3)}).train()
    optimise.require_independent_rows(model)
    with pytest.raises(UsageError, match="'txt'"):
        optimise.require_independent_rows(torch.nn.ModuleDict({"txt": torch.nn.BatchNorm1d(3)}))
