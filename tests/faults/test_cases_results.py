"""Cases 11, 12 and 31 to 34 of the acceptance suite: training that fails, and what may be said of results."""

import json
from pathlib import Path

import pytest

from tests.command_line import failure, output
from tests.commands.script import run as run_as_a_script
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
