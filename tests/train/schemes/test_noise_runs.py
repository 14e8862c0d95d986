"""Whole runs under ncr and l2rm, two networks from training to evaluation."""

import re
import shutil
from contextlib import chdir
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from tests.fragment_project import run_of, write_fragment_project
from tests.toy_project import PARAMS, load_params
from tests.train.some import CPU, history, killed_after, ready, state_file
from vse_pipe.artifacts import model_files, pairs
from vse_pipe.core.errors import InputError, IntegrityError, UsageError
from vse_pipe.core.files import read_json
from vse_pipe.embed.stage import embed
from vse_pipe.evaluate.ensemble import Ensemble, run_embeddings
from vse_pipe.evaluate.stage import evaluate
from vse_pipe.inject.stage import inject
from vse_pipe.project import paths
from vse_pipe.project.params.schema import EnsembleNode
from vse_pipe.ranking.vectors import Vectors
from vse_pipe.train import checkpoint
from vse_pipe.train.stage import train
from vse_pipe.train.trained import Trained

pytestmark = pytest.mark.acceptance


NCR = {"scheme": "ncr", "loss": "max", "noise": "half"}
RUNS = {"ncr": {**PARAMS["runs"]["sum"], **NCR, "options": {"scheme": {"warm_up": 2}}}, "sum": PARAMS["runs"]["sum"]}
L2RM = {**PARAMS["runs"]["sum"], "scheme": "l2rm", "loss": "max", "noise": "half"}


def _params(root, **changes):
    section = {**PARAMS["train"], "epochs": 6, "batch_size": 32, **changes}
    return load_params(root, runs=RUNS, train=section, text={"gru": {"word_dim": 6, "dropout": 0.1}})


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    with chdir(root := tmp_path_factory.mktemp("ncr")):
        params = ready(_params(root), "half", "clean", train=60)
        train(params, "ncr", "cpu")
        embed(params, "ncr", "cpu")
    return root


def _scores(one) -> torch.Tensor:
    """Of all images and captions of the split test."""
    split = one.split("test", CPU)
    return one.similarity(CPU)(split.images, split.captions)


def test_both_networks_are_those_of_the_best_epoch(project):
    assert history("ncr").lr.round(6).tolist() == [0.01] * 4 + [0.001] * 2, "it decays from the end of the warm-up on"
    # Trained again to the best epoch, the two networks are those that the finished run holds; val is evaluated with their
    # embeddings, whose recalls the learning curve has.
    rows = history("ncr")
    kept = [load_file(paths.trained("ncr") / name / model_files.MODEL) for name in ("", "peer")]
    params = load_params(project, runs=RUNS, evaluate={"split": "val", "ties": "pessimistic"})
    found = evaluate(params, "ncr", ["nns"], "cpu")["nns"]
    assert abs(found["rsum"] - rows.val_rsum.max()) < 1e-3
    assert found["similarity"] == "cosine + cosine"
    shutil.rmtree(paths.trained("ncr"))
    killed_after(int(rows.val_rsum.idxmax()) + 1, _params(project), "ncr")
    state = checkpoint.read(state_file("ncr"))
    for weights, network in zip(kept, (state["trained"], state["progress"]["scheme"]), strict=True):
        assert all(torch.equal(tensor, network["model"][name]) for name, tensor in weights.items())
    assert not torch.equal(kept[0]["img.fc.weight"], kept[1]["img.fc.weight"])


def test_what_is_evaluated_is_the_mean_of_both_networks_scores_one_run_of_an_ensemble(project):
    parts = [Vectors.of_folder(paths.embedded("ncr") / place).split("test", CPU) for place in ("", "peer")]
    scores = [part.images @ part.captions.T for part in parts]
    assert not torch.equal(*scores)
    torch.testing.assert_close(_scores(run_embeddings(_params(project), "ncr")), (scores[0] + scores[1]) / 2)
    params = _params(project)
    train(params, "sum", "cpu")
    embed(params, "sum", "cpu")
    whole = Ensemble(tuple(run_embeddings(params, name) for name in ("ncr", "sum")))
    first, second = map(_scores, whole.parts)
    torch.testing.assert_close(_scores(whole), (first + second) / 2)
    params = replace(params, ensembles={"two": EnsembleNode(runs=["ncr", "sum"])})
    metrics = evaluate(params, "two", ["nns", "csls"], "cpu")
    assert metrics["nns"]["similarity"] == "cosine + cosine + cosine"


def test_a_second_network_that_is_missing_or_another_is_refused(project):
    params, folder = _params(project), paths.trained("ncr")
    peer = paths.embedded("ncr") / "peer"
    moved = peer.rename(peer.with_name("elsewhere"))
    wanted = r"peer/images\.parquet does not exist; make it with `vse-pipe embed --run ncr`"
    with pytest.raises(InputError, match=wanted):
        evaluate(params, "ncr", ["nns"], "cpu")
    shutil.copytree(paths.embedded("ncr"), peer, ignore=shutil.ignore_patterns("elsewhere"))
    with pytest.raises(InputError, match=r"another network than .* embed the run again"):
        evaluate(params, "ncr", ["nns"], "cpu")
    shutil.rmtree(moved)
    for name in (model_files.MODEL, model_files.VOCABULARY, model_files.CONFIG):
        shutil.copy(folder / name, folder / "peer" / name)
    with pytest.raises(IntegrityError, match=r"another network than config\.json names"):
        embed(params, "ncr", "cpu")
    shutil.rmtree(folder / "peer")
    with pytest.raises(InputError, match="vse-pipe train --run ncr"):
        embed(params, "ncr", "cpu")


@pytest.mark.parametrize("similarity", ["scan_t2i", "saf"])
def test_models_that_compare_fragments(tmp_path, monkeypatch, similarity):
    monkeypatch.chdir(tmp_path)
    run = run_of(similarity, **NCR, options={"scheme": {"warm_up": 1}})
    params = write_fragment_project(tmp_path, ncr=run)
    inject(params, "half")
    train(params, "ncr", "cpu")
    embed(params, "ncr", "cpu")
    assert np.isfinite(evaluate(params, "ncr", ["nns"], "cpu")["nns"]["rsum"])
    whole, scores = run_embeddings(params, "ncr"), []
    for network, part in zip(Trained.open(paths.trained("ncr")).networks, whole.parts, strict=True):
        own = part.split("test", CPU)
        with torch.inference_mode():
            scores.append(network.model.score(own.images, own.captions))
    torch.testing.assert_close(_scores(whole), (scores[0] + scores[1]) / 2)


# L2RM.


@pytest.fixture
def l2rm_project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ready(load_params(tmp_path), "half", "clean", train=160)
    return tmp_path


def _l2rm_params(root, epochs=6, warm_up=3, noise="half", batch_size=32, **options):
    run = {**L2RM, "noise": noise, "options": {"scheme": {"warm_up": warm_up, "cost_lr": 1e-3, **options}}}
    section = {**PARAMS["train"], "epochs": epochs, "batch_size": batch_size}
    return load_params(root, runs={"sum": run}, train=section)


def test_mismatched_pairs_are_found_and_recorded(l2rm_project, capsys):
    train(_l2rm_params(l2rm_project), "sum", "cpu")
    area, *_ = re.findall(r"l2rm, .* AUC of the mismatched (\S+)", capsys.readouterr().err)
    assert float(area) > 0.7
    records = read_json(paths.trained("sum") / pairs.REMATCHING, list)
    assert [(record["epoch"], record["by"]) for record in records] == [(4, "truth"), (5, "truth"), (6, "truth")]
    # lr_update is 2, counted from the end of the warm-up.
    assert history().lr.round(6).tolist() == [0.01] * 5 + [0.001]


def test_one_batch_is_enough_without_mix_ups_there_is_no_truth_and_chunks_are_refused(l2rm_project):
    train(_l2rm_params(l2rm_project, epochs=2, warm_up=1, noise="clean", mask=False), "sum", "cpu")
    (record,) = read_json(paths.trained("sum") / pairs.REMATCHING, list)
    assert record["by"] == "split"
    train(_l2rm_params(l2rm_project, epochs=3, warm_up=1, batch_size=4000), "sum", "cpu")
    assert len(read_json(paths.trained("sum") / pairs.REMATCHING, list)) == 2
    run = {**L2RM, "image": "two_branch", "options": {"scheme": {"warm_up": 1}}}
    params = load_params(l2rm_project, runs={"sum": run}, train={**PARAMS["train"], "batch_size": 32, "chunk": 32})
    with pytest.raises(UsageError, match=r"train\.chunk: .* normalises over the whole batch"):
        train(params, "sum", "cpu")
