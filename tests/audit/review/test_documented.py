"""docs/cleaning.md: the commands it shows are run, in their order, on findings of every kind."""

import json
import re
import shlex
import shutil
import subprocess

import pytest

from tests.audit.review.project import started
from tests.command_line import caller, output
from tests.docs.pages import section
from tests.rules.sources import ROOT
from vse_pipe.artifacts import decisions

pytestmark = pytest.mark.acceptance

PAGE = section((ROOT / "docs/cleaning.md").read_text(encoding="utf-8"), "Deciding on findings")
SHOWN = [line for block in re.findall(r"^```bash\n(.*?)^```$", PAGE, re.M | re.S) for line in block.splitlines()]


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl installed")
def test_every_command_and_request_shown_works(project, monkeypatch, capsys):
    by_command = {word: [line for line in SHOWN if line.startswith(word)] for word in ("vse-pipe review", "curl")}
    page, *others = [line.replace(" mine", " toy") for line in by_command["vse-pipe review"]]
    assert len(SHOWN) == 1 + len(by_command["vse-pipe review"]) + len(by_command["curl"])
    answers = []
    with started(project, *shlex.split(page)[2:]) as (url, _):
        for line in by_command["curl"]:
            command = line.replace("http://127.0.0.1:8000/", url).replace('"id": 17', '"id": 0')
            done = subprocess.run([*shlex.split(command), "-sS"], capture_output=True, text=True, check=True)
            answers.append(json.loads(done.stdout))
    finding, decided = answers
    assert (finding["finding"]["id"], decided["finding"]["decision"]) == (0, "keep")
    names = [name for answer in (finding, decided) for name in answer if name not in ("wrapped", "grouped")]
    assert [name for name in names if f"`{name}`" not in PAGE] == []
    for line in others:
        output(caller(monkeypatch, capsys), *shlex.split(line)[1:])
    assert set(decisions.read(project / "decisions.csv")["by"]) == {"anna", "auto 0.9"}
