"""Cases 11, 12 and 31 to 34 of the acceptance suite: training that fails, and what may be said of results."""

import json
from pathlib import Path

import pytest

from tests.command_line import output
from tests.commands.script import run as run_as_a_script
from tests.faults import kill

pytestmark = pytest.mark.acceptance


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
