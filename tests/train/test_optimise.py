"""Averages against a loop over weights, runs that keep them, and gradients in chunks."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from tests.toy_project import PARAMS, load_params
from tests.train.some import (
    CPU,
    check_resumes,
    history,
    killed_after,
    last_state,
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
from vse_pipe.project.registry import LOSSES, TEXT_ENCODERS
from vse_pipe.train import loop, optimise
from vse_pipe.train.data import Batch
from vse_pipe.train.optimise import Averages, optimizer_for, step
from vse_pipe.train.scheme import Scheme
from vse_pipe.train.stage import train


@pytest.mark.parametrize(("loss", "name"), [("sigmoid", "plain"), ("max", "ncr"), ("decl", "decl")])
def test_averages_are_those_of_a_loop_over_weights(loss, name):
    options = {} if name == "plain" else {"warm_up": 3}
    scheme = some_scheme(some_pairs(), loss, name, train={"lr": 0.1, "epochs": 4}, **options)
    for model in scheme.models:
        model.register_buffer("mask", torch.tensor([-torch.inf, 0.0]))
    averages, own = Averages(scheme.models, 0.7), optimizer_for(scheme.setting.model, scheme.setting.train)
    wanted, steps = [None] * len(scheme.models), [0] * len(scheme.models)
    for number, pairs in enumerate(scheme.batches(0, np.split(np.arange(24), 3))):
        scheme.step = number
        step(scheme, own, scheme.setting.pairs.batch(pairs))
        averages.follow(scheme.model)
        place = scheme.models.index(scheme.model)
        now = {name: tensor.detach().clone() for name, tensor in scheme.model.state_dict().items()}
        d, before = min(0.7, (1 + steps[place]) / (10 + steps[place])), wanted[place] or now
        wanted[place] = {key: d * before[key] + (1 - d) * now[key] for key in now}
        steps[place] += 1
    for found, expected in zip(averages.models, wanted, strict=True):
        for key, tensor in found.state_dict().items():
            assert torch.allclose(tensor, expected[key], atol=1e-6), key
    assert any(key.startswith("loss.") for key in wanted[0]) is (loss == "sigmoid")


@pytest.fixture
def averaged() -> tuple[Averages, Callable[[float], None]]:
    """Averages with decay 0.9 of a model, and a function that fills a bias of it."""
    model = some_scheme(some_pairs()).setting.model

    @torch.no_grad()
    def fill(value: float) -> torch.nn.Module:
        model.img.fc.bias.fill_(value)
        return model

    return Averages([model], 0.9), fill


def test_fresh_weights_begin_a_new_average(averaged):
    averages, fill = averaged
    for value, wanted in ((1.0, 1.0), (2.0, 20 / 11), (5.0, 5.0)):
        model = fill(value)
        averages.start(int(value), anew=value == 5.0)
        averages.follow(model)
        assert averages.models[0].img.fc.bias[0].item() == pytest.approx(wanted)


def _params(**changes):
    return load_params(Path(), train={**PARAMS["train"], **changes})


def _config() -> dict:
    return json.loads((paths.trained("sum") / model_files.CONFIG).read_text())


def test_the_average_is_validated_and_kept_and_the_weights_train_as_without(trained_project):
    plain, state = history(), last_state(_params())
    kept = last_state(_params(average=0.8))
    train(_params(average=0.8), "sum", "cpu")
    rows = history()
    assert rows.val_rsum.tolist() != plain.val_rsum.tolist()
    torch.testing.assert_close(kept["trained"], state["trained"], rtol=0, atol=0)
    weights, best = load_file(paths.trained("sum") / model_files.MODEL), _config()["best"]
    assert best == {"val_rsum": rows.val_rsum.max(), "epoch": rows.val_rsum.idxmax() + 1}
    if best["epoch"] == rows.epoch.max():
        average = kept["progress"]["average"]
        assert all(torch.equal(average[f"0.module.{name}"], tensor) for name, tensor in weights.items())
    embed(_params(), "sum", "cpu")
    val = load_params(trained_project, evaluate={"split": "val", "ties": "pessimistic"})
    assert evaluate(val, "sum", ["nns"], "cpu")["nns"]["rsum"] == pytest.approx(best["val_rsum"], abs=1e-3)


@pytest.mark.acceptance
def test_a_killed_run_goes_on_to_the_same_bytes(project):
    check_resumes(_params(average=0.8, schedule="cosine", warm_up=1.5), "sum", 2)


def test_a_run_killed_after_its_last_epoch_of_patience_trains_no_further(project, monkeypatch):
    params = _params(epochs=6, patience=2, batch_size=60)
    _told(monkeypatch, [5, 6, 6, 5])
    killed_after(4, params, "sum")
    train(params, "sum", "cpu")
    assert history().epoch.tolist() == [1, 2, 3, 4]


def _told(monkeypatch, rsums):
    """Validation that finds these, epoch by epoch, above chance."""
    found = [{**dict.fromkeys(model_files.HISTORY_COLUMNS[3:], 0.0), "val_rsum": rsum} for rsum in rsums]
    monkeypatch.setattr(loop.Validation, "__call__", Mock(side_effect=found))
    monkeypatch.setattr(loop.Validation, "chance", 0.0)


@pytest.mark.parametrize(
    ("rsums", "patience", "last", "by", "converged"),
    [
        ([5, 6, 6, 5, 9, 9], 2, 4, "patience", True),
        ([5, 6, 6, 7, 7, 9], 2, 6, "epochs", False),
        ([5, 6, 7, 7, 7, 7], None, 6, "epochs", True),
        ([5, 6, 7, 7, 7, 9], None, 6, "epochs", False),
    ],
)
def test_patience_ends_a_run_and_its_config_says_how(
    project, monkeypatch, capsys, rsums, patience, last, by, converged
):
    _told(monkeypatch, rsums)
    train(_params(epochs=6, patience=patience, batch_size=60), "sum", "cpu")
    assert history().val_rsum.tolist() == rsums[:last]
    assert _config()["ended"] == {"epoch": last, "by": by, "converged": converged}
    assert ("not converged" in capsys.readouterr().err) is not converged


def _work(loss: str, double: bool = True, **options) -> tuple[Scheme, Batch]:
    """Twenty of forty pairs; double: in float64."""
    pairs = some_pairs(40, each=4)
    model = some_model(pairs, text=member(TEXT_ENCODERS, "gru", word_dim=5, **options)).train()
    scheme, batch = (
        some_scheme(pairs, loss, model=model.double() if double else model),
        pairs.batch(np.arange(0, 40, 2)),
    )
    return scheme, replace(batch, features=batch.features.double()) if double else batch


def _gradients(loss: str, chunk: int, **options) -> tuple[float, dict[str, torch.Tensor]]:
    scheme, batch = _work(loss, **options)
    torch.manual_seed(0)
    return _backward(scheme, batch, chunk), {name: weight.grad for name, weight in scheme.model.named_parameters()}


def _backward(scheme: Scheme, batch: Batch, chunk: int) -> float:
    """The loss of a batch that is encoded in chunks, whose gradient the weights then have."""
    total = scheme.terms(*optimise.encoded_in_chunks(scheme.model, chunk, batch, CPU), batch).total()
    total.backward()
    return total.item()


@pytest.mark.parametrize("loss", LOSSES.names())
@pytest.mark.parametrize("chunk", [1, 3, 20])
def test_chunks_give_the_gradient_of_the_whole_batch(loss, chunk):
    scheme, batch = _work(loss)
    model = scheme.model
    total = scheme.terms(model.img(batch.features), model.txt(*batch.texts), batch).total()
    total.backward()
    value, found = _gradients(loss, chunk)
    # Vectors pass through float32 on their way to the loss, as in a run.
    assert value == pytest.approx(total.item(), rel=1e-5)
    for name, weight in model.named_parameters():
        torch.testing.assert_close(found[name], weight.grad, rtol=1e-4, atol=1e-5)
        assert weight.grad.any(), name


def test_chunks_leave_a_side_alone_that_has_nothing_to_train():
    scheme, batch = _work("max")
    scheme.model.img.requires_grad_(False)
    whole = scheme.terms(scheme.model.img(batch.features), scheme.model.txt(*batch.texts), batch).total()
    assert _backward(scheme, batch, 3) == pytest.approx(whole.item(), rel=1e-5)
    assert scheme.model.txt.embed.weight.grad.any()
    assert all(weight.grad is None for weight in scheme.model.img.parameters())


@pytest.mark.parametrize("options", [{"dropout": 0.5}, {"drop_words": 0.5, "pooling": "gpo"}], ids=" ".join)
def test_both_passes_drop_the_same_words(options):
    """Were the second pass to draw anew, the gradient would not be that of the value returned."""
    weight = "txt.rnn.weight_hh_l0"
    (value, found), (again, same) = (_gradients("sum", 5, **options) for _ in range(2))
    assert value == again
    torch.testing.assert_close(found[weight], same[weight], rtol=0, atol=0)
    scheme, batch = _work("sum", double=False, **options)
    torch.manual_seed(0)
    parts = [scheme.model.encode(part, CPU) for part in batch.split(5)]
    images, texts = (torch.cat(side) for side in zip(*parts, strict=True))
    scheme.terms(images, texts, batch).total().backward()
    direct = scheme.model.get_parameter(weight).grad
    torch.testing.assert_close(found[weight].float(), direct, rtol=1e-3, atol=1e-4)


def test_batch_normalisation_is_refused_but_for_a_similarity(project):
    image = {"image": "two_branch", "options": {"image": {"hidden": 7}}}
    params = load_params(Path(), runs={"sum": {**PARAMS["runs"]["sum"], **image, "train": {"chunk": 3}}})
    with pytest.raises(UsageError, match=r"train sum: train.chunk: 'img.* normalises over the whole batch"):
        train(params, "sum", "cpu")
    optimise.require_independent_rows(torch.nn.ModuleDict({"sim": torch.nn.BatchNorm1d(3)}).train())
