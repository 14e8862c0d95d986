"""Links, anchors, paths and keys that the documentation names."""

import itertools
import re

import pytest

from pipeline.project.params.schema import Root
from pipeline.project.registry import FORMATS, INFERENCES, RUN_FAMILIES
from tests.docs import pages
from tests.rules.sources import ROOT

# Paths that the reader makes, or that are written when the commands run.
MADE = re.compile(
    r"(data/raw|data/(prepare|extract|inject|train|embed|evaluate|audit)|dvc_plots|noise|photos)/|.*(index|report)\.html$"
)


# Keys of earlier versions that pages about upgrading name.
_MOVED = {"min_count", "max_words", "epoch"}


@pytest.mark.parametrize("path", pages.PAGES, ids=pages.name)
def test_every_link_leads_to_a_page_and_a_heading_of_it(path):
    text = path.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", pages.prose(text)):
        if target.startswith("http"):
            continue
        file, _, anchor = target.partition("#")
        there = (path.parent / file).resolve() if file else path
        assert there.exists(), f"{pages.name(path)}: {target}"
        if anchor:
            assert anchor in pages.anchors(there.read_text(encoding="utf-8")), f"{pages.name(path)}: {target}"


@pytest.mark.parametrize("path", pages.PAGES, ids=pages.name)
def test_every_path_of_the_repository_that_is_named_exists(path):
    for line, span in pages.spans(path.read_text(encoding="utf-8")):
        if re.fullmatch(r"(pipeline|tests|docs|data|reports|\.github)/[\w./-]+", span) and not MADE.match(span):
            shown = [one for step in pages.steps(path) for one in getattr(step, "files", ())]
            assert (ROOT / span).exists() or span in shown, f"{pages.name(path)}:{line}: {span}"


@pytest.mark.parametrize("path", pages.PAGES, ids=pages.name)
def test_every_key_that_is_named_exists(path):
    for line, span in pages.spans(path.read_text(encoding="utf-8")):
        match = re.fullmatch(r"(train|evaluate|embed|report|grid)\.(\w+)(: .*)?", span)
        if match and match.group(2) not in ("py", "csv", "md", "parquet", "npy", "npz"):
            model = Root.model_fields[match.group(1)].annotation
            known = {*model.model_fields, *_MOVED}
            assert match.group(2) in known, f"{pages.name(path)}:{line}: {span}"
        member = re.fullmatch(r"(loss|scheme|similarity|text|image|sampler|inference)\.(\w+)\.(\w+)", span)
        if member:
            family = INFERENCES if member.group(1) == "inference" else RUN_FAMILIES[member.group(1)]
            if member.group(2) in family.names():
                known = family.options(member.group(2)).Params.model_fields
                assert member.group(3) in known, f"{pages.name(path)}:{line}: {span}"


@pytest.mark.parametrize("path", pages.PAGES, ids=pages.name)
def test_code_stands_in_fences_that_say_what_it_is(path):
    text = path.read_text(encoding="utf-8")
    for block in pages.blocks(text):
        assert block.language, f"{pages.name(path)}:{block.line}: say what the block is: sh, console, yaml, text, ..."
    for number, (before, line) in enumerate(itertools.pairwise(pages.prose(text).splitlines()), start=2):
        indented = line.startswith("    ") and not before.strip() and not re.match(r"\s+([-*]|\d+\.) ", line)
        assert not indented, f"{pages.name(path)}:{number}: put it between fences"


def test_the_index_lists_every_page():
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    for path in (ROOT / "docs").glob("*.md"):
        assert path.name == "index.md" or f"({path.name})" in index, path.name


def test_data_has_a_section_for_every_format():
    headings = re.findall(r"^## (\w+)$", (ROOT / "docs/data.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert set(headings) == set(FORMATS.names())


@pytest.mark.parametrize("path", pages.PAGES, ids=pages.name)
def test_no_page_has_a_place_left_to_fill(path):
    assert not re.findall(r"\b(?:FIGURES?|TODO|TBD|FIXME|XXX)\b", path.read_text(encoding="utf-8"))


def test_the_index_names_every_page():
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    absent = [path.name for path in (ROOT / "docs").glob("*.md") if f"({path.name})" not in index]
    assert absent == ["index.md"]
