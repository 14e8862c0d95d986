"""Links, anchors, paths and keys that the documentation names."""

import itertools
import re

from tests.docs import pages
from tests.rules.sources import ROOT
from vse_pipe.project.params.schema import Root
from vse_pipe.project.registry import FORMATS, INFERENCES, RUN_FAMILIES

# Paths that the reader makes, or that are written when the commands run.
MADE = re.compile(
    r"(data/raw|data/(prepare|extract|inject|train|embed|evaluate|audit|localize)|dvc_plots|noise|photos)/|.*(index|report)\.html$"
)


# Keys of earlier versions that pages about upgrading name.
_MOVED = {"min_count", "max_words", "epoch"}


TEXTS = {path: path.read_text(encoding="utf-8") for path in pages.PAGES}


def test_every_link_leads_to_a_page_and_a_heading_of_it():
    wrong, anchors = [], {}
    for path, text in TEXTS.items():
        for target in re.findall(r"\]\(([^)\s]+)\)", pages.prose(text)):
            if target.startswith("http"):
                continue
            file, _, anchor = target.partition("#")
            there = (path.parent / file).resolve() if file else path
            if anchor and there.exists() and there not in anchors:
                anchors[there] = pages.anchors(there.read_text(encoding="utf-8"))
            if not there.exists() or (anchor and anchor not in anchors[there]):
                wrong.append(f"{pages.name(path)}: {target}")
    assert wrong == []


def test_every_path_of_the_repository_that_is_named_exists():
    wrong = []
    for path, text in TEXTS.items():
        shown = [one for step in pages.steps(path) for one in getattr(step, "files", ())]
        for line, span in pages.spans(text):
            ours = re.fullmatch(r"(pipeline|tests|docs|data|reports|\.github)/[\w./-]+", span)
            if ours and not MADE.match(span) and not (ROOT / span).exists() and span not in shown:
                wrong.append(f"{pages.name(path)}:{line}: {span}")
    assert wrong == []


def test_every_key_that_is_named_exists():
    found = [(path, line, span) for path, text in TEXTS.items() for line, span in pages.spans(text)]
    assert [f"{pages.name(path)}:{line}: {span}" for path, line, span in found if not _is_known(span)] == []


def _is_known(span: str) -> bool:
    """True of what names no key."""
    match = re.fullmatch(r"(train|evaluate|embed|report|grid)\.(\w+)(: .*)?", span)
    if match and match.group(2) not in ("py", "csv", "md", "parquet", "npy", "npz", "txt"):
        model = Root.model_fields[match.group(1)].annotation
        return match.group(2) in {*model.model_fields, *_MOVED}
    member = re.fullmatch(r"(loss|scheme|similarity|text|image|sampler|inference)\.(\w+)\.(\w+)", span)
    if member:
        family = INFERENCES if member.group(1) == "inference" else RUN_FAMILIES[member.group(1)]
        if member.group(2) in family.names():
            return member.group(3) in family.options(member.group(2)).model_fields
    return True


def test_code_stands_in_fences_that_say_what_it_is():
    unsaid, indented = [], []
    for path, text in TEXTS.items():
        unsaid += [f"{pages.name(path)}:{block.line}" for block in pages.blocks(text) if not block.language]
        for number, (before, line) in enumerate(itertools.pairwise(pages.prose(text).splitlines()), start=2):
            listed = re.match(r"\s+([-*]|\d+\.) ", line)
            if line.startswith("    ") and not before.strip() and not listed:
                indented.append(f"{pages.name(path)}:{number}")
    assert unsaid == [], "say what the block is: sh, console, yaml, text, ..."
    assert indented == [], "put it between fences"


def test_the_index_names_every_page():
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    absent = [path.name for path in (ROOT / "docs").glob("*.md") if f"({path.name})" not in index]
    assert absent == ["index.md"]


def test_data_has_a_section_for_every_format():
    headings = re.findall(r"^## (\w+)$", (ROOT / "docs/data.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert set(headings) == set(FORMATS.names())


def test_no_page_has_a_place_left_to_fill():
    left = {pages.name(path): re.findall(r"\b(?:FIGURES?|TODO|TBD|FIXME|XXX)\b", text) for path, text in TEXTS.items()}
    assert {name: words for name, words in left.items() if words} == {}
