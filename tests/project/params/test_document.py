"""A changed value changes its lines of params.yaml and no others, whether DVC writes it or this package."""

import difflib

import pytest

from tests.rules.sources import ROOT
from vse_pipe.project.params import overlay
from vse_pipe.project.params.document import parse_yaml, with_overrides
from vse_pipe.project.params.overlay import edited

SHIPPED = (ROOT / "params.yaml").read_text(encoding="utf-8")


def changed(before: str, after: str) -> list[str]:
    return [line for line in difflib.ndiff(before.splitlines(), after.splitlines()) if line[0] in "+-"]


OWN = """\
seed: 1     # why one
runs:
  # the plain one
  sum: {loss: 'sum', train: {}}   # braces
  hal:
    loss: "hal"                   # quoted

# --- shown
report:
  audits:                         # these
  - sum       # first

  # and this
  - hal       # last
  title:                          # none yet
  sweeps: {}  # none
  text: |
    two # lines
    of text
"""
CHANGES = {
    "runs.sum.loss=max": {"{loss: 'sum', train: {}}   # braces": "{loss: 'max', train: {}}   # braces"},
    "runs.sum.train.lr=1e-4": {"train: {}}   #": "train: {lr: 0.0001}} #"},
    "runs.hal.loss=max": {'"hal"  ': '"max"  '},
    "runs.hal.seeds=[1, 2]": {"# quoted\n": "# quoted\n    seeds:\n    - 1\n    - 2\n"},
    "report.audits=[sum]": {"  - sum       # first\n\n  # and this\n  - hal       # last\n": "  - sum\n"},
    "report.sweeps={k: {x: loss.k}}": {"sweeps: {}  # none\n": "sweeps:     # none\n    k:\n      x: loss.k\n"},
    "new={a: [1]}": {"of text\n": "of text\nnew:\n  a:\n  - 1\n"},
}


@pytest.mark.parametrize("override", CHANGES)
def test_a_new_value_leaves_other_lines_and_comments(override):
    text, expected = OWN, OWN
    for before, after in CHANGES[override].items():
        assert before in expected
        expected = expected.replace(before, after)
    content = with_overrides(parse_yaml(text), [override], "params.yaml")
    assert edited(text, content) == expected


def test_an_entry_leaves_by_itself_and_an_anchor_is_refused():
    content = parse_yaml(OWN)
    del content["runs"]["sum"]
    assert changed(OWN, edited(OWN, content)) == ["-   sum: {loss: 'sum', train: {}}   # braces"]
    shared = "one: &x {a: 1}\ntwo: *x\nthree: 3  # own\n"
    assert edited(shared, {"one": {"a": 1}, "two": {"a": 1}, "three": 4}) == shared.replace("3  #", "4  #")
    with pytest.raises(ValueError, match="an anchor, a tag"):
        edited(shared, {"one": {"a": 1}, "two": {"a": 2}, "three": 3})


def test_apply_and_set_change_the_lines_of_their_values(tmp_path):
    file = tmp_path / "params.yaml"
    file.write_text(SHIPPED, encoding="utf-8")
    overlay.edit(file, ["loss.hal.gamma=60"])
    assert len(changed(SHIPPED, file.read_text(encoding="utf-8"))) == 2
    file.write_text(SHIPPED, encoding="utf-8")
    overlay.apply(file, "strong", [])
    overlay.apply(file, "strong", ["train.epochs=7"])
    text = file.read_text(encoding="utf-8")
    headings = [line for line in SHIPPED.splitlines() if line.startswith("#")]
    assert [line for line in text.splitlines() if line.startswith("#")] == headings
    overlay.edit(file, ["train.epochs=20"])
    assert changed(text, file.read_text(encoding="utf-8")) == ["-   epochs: 7", "+   epochs: 20"]
