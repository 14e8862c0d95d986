"""The documentation against the code: every member is in the README and on its page."""

import re

from pipeline.project.registry import BACKBONES, FORMATS, INFERENCES, RUN_FAMILIES, TEXT_FEATURES
from tests.rules.sources import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCS = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md")}


def test_readme_and_docs_name_every_member():
    for name in [*RUN_FAMILIES["loss"].names(), *INFERENCES.names()]:
        assert f"`{name}`" in README, name
    for name in INFERENCES.names():
        row = next(line for line in DOCS["criteria.md"].splitlines() if line.startswith(f"| `{name}` |"))
        for option in INFERENCES.options(name).Params.model_fields:
            assert f"`{option}`" in row, f"{name}.{option}"
    for name in FORMATS.names():
        assert f"## {name}" in DOCS["data.md"], name
    for name in BACKBONES.names():
        assert f"| `{name}`" in DOCS["features.md"], name


def test_training_has_a_row_for_every_member_with_all_its_options():
    lines, missing = DOCS["training.md"].splitlines(), []
    titles = {"text": "text encoder", "image": "image encoder"}
    for kind, family in RUN_FAMILIES.items():
        title = f"| {titles.get(kind, kind)} |"
        start = next(place for place, line in enumerate(lines) if line.startswith(title))
        table = lines[start : lines.index("", start)]
        for name in family.names():
            row = next((line for line in table if line.startswith(f"| `{name}` |")), "")
            missing += [] if row else [f"{kind} {name}: no row"]
            options = [] if "regimes.md" in row else family.options(name).Params.model_fields
            missing += [f"{kind} {name}: {option}" for option in options if f"`{option}`" not in row]
    assert missing == []


def test_texts_names_every_method():
    for name in TEXT_FEATURES.names():
        assert f"`{name}`" in DOCS["texts.md"], name


def test_losses_has_a_section_for_every_loss_with_its_formula_and_options():
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", DOCS["losses.md"], flags=re.M | re.S))
    for name in RUN_FAMILIES["loss"].names():
        assert "```math" in sections[name], name
        assert f"(parameters.md#loss-{name})" in sections[name], name


def test_criteria_says_when_to_use_each():
    section = DOCS["criteria.md"].split("## When to use which")[1].split("\n## ")[0]
    for name in INFERENCES.names():
        assert f"`{name}`" in section, name
