"""Runs of every scheme end on a device as on the CPU, and the stages after the training give the figures of the CPU."""

import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load

from tests import regions_project
from tests.toy_project import PARAMS, WORDS, load_params
from tests.train.some import files_of, ready
from vse_pipe.artifacts import model_files
from vse_pipe.audit.stage import audit
from vse_pipe.embed.stage import embed
from vse_pipe.evaluate.stage import evaluate
from vse_pipe.extract.text_stage import extract_texts
from vse_pipe.localize.stage import localize
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import SCHEMES
from vse_pipe.tools.search.engine import Engine
from vse_pipe.train.stage import train

SUM = PARAMS["runs"]["sum"]
VECTORS = {"text": "two_branch", "texts": "means"}
SHORT = {"epochs": 2, "batch_size": 16}
# What each scheme needs beside the run of tests/toy_project.py.
WITH = {
    "cca": {**VECTORS, "options": {"text": {"nonlinear": False}}, "train": {"epochs": 1, "embed_size": 5}},
    "crcl": {"loss": "crcl"},
    "decl": {"loss": "decl", "options": {"scheme": {"warm_up": 1}}},
    "l2rm": {"options": {"scheme": {"warm_up": 1}}},
    "memory_bank": {"loss": "hal"},
    "ncr": {"loss": "max", "options": {"scheme": {"warm_up": 1}}},
    "plain": {"loss": "max"},
}
# Mining is below; distil, which needs trained runs, and zero_shot, which needs a pretrained pair, run on no device yet.
ELSEWHERE = {"distil", "hard_negatives", "zero_shot"}


def test_every_scheme_is_run():
    assert WITH.keys() | ELSEWHERE == set(SCHEMES.names())


def _params(root, scheme: str) -> Params:
    vectors = np.random.default_rng(1).standard_normal((len(WORDS), 8)).astype(np.float32)
    np.savez("words.npz", words=np.array(WORDS), vectors=vectors)
    means = {"dataset": "toy", "method": "mean_vectors", "vectors": "words.npz"}
    run = {**SUM, "train": SHORT, "scheme": scheme, **WITH[scheme]}
    params = ready(load_params(root, runs={"r": run}, texts={**PARAMS["texts"], "means": means}), train=12)
    if run["texts"] == "means":
        extract_texts(params, "means")
    return params


def _weights(params: Params, run: str, device: str) -> dict[str, torch.Tensor]:
    train(params, run, device)
    content = files_of(run)[model_files.MODEL]
    shutil.rmtree(paths.trained(run))
    return load(content)


def _require_alike(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, tensor in found.items():
        torch.testing.assert_close(
            tensor, expected[name], rtol=1e-3, atol=1e-4, msg=lambda text, name=name: f"{name}: {text}"
        )


@pytest.mark.parametrize("scheme", WITH)
def test_schemes(device, tmp_path, monkeypatch, scheme):
    monkeypatch.chdir(tmp_path)
    params = _params(tmp_path, scheme)
    _require_alike(_weights(params, "r", device.type), _weights(params, "r", "cpu"))


def test_a_run_goes_through_every_stage(device, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    params, results = _params(tmp_path, "plain"), []
    for name in (device.type, "cpu"):
        train(params, "r", name)
        embed(params, "r", name)
        metrics = evaluate(params, "r", ["nns", "csls", "is+rgm"], name)
        figures = {criterion: values["rsum"] for criterion, values in metrics.items()}
        found = audit(params, "r", device=name)
        hits = Engine.open(params, "r", device=name).by_text("red dog", k=3)
        results.append((figures, found["flagged"], found["pairs"], [hit.image_id for hit in hits.hits]))
        for folder in (paths.trained("r"), paths.embedded("r"), paths.DATA / "evaluate", paths.DATA / "audit"):
            shutil.rmtree(folder)
    assert results[0] == results[1]


def test_regions_are_mined_and_localised(device, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    members = {"loss": "structure", "image": "two_branch", "scheme": "hard_negatives"}
    options = {"scheme": {"after": 1, "most": 4, "each": 2}, "sampler": {"extra_positives": 1, "extra_images": 1}}
    run = regions_project.run_of(**members, options=options, train={"epochs": 2, "batch_size": 10})
    params, results = regions_project.write_regions_project(tmp_path, r=run), []
    for name in (device.type, "cpu"):
        train(params, "r", name)
        embed(params, "r", name)
        results.append((localize(params, "r", name), load(files_of("r")[model_files.MODEL])))
        for folder in (paths.trained("r"), paths.embedded("r"), paths.localized("r")):
            shutil.rmtree(folder)
    _require_alike(results[0][1], results[1][1])
    assert results[0][0] == results[1][0]
