"""The documentation against the code: every member is on its page, with a link to its options."""

import re

from tests.docs.reference.parameters import anchor
from tests.rules.sources import ROOT
from vse_pipe.project.registry import BACKBONES, FORMATS, INFERENCES, PROPOSALS, PROTOCOLS, RUN_FAMILIES, TEXT_FEATURES

DOCS = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md")}
FAMILIES = {**RUN_FAMILIES, "format": FORMATS, "backbone": BACKBONES, "method": TEXT_FEATURES}
FAMILIES |= {"protocol": PROTOCOLS, "proposals": PROPOSALS, "inference": INFERENCES}
# The others are on training.md.
PAGES = {
    "loss": "losses.md",
    "format": "data.md",
    "proposals": "data.md",
    "backbone": "features.md",
    "method": "texts.md",
    "protocol": "noise.md",
    "inference": "criteria.md",
}


def test_every_member_is_on_the_page_of_its_family_with_a_link_to_its_options():
    absent = [
        f"{page}: {key} {name}"
        for key, family in FAMILIES.items()
        for page in [PAGES.get(key, "training.md")]
        for name in family.names()
        if f"](parameters.md#{anchor(f'{key}: {name}')})" not in DOCS[page]
    ]
    assert absent == []


def test_no_table_repeats_the_defaults_of_parameters():
    """Options of the command line, which begin with dashes, are in no other page."""
    found = [
        f"{name}: {head}"
        for name, text in DOCS.items()
        for head, first in re.findall(r"(?<!\|\n)^(\|.*\|)\n\|[-:| ]+\|\n\| *(\S+)", text, flags=re.M)
        if re.search("option|parameter", head) and "default" in head and not first.startswith("`--")
    ]
    assert found == [], "name what a reader must know in a sentence and link to parameters.md"


def test_losses_has_a_section_for_every_loss_with_its_formula_and_options():
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", DOCS["losses.md"], flags=re.M | re.S))
    for name in RUN_FAMILIES["loss"].names():
        assert "```math" in sections[name], name
        assert f"(parameters.md#loss-{name})" in sections[name], name


def test_criteria_says_when_to_use_each():
    section = DOCS["criteria.md"].split("## When to use which")[1].split("\n## ")[0]
    for name in INFERENCES.names():
        assert f"`{name}`" in section, name
