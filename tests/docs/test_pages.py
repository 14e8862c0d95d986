"""Links, paths, keys, messages, members and figures that the documentation names, against the code; tables of reports/papers.md."""

import ast
import itertools
import re
import tomllib

import pytest

from tests.docs import pages, reference
from tests.rules.sources import PACKAGE, ROOT, modules, tree
from vse_pipe.core.errors import PipelineError
from vse_pipe.project.params.schema import Root
from vse_pipe.project.registry import BACKBONES, FORMATS, INFERENCES, PROPOSALS, PROTOCOLS, RUN_FAMILIES, TEXT_FEATURES

# Paths that the reader makes, or that are written when the commands run.
_STAGES = "prepare|extract|inject|train|embed|evaluate|audit|localize"
MADE = re.compile(rf"(data/(raw|{_STAGES})|dvc_plots|noise|photos)/|.*(index|report)\.html$")
# Keys of earlier versions that pages about upgrading name.
_MOVED = {"min_count", "max_words", "epoch"}
TEXTS = {path: path.read_text(encoding="utf-8") for path in pages.PAGES}


def test_every_link_leads_to_a_heading_and_code_stands_in_fences_that_say_what_it_is():
    made = {ROOT / "docs" / name: make() for name, make in reference.PAGES.items()}
    anchors = {path: pages.anchors(text) for path, text in made.items()}
    wrong = []
    for path, text in (TEXTS | made).items():
        for target in re.findall(r"\]\(([^)\s]+)\)", pages.prose(text)):
            if target.startswith("http"):
                continue
            file, _, anchor = target.partition("#")
            there = (path.parent / file).resolve() if file else path
            if anchor and there.exists() and there not in anchors:
                anchors[there] = pages.anchors(there.read_text(encoding="utf-8"))
            absent = there not in made and not there.exists()
            if absent or (anchor and anchor not in anchors[there]):
                wrong.append(f"{pages.name(path)}: {target}")
    assert wrong == []
    unsaid, indented = [], []
    for path, text in TEXTS.items():
        unsaid += [f"{pages.name(path)}:{block.line}" for block in pages.blocks(text) if not block.language]
        for number, (before, line) in enumerate(itertools.pairwise(pages.prose(text).splitlines()), start=2):
            listed = re.match(r"\s+([-*]|\d+\.) ", line)
            if line.startswith("    ") and not before.strip() and not listed:
                indented.append(f"{pages.name(path)}:{number}")
    assert unsaid == [], "say what the block is: sh, console, yaml, text, ..."
    assert indented == [], "put it between fences"


def test_every_path_and_key_that_is_named_exists_and_no_place_is_left_to_fill():
    wrong = []
    for path, text in TEXTS.items():
        shown = [one for step in pages.steps(path) for one in getattr(step, "files", ())]
        for line, span in pages.spans(text):
            ours = re.fullmatch(r"(pipeline|tests|docs|data|reports|\.github)/[\w./-]+", span)
            if ours and not MADE.match(span) and not (ROOT / span).exists() and span not in shown:
                wrong.append(f"{pages.name(path)}:{line}: {span}")
    assert wrong == []
    found = [(path, line, span) for path, text in TEXTS.items() for line, span in pages.spans(text)]
    assert [f"{pages.name(path)}:{line}: {span}" for path, line, span in found if not _is_known(span)] == []
    left = {pages.name(path): re.findall(r"\b(?:FIGURES?|TODO|TBD|FIXME|XXX)\b", text) for path, text in TEXTS.items()}
    assert {name: words for name, words in left.items() if words} == {}


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


def test_the_index_names_every_page_and_data_a_section_for_every_format():
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    absent = [path.name for path in (ROOT / "docs").glob("*.md") if f"({path.name})" not in index]
    assert absent == ["index.md"]
    site = (ROOT / "zensical.toml").read_text(encoding="utf-8")
    results = [pages.name(path) for path in ROOT.glob("reports/*.md")]
    assert [name for name in results if f"(../{name})" not in index or f'"{name}"' not in site] == []
    headings = re.findall(r"^## (\w+)$", (ROOT / "docs/data.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert set(headings) == set(FORMATS.names())


ARCHITECTURE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")


def test_rooms_floors_and_functions_of_the_pages_are_those_of_the_code():
    named = [
        (f"{pages.name(path)}:{line}", *found.groups())
        for path in pages.PAGES
        for line, span in pages.spans(path.read_text(encoding="utf-8"))
        if (found := re.fullmatch(r"((?:pipeline|tests)/[\w/]+\.py):([\w.]+)", span))
    ]
    assert sum(place.startswith("docs/architecture.md") for place, *_ in named) > 30
    absent = [f"{place}: {file}:{name}" for place, file, name in named if name not in _defined(file)]
    assert absent == []
    block = next(one.text for one in pages.blocks(ARCHITECTURE) if one.text.startswith("pipeline/"))
    rooms = re.findall(r"^  ([\w.]+)/? ", block, flags=re.M)
    there = [path.name for path in PACKAGE.iterdir() if not path.name.startswith("_") and path.suffix != ".typed"]
    assert sorted(rooms) == sorted(there)
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    layers = next(one["layers"] for one in settings["contracts"] if one["type"] == "layers")
    drawn = next(one.text for one in pages.blocks(ARCHITECTURE) if one.text.startswith("cli "))
    floors = [re.split(r", | \| ", floor.strip()) for floor in drawn.replace("\n", " ").split("→")]
    assert [sorted(floor) for floor in floors] == [sorted(layer.split(" | ")) for layer in layers]
    assert len(ARCHITECTURE.split()) < 1400


def _defined(file: str) -> set[str]:
    """Functions, classes and methods (``Class.method``) of a module; none where there is no such file."""
    if not (ROOT / file).is_file():
        return set()
    found = set()
    for node in tree(ROOT / file).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{one.name}" for one in node.body if isinstance(one, ast.FunctionDef)}
    return found


MESSAGES_TEXT = (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")
# The part of each quoted message that no value interrupts.
MESSAGES = [
    "unknown key", "did you mean '", "no params.yaml in ", "does not exist",
    "changed after prepare read it", ": was not made from ", "cannot download", "fetch it by hand (",
    "which is not installed", "out of memory", "is being written by process ", "the loss stands still at",
    "the norm of the gradients is ", "on_error: skip",
]  # fmt: skip


@pytest.fixture(scope="module")
def code() -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in modules())


def test_messages_and_exit_statuses_of_troubleshooting_are_those_of_the_code(code):
    assert [message for message in MESSAGES if message not in MESSAGES_TEXT] == [], "the page no longer quotes them"
    assert [message for message in MESSAGES if message not in code] == []
    statuses = {error.exit_status for error in _errors(PipelineError)} | {0, 130, 143}
    for status in statuses:
        assert f"| {status} |" in MESSAGES_TEXT, status


def _errors(base: type) -> set[type]:
    return {base}.union(*(_errors(one) for one in base.__subclasses__()))


DOCS = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md")}
FAMILIES = {**RUN_FAMILIES, "format": FORMATS, "backbone": BACKBONES, "method": TEXT_FEATURES}
FAMILIES |= {"protocol": PROTOCOLS, "proposals": PROPOSALS, "inference": INFERENCES}
# The others are on training.md.
PAGE_OF = {"loss": "losses.md", "format": "data.md", "proposals": "data.md", "backbone": "features.md"}
PAGE_OF |= {"method": "features.md", "protocol": "noise.md", "inference": "criteria.md"}


def test_every_member_is_on_the_page_of_its_family_and_no_table_repeats_defaults():
    absent = [
        f"{page}: {key} {name}"
        for key, family in FAMILIES.items()
        for page in [PAGE_OF.get(key, "training.md")]
        for name in family.names()
        if f"](parameters.md#{pages.anchor(f'{key}: {name}')})" not in DOCS[page]
    ]
    assert absent == []
    # Options of the command line, which begin with dashes, are in no other page.
    found = [
        f"{name}: {head}"
        for name, text in DOCS.items()
        for head, first in re.findall(r"(?<!\|\n)^(\|.*\|)\n\|[-:| ]+\|\n\| *(\S+)", text, flags=re.M)
        if re.search("option|parameter", head) and "default" in head and not first.startswith("`--")
    ]
    assert found == [], "name what a reader must know in a sentence and link to parameters.md"
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", DOCS["losses.md"], flags=re.M | re.S))
    for name in RUN_FAMILIES["loss"].names():
        assert "```math" in sections[name], name
        assert f"(parameters.md#loss-{name})" in sections[name], name
    section = DOCS["criteria.md"].split("## When to use which")[1].split("\n## ")[0]
    for name in INFERENCES.names():
        assert f"`{name}`" in section, name


# Papers as the sources of claims name them, and verdicts as the table has them.
_SOURCES = {"HAL AAAI": "hal-aaai2020", "HAL EMNLP": "hal-rgm-emnlp", "VSE++": "vsepp", "L2RM": "l2rm-cvpr2024"}
_SOURCES |= {"Structure": "structure-preserving-cvpr2016"}
