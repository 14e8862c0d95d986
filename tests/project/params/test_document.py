"""A changed value changes its lines of params.yaml and no others, whether DVC writes it or this package."""

import difflib
from collections.abc import Iterator

import pytest
from dvc.utils.hydra import apply_overrides

from tests.rules.sources import ROOT
from vse_pipe.project.params import overlay
from vse_pipe.project.params.document import parse_yaml, read_document, with_overrides
from vse_pipe.project.params.editing import edited

SHIPPED = (ROOT / "params.yaml").read_text(encoding="utf-8")
NEW = {bool: "true", int: "1234", float: "0.0123", str: "other", type(None): "3"}


def changed(before: str, after: str) -> list[str]:
    return [line for line in difflib.ndiff(before.splitlines(), after.splitlines()) if line[0] in "+-"]


def leaves(section: dict, above: str = "") -> Iterator[tuple[str, object]]:
    for key, value in section.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, f"{above}{key}.")
        elif not isinstance(value, dict | list):
            yield f"{above}{key}", value


@pytest.mark.acceptance
def test_dvc_changes_one_line_for_one_value(tmp_path):
    file = tmp_path / "params.yaml"
    for address, value in leaves(read_document(ROOT / "params.yaml")):
        if address != "scheme.ridge.predicts":  # `other` is no value of it, and the line is full
            file.write_text(SHIPPED, encoding="utf-8")
            new = "false" if value is True else NEW[type(value)]
            apply_overrides(file, [f"{address}={new}"])
            assert len(changed(SHIPPED, file.read_text(encoding="utf-8"))) == 2, address


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
