"""The generated pages: what is committed is what the code gives, and nothing is left out or unexplained."""

import re

import pyarrow as pa
import pytest
from pydantic import PositiveInt

from tests.docs.reference import __main__ as reference
from tests.docs.reference import artefacts, parameters
from vse_pipe.core.strict import Strict
from vse_pipe.project.registry import BACKBONES, FORMATS, INFERENCES, PROPOSALS, PROTOCOLS, RUN_FAMILIES, TEXT_FEATURES

FAMILIES = {"format": FORMATS, "backbone": BACKBONES, "method": TEXT_FEATURES, "protocol": PROTOCOLS}
FAMILIES |= {**RUN_FAMILIES, "proposals": PROPOSALS, "inference": INFERENCES}
MEMBERS = [(key, name) for key, family in FAMILIES.items() for name in family.names()]


@pytest.fixture(scope="module")
def page() -> str:
    return parameters.page()


def test_the_committed_pages_are_what_the_code_gives():
    assert reference.stale(reference.DOCS) == [], "run `python -m tests.docs.reference`"


def test_writing_makes_what_is_missing_and_check_tells(tmp_path, capsys):
    assert reference.main(["--check"], tmp_path) == 1
    assert "docs/parameters.md is not up to date" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []
    assert reference.main([], tmp_path) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["artefacts.md", "parameters.md"]
    assert reference.main(["--check"], tmp_path) == 0
    (tmp_path / "artefacts.md").write_text("stale")
    assert reference.stale(tmp_path) == ["artefacts.md"]


def test_every_option_of_every_member_is_there(page):
    absent = []
    for key, name in MEMBERS:
        section = _section(page, f"### {key}: {name}")
        for shared in re.findall(r"\]\(#([\w-]+)\)", section):
            title = next(line for line in page.splitlines() if parameters.anchor(line.lstrip("# ")) == shared)
            section += _section(page, title)
        for option in FAMILIES[key].options(name).model_fields:
            if not re.search(rf"^- .*`{option}[:`]", section, re.M):
                absent.append(f"{key} {name}: {option}")
    assert absent == []


def test_every_key_has_a_meaning(page):
    unexplained = re.findall(r"^- .*[`)]: ?$", page, flags=re.M)
    assert unexplained == [], "explain it in the docstring below its field"


def test_neighbours_of_one_meaning_share_a_line():
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


def test_an_option_that_members_share_is_explained_once(page):
    section = _section(page, "### backbone: bottom_up")
    assert "Options of [features](#backbone-shared-options-of-features), with `normalise: false`" in section
    assert "- `normalise" not in section
    assert "(#backbone-shared-options-of-pairs)" in _section(page, "### method: open_clip")


def test_every_schema_of_every_artefact_has_its_columns():
    page = artefacts.page()
    for module in artefacts.modules():
        declared = [one for one in vars(module).values() if isinstance(one, pa.Schema) and one.metadata]
        sides = 2 * (hasattr(module, "schema") + hasattr(module, "fragment_schema"))
        found = artefacts.schemas(module)
        assert len(found) == len(declared) + sides, module.__name__
        for file, schema in found.items():
            for column in schema:
                assert re.search(rf"^- .*`{column.name}`.*\): ", page, re.M), f"{file}: {column.name}"
                assert (column.metadata or {}).get(b"about"), f"{module.__name__} {column.name}: no meaning"


def test_models_of_the_page_are_strict():
    for model, _ in parameters.SECTIONS.values():
        assert issubclass(model, Strict)


def _section(page: str, heading: str) -> str:
    level = heading.partition(" ")[0]
    lines = page.splitlines()
    start = lines.index(heading)
    end = next((at for at in range(start + 1, len(lines)) if re.match(rf"#{{2,{len(level)}}} ", lines[at])), len(lines))
    return "\n".join(lines[start:end])
