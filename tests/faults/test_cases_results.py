"""Neither the clock nor the language of the machine changes a byte of the results."""

import pytest

from tests.commands.script import run as run_as_a_script
from tests.faults import kill

pytestmark = pytest.mark.acceptance


def test_case_32_neither_clock_nor_language_changes_a_byte(staged):
    before = kill.files(staged)
    elsewhere = {"LC_ALL": "C", "LANG": "tr_TR.UTF-8", "TZ": "Asia/Kathmandu", "PYTHONUTF8": "0"}
    for stage in ("prepare", "report"):
        status, _, err = run_as_a_script(stage, cwd=staged, **elsewhere)
        assert status == 0, err
    assert kill.files(staged) == before
