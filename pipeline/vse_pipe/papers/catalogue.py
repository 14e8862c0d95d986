"""The papers that ship with the package, and their rows by name."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from vse_pipe.core.errors import ParamsError, UsageError, missing, unknown
from vse_pipe.papers import settings
from vse_pipe.papers.schema import Block, Common, Paper, Row, Settings
from vse_pipe.project.params.document import read_document

Model = TypeVar("Model", bound=BaseModel)

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Entry:
    """A row, or a variant of one. id: the row's, with ``:<variant>`` for one; settings: merged, None for a quoted row."""

    paper: str
    id: str
    row: Row
    block: Block
    settings: Settings | None

    @property
    def marker(self) -> str:
        """What ``runs.<name>.row`` holds: paper and id of the row that trains the model."""
        return f"{self.paper} {self.row.trains or self.id}"

    @property
    def published(self) -> dict[str, float]:
        """The printed figures by name, such as ``i2t.r1``."""
        pairs = zip(self.block.columns, self.row.published, strict=True)
        return {name: value for name, value in pairs if value is not None}


def names() -> list[str]:
    files = [path.stem for path in FOLDER.glob("*.yaml") if not path.stem.startswith("_")]
    return sorted([*files, *(path.parent.name for path in FOLDER.glob("*/paper.yaml"))])


@cache
def common() -> Common:
    return _validated(Common, read_document(FOLDER / "_common.yaml"), "_common.yaml")


@cache
def load(paper: str) -> Paper:
    """A paper of the package by name. Raises UsageError with the near miss, ParamsError when its file is not as it should be."""
    if paper not in names():
        known = names()
        raise UsageError(unknown("paper", paper, known))
    path = FOLDER / f"{paper}.yaml"
    return read(path if path.is_file() else FOLDER / paper)


def read(path: Path) -> Paper:
    """A paper from its file, or from a folder with paper.yaml and further files of ``blocks``.

    Raises ParamsError with every problem found: an unknown key, a wrong type, an id given twice, a name that leads nowhere.
    """
    document = read_document(path if path.is_file() else path / "paper.yaml")
    further = [] if path.is_file() else sorted(set(path.glob("*.yaml")) - {path / "paper.yaml"})
    blocks = [block for part in further for block in read_document(part)["blocks"]]
    paper = _validated(Paper, {**document, "blocks": [*document.get("blocks", []), *blocks]}, path.name)
    problems = list(_problems(paper))
    if problems:
        raise ParamsError([f"{path.name} {problem}" for problem in problems])
    return paper


def entries(paper: str) -> list[Entry]:
    """Every row of ``paper`` with its variants, in the order of the file."""
    content = load(paper)
    return [
        _entry(paper, content, row, block, variant)
        for block in content.blocks
        for row in block.rows
        for variant in (None, *variants(row, block))
    ]


def find(paper: str, row: str) -> Entry:
    """The row ``2.12``, or a variant of one, ``1.3:code``. Raises UsageError with the near miss."""
    found = {entry.id: entry for entry in entries(paper)}
    if row not in found:
        told = f"`vse-pipe papers {paper}` lists them"
        raise UsageError(missing(f"{paper} has no row '{row}'", row, found, told))
    return found[row]


def located(marker: str) -> Entry:
    """The row that ``runs.<name>.row`` names, ``hal-aaai2020 2.12``. Raises UsageError."""
    paper, separator, row = marker.partition(" ")
    if not separator or not row:
        raise UsageError(f"row {marker!r}: expected a paper and a row, for example hal-aaai2020 2.12")
    return find(paper, row.strip())


def variants(row: Row, block: Block) -> dict[str, list[str]]:
    """Names of the row's variants, and the settings each adds."""
    return {} if row.quoted else {**block.variants, **row.variants}


def _entry(paper: str, content: Paper, row: Row, block: Block, variant: str | None) -> Entry:
    name = row.id if variant is None else f"{row.id}:{variant}"
    if row.quoted:
        return Entry(paper, name, row, block, None)
    trained, its_block = _trained(content, row, block)
    added = [] if variant is None else variants(row, block).get(variant, [])
    chosen = [*its_block.settings, *trained.settings, *added]
    known = {**common().settings, **content.settings}
    base = Settings(dataset=its_block.dataset)
    return Entry(paper, name, row, block, settings.merged([base, *(known[one] for one in chosen)]))


def _trained(content: Paper, row: Row, block: Block) -> tuple[Row, Block]:
    if row.trains is None:
        return row, block
    return next((other, place) for place in content.blocks for other in place.rows if other.id == row.trains)


def _problems(paper: Paper):
    rows = [(row, block) for block in paper.blocks for row in block.rows]
    ids = [row.id for row, _ in rows]
    known = {*common().settings, *paper.settings}
    yield from (f"row {one}: id given twice" for one in sorted({one for one in ids if ids.count(one) > 1}))
    yield from (f"settings.{name}: also in _common.yaml" for name in set(common().settings) & set(paper.settings))
    for block in paper.blocks:
        added = [one for names in block.variants.values() for one in names]
        places = [("a block of table " + block.table, [*block.settings, *added])]
        for row in block.rows:
            places += [(f"row {row.id}", [*row.settings, *(one for names in row.variants.values() for one in names)])]
        for place, names in places:
            yield from (f"{place}: unknown settings '{name}'" for name in names if name not in known)
        if block.dataset not in common().datasets:
            yield f"a block of table {block.table}: unknown data set '{block.dataset}'"
    for row, _ in rows:
        if row.assumed and row.assumed not in paper.remarks:
            yield f"row {row.id}: unknown remark '{row.assumed}'"
        if row.trains is not None and row.trains not in ids:
            yield f"row {row.id}: trains unknown row '{row.trains}'"
        if not row.quoted and not row.trains and not row.settings:
            yield f"row {row.id}: neither quoted nor with settings"


def _validated(model: type[Model], content: dict, name: str) -> Model:
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise ParamsError(
            [f"{name} {'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
        ) from error
