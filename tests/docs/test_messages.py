"""The messages that docs/troubleshooting.md quotes are messages of the code."""

import pytest

from tests.rules.sources import ROOT, modules
from vse_pipe.core.errors import PipelineError

TEXT = (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")
# The part of each quoted message that no value interrupts.
MESSAGES = [
    "unknown key",
    "did you mean '",
    "moved to",
    "no params.yaml in ",
    "does not exist",
    "changed after prepare read it",
    "than data/extract now holds",
    "cannot download",
    "fetch it by hand (sha256 ",
    "which is not installed",
    "out of memory",
    "is being written by process ",
    "the loss still sits at its plateau",
    "the model has collapsed and its ranks mean nothing",
    "the norm of the gradients is ",
    "on_error: skip",
]


@pytest.fixture(scope="module")
def code() -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in modules())


def test_every_quoted_message_is_one_of_the_code(code):
    assert [message for message in MESSAGES if message not in TEXT] == [], "the page no longer quotes them"
    assert [message for message in MESSAGES if message not in code] == []


def test_every_exit_status_has_a_row():
    statuses = {error.exit_status for error in _errors(PipelineError)} | {0, 130, 143}
    for status in statuses:
        assert f"| {status} |" in TEXT, status


def _errors(base: type) -> set[type]:
    return {base}.union(*(_errors(one) for one in base.__subclasses__()))
