"""The pages made from the code leave nothing out and explain everything."""

import re
from typing import Annotated, Literal

import pyarrow as pa
import pytest
from pydantic import Field, PositiveInt, StringConstraints

from tests.docs import pages, parameters, reference
from vse_pipe.core.strict import Strict, Width
from vse_pipe.project.registry import BACKBONES, FORMATS, INFERENCES, PROPOSALS, PROTOCOLS, RUN_FAMILIES, TEXT_FEATURES

FAMILIES = {"format": FORMATS, "backbone": BACKBONES, "method": TEXT_FEATURES, "protocol": PROTOCOLS}
FAMILIES |= {**RUN_FAMILIES, "proposals": PROPOSALS, "inference": INFERENCES}
MEMBERS = [(key, name) for key, family in FAMILIES.items() for name in family.names()]


@pytest.fixture(scope="module")
def written() -> dict[str, str]:
    return {name: page() for name, page in reference.PAGES.items()}


@pytest.fixture
def page(written) -> str:
    return written["parameters.md"]


def test_every_option_of_every_member_is_there_with_a_meaning_those_shared_once(page):
    absent = []
    for key, name in MEMBERS:
        section = _section(page, f"### {key}: {name}")
        for shared in re.findall(r"\]\(#([\w-]+)\)", section):
            title = next(line for line in page.splitlines() if pages.anchor(line.lstrip("# ")) == shared)
            section += _section(page, title)
        for option in FAMILIES[key].options(name).model_fields:
            if not re.search(rf"^- .*`{option}[:`]", section, re.M):
                absent.append(f"{key} {name}: {option}")
    assert absent == []
    unexplained = re.findall(r"^- .*[`)]: ?$", page, flags=re.M)
    assert unexplained == [], "explain it in the docstring below its field"
    section = _section(page, "### backbone: bottom_up")
    assert "Options of [features](#backbone-shared-options-of-features), with `normalise: false`" in section
    assert "- `normalise" not in section
    assert "(#backbone-shared-options-of-pairs)" in _section(page, "### method: open_clip")


def test_a_model_wins_over_its_base_and_its_docstrings_become_one_line():
    second = "of the base too, see `x`. Any text may follow"
    assert parameters.of_keys(Model) == {"first": "its own", "second": second, "fourth": "of the field"}
    assert parameters.of_model(Base) == "What both have, see `x`."
    assert parameters.of_model(Model) == ""
    assert parameters.text("``<split>_ims``\n  of <split> 2*3") == r"`<split>_ims` of &lt;split> 2\*3"

    class Sides(Strict):
        width: PositiveInt = 3
        """of the picture in pixels"""
        height: PositiveInt = 4
        """of the picture in pixels"""
        depth: int
        """of the picture in pixels"""
        name: str = "x"
        """width of another kind"""

    assert parameters.keys(Sides, Sides.model_fields) == [
        "- `width: 3`, `height: 4` (> 0), `depth` (integer): of the picture in pixels",
        "- `name: x`: width of another kind",
    ]


def test_every_schema_of_every_artefact_has_its_columns_and_models_are_strict(written):
    page = written["artefacts.md"]
    for module in reference.modules():
        declared = [one for one in vars(module).values() if isinstance(one, pa.Schema) and one.metadata]
        sides = 2 * (hasattr(module, "schema") + hasattr(module, "fragment_schema"))
        found = reference.schemas(module)
        assert len(found) == len(declared) + sides, module.__name__
        for file, schema in found.items():
            for column in schema:
                assert re.search(rf"^- .*`{column.name}`.*\): ", page, re.M), f"{file}: {column.name}"
                assert (column.metadata or {}).get(b"about"), f"{module.__name__} {column.name}: no meaning"
    for model, _ in parameters.SECTIONS.values():
        assert issubclass(model, Strict)


def _section(page: str, heading: str) -> str:
    level = heading.partition(" ")[0]
    lines = page.splitlines()
    start = lines.index(heading)
    end = next((at for at in range(start + 1, len(lines)) if re.match(rf"#{{2,{len(level)}}} ", lines[at])), len(lines))
    return "\n".join(lines[start:end])


class Base(Strict):
    """What both have,
    see ``x``."""

    first: int = 1
    """of the base"""
    second: int = 2
    """of the base too,
    see ``x``. Any text may follow."""
    third: int = 3


class Model(Base):
    first: int = 4
    """its own"""
    second: int = 5
    fourth: int = Field(default=5, description="of the field")


class reference_types_Model(Strict):
    """One field of each sort."""

    count: PositiveInt
    share: Annotated[float, Field(ge=0, lt=1)] = 1e-7
    width: Width = 3
    choice: Literal["a", "b"] = "a"
    maybe: Annotated[int, Field(ge=2)] | None = None
    either: Literal["all"] | PositiveInt = "all"
    channels: Annotated[list[float], Field(min_length=3, max_length=3)] | None = None
    several: list[PositiveInt] = Field(min_length=1, default_factory=lambda: [1, 2])
    many: list[float] = Field(default_factory=lambda: [step / 4 for step in range(37)])
    digest: Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")] | None = None
    nested: dict[str, dict] = Field(default_factory=dict)
    switch: bool = False
    words: str = ""


@pytest.mark.parametrize(
    ("name", "kind", "default", "beside"),
    [
        ("count", "integer > 0", None, None),
        ("share", "number in [0, 1)", "1e-07", "in [0, 1)"),
        ("width", "integer in [1, 2^20]", "3", "in [1, 2^20]"),
        ("choice", "one of `a`, `b`", "a", "or `b`"),
        ("maybe", "integer ≥ 2, or null", "null", "integer ≥ 2"),
        ("either", "one of `all`, or integer > 0", "all", "or integer > 0"),
        ("several", "list of integer > 0", "[1, 2]", "list of integer > 0"),
        ("channels", "list of number, 3 of them, or null", "null", "list of number, 3 of them"),
        ("many", "list of number", "[0.0, 0.25, ..., 9.0]", "list of number"),
        ("digest", "SHA-256, or null", "null", "SHA-256"),
        ("nested", "mapping", "{}", ""),
        ("switch", "boolean", "false", ""),
        ("words", "text", '""', ""),
    ],
)
def test_a_field_in_words(name, kind, default, beside):
    field = reference_types_Model.model_fields[name]
    assert parameters.describe(field) == kind
    if default is None:
        assert field.is_required()
    else:
        assert (parameters.default(field), parameters.beside_default(field)) == (default, beside)
