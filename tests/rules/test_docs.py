"""The documentation against the code: names, defaults and commands that exist."""

import re

import pytest
import typer.main

from pipeline.cli import app
from pipeline.params.schema import EvaluateParams, ReportParams, TrainParams
from pipeline.registry import BACKBONES, FORMATS, INFERENCES, RUN_FAMILIES, TEXT_FEATURES
from tests.rules.sources import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCS = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md")}


@pytest.mark.parametrize(
    ("section", "model"), [("train", TrainParams), ("evaluate", EvaluateParams), ("report", ReportParams)]
)
def test_readme_has_every_parameter_with_its_default(section, model):
    row = next(line for line in README.splitlines() if line.startswith(f"| `{section}` |"))
    for name, field in model.model_fields.items():
        assert f"`{name}`" in row, name
        if isinstance(field.default, bool):
            assert f"`{name}` ({str(field.default).lower()})" in row, f"{name}: no default stated"
        elif isinstance(field.default, int | float):
            stated = re.search(rf"`{name}` \(([\d.]+)", row)
            assert stated, f"{name}: no default stated"
            assert float(stated.group(1)) == field.default


def test_readme_and_docs_name_every_member():
    for name in [*RUN_FAMILIES["loss"].names(), *INFERENCES.names()]:
        assert f"`{name}`" in README, name
    for name in INFERENCES.names():
        row = next(line for line in DOCS["criteria.md"].splitlines() if line.startswith(f"| `{name}` |"))
        for option in INFERENCES.load(name).Params.model_fields:
            assert f"`{option}`" in row, f"{name}.{option}"
    for name in FORMATS.names():
        assert f"## {name}" in DOCS["data.md"], name
    for name in BACKBONES.names():
        assert f"| `{name}`" in DOCS["features.md"], name


@pytest.mark.parametrize("kind", RUN_FAMILIES)
def test_training_has_a_row_for_every_member_with_all_its_options(kind):
    family = RUN_FAMILIES[kind]
    title = {"loss": "| loss |", "text": "| text encoder |", "image": "| image encoder |"}.get(
        kind, f"| {kind} |"
    )
    lines = DOCS["training.md"].splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith(title))
    table = lines[start : lines.index("", start)]
    for name in family.names():
        row = next((line for line in table if line.startswith(f"| `{name}` |")), None)
        assert row, f"{kind} {name}: no row"
        for option in [] if "regimes.md" in row else family.load(name).Params.model_fields:
            assert f"`{option}`" in row, f"{kind} {name}: {option}"


def test_texts_names_every_method():
    for name in TEXT_FEATURES.names():
        assert f"`{name}`" in DOCS["texts.md"], name


def test_every_command_shown_exists():
    commands = set(typer.main.get_command(app).commands)
    text = "\n".join([README, *DOCS.values()])
    shown = set(re.findall(r"vse-pipe (?:-S \S+ )*([a-z]+)", text))
    assert shown, "the pattern must find commands"
    assert shown - {"and"} <= commands, shown - commands


def test_links_lead_somewhere():
    for name, text in [("README.md", README), *((f"docs/{name}", text) for name, text in DOCS.items())]:
        for target in re.findall(r"\]\(([^)#]+)\)", text):
            if not target.startswith("http"):
                assert (ROOT / name).parent.joinpath(target).exists(), f"{name}: {target}"
