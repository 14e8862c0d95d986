"""docs/texts.md against the code: every method, option and default."""

import re

import pytest
from pydantic_core import PydanticUndefined

from pipeline.extract.text_engine.params import VectorParams
from pipeline.project.registry import TEXT_FEATURES
from tests.rules.sources import ROOT

TEXT = (ROOT / "docs" / "texts.md").read_text(encoding="utf-8")


def stated(default: object) -> str:
    """A default as the table shows it."""
    if default is PydanticUndefined:
        return "required"
    return "none" if default is None else str(default).lower()


@pytest.mark.parametrize("name", TEXT_FEATURES.names())
def test_every_option_of_a_method_is_documented_with_its_default(name: str) -> None:
    assert f"\n| `{name}` | " in TEXT
    rows = dict(re.findall(rf"^\| `{name}` \| `(\w+)` \| ([^|]+?) \|", TEXT, re.MULTILINE))
    shared = set(VectorParams.model_fields)
    options = {
        option: stated(field.default)
        for option, field in TEXT_FEATURES.options(name).Params.model_fields.items()
        if option not in shared
    }
    assert rows == options


def test_options_of_all_methods_are_documented() -> None:
    for option, field in VectorParams.model_fields.items():
        assert re.search(rf"`{option}` \({field.default}\b", TEXT), option
