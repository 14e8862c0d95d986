"""A changed value changes its lines of params.yaml and no others, whether DVC writes it or this package."""

import difflib
from collections.abc import Iterator

import pytest
from dvc.utils.hydra import apply_overrides

from tests.rules.sources import ROOT
from vse_pipe.project.params.document import read_document

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


@pytest.mark.parametrize(
    ("override", "lines"),
    [
        ("loss.hal.gamma=60", 2),
        ("grid.inferences=[nns,csls]", 2),
        ("runs.hal.loss=max", 2),
        ("+runs.hal.seeds=[1,2]", 3),
    ],
)
def test_dvc_leaves_the_other_lines_of_the_shipped_file(tmp_path, override, lines):
    file = tmp_path / "params.yaml"
    file.write_text(SHIPPED, encoding="utf-8")
    apply_overrides(file, [override])
    assert len(changed(SHIPPED, file.read_text(encoding="utf-8"))) == lines
