"""docs/data.md against the code: an example that describes runs is an overlay that loads."""

import re
import shutil

import pytest

from pipeline.params.load import load
from pipeline.params.overlay import apply
from tests.rules.sources import ROOT

EXAMPLES = [
    text
    for text in re.findall(
        r"^```yaml\n(.*?)^```", (ROOT / "docs/data.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    if re.search(r"^runs:", text, re.MULTILINE)
]


def test_there_is_one():
    assert EXAMPLES


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_of_whole_runs_loads(example, tmp_path):
    shutil.copy(ROOT / "params.yaml", tmp_path / "params.yaml")
    (tmp_path / "example.yaml").write_text(example)
    apply(tmp_path / "params.yaml", str(tmp_path / "example.yaml"), [])
    assert set(load(tmp_path / "params.yaml").datasets) == {"mine"}
