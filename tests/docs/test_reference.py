"""The pages made from the code leave nothing out and explain everything."""

import re

import pyarrow as pa
import pytest

from tests.docs import parameters, reference
from vse_pipe.core.strict import Strict
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


def test_every_option_of_every_member_is_there_with_a_meaning(page):
    absent = []
    for key, name in MEMBERS:
        section = _section(page, f"### {key}: {name}")
        for option in FAMILIES[key].options(name).model_fields:
            if not re.search(rf"^- .*`{option}[:`]", section, re.M):
                absent.append(f"{key} {name}: {option}")
    assert absent == []
    unexplained = re.findall(r"^- .*\): ?$", page, flags=re.M)
    assert unexplained == [], "explain it in the docstring below its field"


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
