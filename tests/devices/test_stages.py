"""Runs of every scheme end on a device as on the CPU, and the stages after the training give the figures of the CPU."""

import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load

from tests import regions_project
from tests.toy_project import load_params
from tests.train.schemes.runs import RUNS, SUM, params_of
from tests.train.some import files_of, ready
from vse_pipe.artifacts import model_files
from vse_pipe.audit.stage import audit
from vse_pipe.embed.stage import embed
from vse_pipe.evaluate.stage import evaluate
from vse_pipe.export.encode import encode_captions
from vse_pipe.export.export import export_run
from vse_pipe.inject.stage import teach
from vse_pipe.localize.stage import localize
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.search.engine import Engine
from vse_pipe.train.stage import train


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


@pytest.mark.parametrize("scheme", RUNS)
def test_schemes(device, tmp_path, monkeypatch, scheme):
    monkeypatch.chdir(tmp_path)
    params = params_of(tmp_path, scheme)
    _require_alike(_weights(params, "r", device.type), _weights(params, "r", "cpu"))


def test_a_student_learns_from_its_teacher(device, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    student = {**SUM, "loss": "infonce", "scheme": "distil", "noise": "both", "train": {"epochs": 2, "batch_size": 16}}
    teachers = {"both": {"dataset": "toy", "noise": "clean", "run": "sum"}}
    params = ready(load_params(tmp_path, runs={"sum": SUM, "r": student}, teachers=teachers), train=12)
    train(params, "sum", "cpu")
    embed(params, "sum", "cpu")
    teach(params, "both")
    _require_alike(_weights(params, "r", device.type), _weights(params, "r", "cpu"))


def test_a_run_goes_through_every_stage(device, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _go_through_every_stage(device, params_of(tmp_path, "plain"))


def _go_through_every_stage(device: torch.device, params: Params) -> None:
    results, written = [], []
    Path("words.txt").write_text("red dog\na cat\n")
    for name in (device.type, "cpu"):
        train(params, "r", name)
        embed(params, "r", name)
        metrics = evaluate(params, "r", ["nns", "csls", "is+rgm"], name)
        figures = {criterion: values["rsum"] for criterion, values in metrics.items()}
        found = audit(params, "r", device=name)
        hits = Engine.open(params, "r", device=name).by_text("red dog", k=3)
        results.append((figures, found["expected"], found["pairs"], [hit.image_id for hit in hits.hits]))
        export_run(params, "r", "csls", "npy", "text_to_image", Path("exported"), name)
        encode_captions(params, "r", Path("words.txt"), Path("captions.parquet"), name)
        vectors = {path.name: np.load(path) for path in Path("exported").glob("*.npy")}
        encoded = pq.read_table("captions.parquet")["embedding"].combine_chunks().flatten().to_numpy()
        written.append(vectors | {"encoded": encoded})
        Path("captions.parquet").unlink()
        folders = paths.trained("r"), paths.embedded("r"), paths.DATA / "evaluate", paths.DATA / "audit"
        for folder in (Path("exported"), *folders):
            shutil.rmtree(folder)
    assert results[0] == results[1]
    assert written[0].keys() == written[1].keys() > {"encoded"}
    for name, vectors in written[0].items():
        np.testing.assert_allclose(vectors, written[1][name], rtol=1e-3, atol=1e-4, err_msg=name)


def test_regions_are_mined_and_localised(device, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    members = {"loss": "structure", "image": "two_branch", "scheme": "hard_negatives"}
    options = {"scheme": {"after": 1, "most": 4, "each": 2}, "sampler": {"extra_positives": 1, "extra_images": 1}}
    options |= {side: {"dropout": 0.0} for side in ("image", "text")}  # a GPU draws other numbers
    run = regions_project.run_of(**members, options=options, train={"epochs": 2, "batch_size": 10})
    params, results = regions_project.write_regions_project(tmp_path, r=run), []
    for name in (device.type, "cpu"):
        train(params, "r", name)
        embed(params, "r", name)
        results.append((localize(params, "r", name), load(files_of("r")[model_files.MODEL])))
        for folder in (paths.trained("r"), paths.embedded("r"), paths.localized("r")):
            shutil.rmtree(folder)
    if device.type == "cuda":  # its rounding decides about gradients near 0, which Adam takes for full steps
        assert results[0][0]["all"]["r@1"] == pytest.approx(results[1][0]["all"]["r@1"], abs=5)
    else:
        assert results[0][0] == results[1][0]
        _require_alike(results[0][1], results[1][1])
