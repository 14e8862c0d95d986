"""The tables of docs/papers.md that say where each part of a paper is: whole, and naming only what exists."""

import re
from dataclasses import dataclass
from functools import cache

import pytest

from tests.docs import pages
from tests.rules.sources import ROOT
from vse_pipe.papers import catalogue
from vse_pipe.papers.overlay import needs
from vse_pipe.project.params import overlay
from vse_pipe.project.registry import RUN_FAMILIES
from vse_pipe.report import page

TEXT = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
# Sections, and how many figures and tables the text at hand has.
PARTS = {
    "hal-aaai2020": (["Basic Formulation", "SUM", "MAX", "Global", "Local", "Experimental setups"], 4, 3),
    "hal-rgm-emnlp": (["3.1", "3.2.1", "3.2.2", "3.2.3", "3.3.1", "3.3.2", "3.3.3", "3.4", "4.1", "Algorithm 1"], 4, 4),
    "l2rm-cvpr2024": (
        [
            *["3.1", "3.2", "4.1", "4.2", "4.3", "5.1", "5.2", "5.3", "5.4", "D.1", "D.2", "D.3"],
            "Appendix A",
            "Appendix B",
            "Appendix C",
        ],
        7,
        9,
    ),
    "structure-preserving-cvpr2016": (["2.1", "2.2", "3.1", "3.2", "3.3"], 3, 3),
    "vsepp": (["SH", "MH", "figures"], 0, 4),
}


@dataclass(frozen=True)
class Part:
    """A line of a paper's table."""

    paper: str
    what: str
    where: str
    how: str


def parts() -> list[Part]:
    section = TEXT.split("\n## Section by section\n")[1].split("\n## ")[0]
    found = []
    for chunk in section.split("\n### ")[1:]:
        lines = [line.strip("|").split("|") for line in chunk.splitlines() if line.startswith("|")]
        found += [Part(chunk.split("\n")[0], *(cell.strip() for cell in cells)) for cells in lines[2:]]
    return found


@pytest.mark.parametrize("paper", catalogue.names())
def test_every_section_figure_and_table_has_a_line(paper):
    sections, figures, tables = PARTS[paper]
    named = [part.what for part in parts() if part.paper == paper]
    wanted = [*sections, *(f"Figure {n + 1}" for n in range(figures)), *(f"Table {n + 1}" for n in range(tables))]
    assert [one for one in wanted if not any(re.search(rf"\b{re.escape(one)}\b", what) for what in named)] == []
    printed = {table for entry in catalogue.entries(paper) for table in (entry.block.table, *entry.row.also)}
    assert {f"Table {table}" for table in printed} <= set(wanted)


def test_every_line_says_where_or_why_not():
    assert [part.what for part in parts() if not (part.where or part.how)] == []


def test_what_is_to_be_run_exists():
    unknown = [
        f"{part.what}: {span}" for part in parts() for _, span in pages.spans(part.how) if not _exists(part, span)
    ]
    assert unknown == []


def test_rows_that_are_to_be_run_do():
    """Or the line says so: not `1.6`."""
    broken = []
    for part in parts():
        rows = {entry.id: entry for entry in catalogue.entries(part.paper)}
        for _, span in pages.spans(part.how):
            if span in rows and f"not `{span}`" not in part.how:
                broken += [f"{part.paper} {span}: {lacking}" for lacking in needs(rows[span])]
    assert broken == []


def test_sections_of_the_page_have_the_titles_named():
    titles = {title for _, title, _ in page.SECTIONS}
    named = {title for part in parts() for title in re.findall(r"(?<!\*)\*([^*]+)\*(?!\*)", part.where + part.how)}
    assert named <= titles
    assert len(named) >= 3


@cache
def _known() -> set[str]:
    """What any line may name: overlays, the runs in them, members."""
    found = {name for family in RUN_FAMILIES.values() for name in family.names()} | {name for name, *_ in page.SECTIONS}
    for one in overlay.names():
        found |= {one, *overlay.read_document(overlay.find(one)).get("runs", {})}
    return found


@cache
def _rows(paper: str) -> set[str]:
    ids = {entry.id for entry in catalogue.entries(paper)}
    return ids | {f":{one.rpartition(':')[2]}" for one in ids if ":" in one}


def _exists(part: Part, span: str) -> bool:
    """Paths are checked on every page, commands where they are run."""
    return (
        span in _rows(part.paper) | _known()
        or span.startswith("vse-pipe ")
        or (ROOT / span).exists()
        or re.fullmatch(r"\w+: \w+|IMAGENET1K_V1|imagenet|hs_sum|(\w+\+)?r?gm", span) is not None
    )
