"""Cases 11, 12, 23, 25, 29 and 31 to 34 of the acceptance suite (24: tests/test_cli.py): parameters, and what may be said of results."""

import json
import urllib.error
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from tests.command_line import failure, output
from tests.commands.script import arguments
from tests.commands.script import run as run_as_a_script
from tests.evaluate.files import sample, write
from tests.faults import kill
from vse_pipe.core.files import read_json

pytestmark = pytest.mark.acceptance


def test_case_11_a_loss_that_is_no_number_stops_with_its_batch_and_keeps_the_model(made, call):
    model = Path("data/train/sum/model.safetensors")
    before = model.read_bytes()
    err = failure(call, 1, "-S", "train.lr=1e38", "-S", "train.epochs=5", "train")
    assert "train sum, epoch 1" in err
    assert "pairs" in err
    assert model.read_bytes() == before


def test_case_12_a_collapsed_model_is_named_and_finds_one_in_all(call, tmp_path):
    one = sample(images=40)
    files = write(one.but(images=np.ones_like(one.images), captions=np.ones_like(one.captions)), tmp_path)
    status, out, err = call("rank", *arguments(files), "--json")
    assert status == 0
    assert "the model has collapsed" in err
    for document in json.loads(out).values():
        assert all(document[side]["r@1"] <= 100 / 40 for side in ("image_to_text", "text_to_image"))


SETTINGS = [
    ("train.epochs=ten", "train.epochs: input should be a valid integer, got 'ten'"),
    ("train.epochs=0", "train.epochs: input should be greater than 0"),
    ("train.lr=-1.0", "train.lr: input should be greater than 0"),
    ("loss.sum.margin=null", "loss.sum.margin: input should be a valid number, got None"),
    ("train.epoch=3", "train.epoch: unknown key; did you mean 'epochs'?"),
    ("runs.sum.loss=summ", "unknown loss 'summ'; did you mean 'sum'?"),
]


@pytest.mark.parametrize(("setting", "message"), SETTINGS, ids=[setting for setting, _ in SETTINGS])
def test_case_23_a_wrong_parameter_is_named_before_any_work(raw, call, setting, message):
    assert message in failure(call, 2, "-S", setting, "prepare")
    assert not Path("data").exists()


def test_case_25_weights_that_cannot_be_fetched_are_named_with_their_place(raw, call, monkeypatch):
    unreachable = urllib.error.URLError("Name or service not known")
    monkeypatch.setattr("torch.hub.urlopen", Mock(side_effect=unreachable))
    monkeypatch.setenv("VSE_PIPE_WEIGHTS", "weights")
    output(call, "prepare")
    network = "features.plain={dataset: toy, backbone: resnet152}"
    err = failure(call, 4, "-S", network, "extract", "--features", "plain")
    for part in ("https://download.pytorch.org/models/resnet152-f82ba261.pth", "f82ba261", "weights/"):
        assert part in err
    assert [path for path in Path().rglob("*") if "resnet152" in path.name] == []


def test_case_29_neither_blocks_nor_threads_change_a_figure(call, tmp_path):
    files, found = write(sample(images=700), tmp_path), []
    threads = torch.get_num_threads()
    for memory, count in ((11, 1), (64, 2), (4096, 2)):
        torch.set_num_threads(count)
        status, out, err = call("-S", f"evaluate.memory={memory}", "rank", *arguments(files), "--json")
        assert status == 0, err
        found.append(out)
    torch.set_num_threads(threads)
    assert found[0] == found[1] == found[2]


def test_case_31_metrics_are_finite_sorted_and_the_same_again(staged, call):
    before = kill.files(staged)
    documents = [Path(name) for name in before if name.endswith("metrics.json")]
    assert len(documents) == 2
    for path in documents:
        text = path.read_text(encoding="utf-8")
        found = json.loads(text, parse_constant=pytest.fail)  # called for what is not finite
        assert json.dumps(found, indent=2, sort_keys=True, ensure_ascii=False) + "\n" == text
    for stage in ("embed", "evaluate", "report"):
        output(call, stage)
    assert kill.files(staged) == before


def test_case_32_neither_clock_nor_language_changes_a_byte(staged):
    before = kill.files(staged)
    elsewhere = {"LC_ALL": "C", "LANG": "tr_TR.UTF-8", "TZ": "Asia/Kathmandu", "PYTHONUTF8": "0"}
    for stage in ("prepare", "report"):
        status, _, err = run_as_a_script(stage, cwd=staged, **elsewhere)
        assert status == 0, err
    assert kill.files(staged) == before


def test_case_33_what_params_no_longer_names_is_not_reported(made, call):
    output(call, "report")
    assert "csls" in Path("reports/metrics.json").read_text()
    output(call, "-S", "grid.inferences=[nns]", "report")
    assert Path("data/evaluate/sum/csls").is_dir()
    assert list(read_json(Path("reports/metrics.json"))["sum"]) == ["data", "nns"]
    assert "csls" not in Path("reports/plots/rsum.csv").read_text()


def test_case_34_a_result_that_depends_on_other_queries_says_so_and_another_is_to_be_had(made, call):
    path = Path("data/evaluate/sum/csls/metrics.json")
    assert read_json(path)["transductive"] is True
    output(call, "report")
    assert "transductive" in Path("reports/index.html").read_text()
    output(call, "-S", "evaluate.bank=train", "evaluate", "--inference", "csls")
    assert read_json(path)["transductive"] is False
