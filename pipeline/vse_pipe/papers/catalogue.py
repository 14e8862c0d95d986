"""Published results: the tables of a paper row by row, and the settings of its trained rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import Field, StringConstraints

from vse_pipe.core.errors import UsageError, missing, unknown
from vse_pipe.core.strict import Strict
from vse_pipe.project.params.document import read_document
from vse_pipe.project.params.load import validated

Key = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+-]*$")]
_ImageFigure = Literal["i2t.r1", "i2t.r5", "i2t.r10", "i2t.medr", "i2t.meanr"]
_TextFigure = Literal["t2i.r1", "t2i.r5", "t2i.r10", "t2i.medr", "t2i.meanr"]
_PhraseFigure = Literal["phrase.r1", "phrase.r5", "phrase.r10", "phrase.map"]
Figure = Literal[_ImageFigure, _TextFigure, "rsum", "hs_sum", _PhraseFigure]
RECALLS = tuple(f"{way}.r{k}" for way in ("i2t", "t2i") for k in (1, 5, 10))
# The ranked test images: all of a small set or of COCO's, its first thousand, or its five folds.
Protocol = Literal["1k", "5k", "c1", "c2", "phrases"]
MemberKey = Literal["loss", "scheme", "similarity", "text", "image", "sampler"]
MEMBERS: tuple[MemberKey, ...] = get_args(MemberKey)


class Settings(Strict):
    """Some parameters of a run. A row merges its settings; later ones override earlier ones.

    dataset: a name under ``datasets`` of _common.yaml. features, texts, noise: nodes of params.yaml
    with their ``name`` and without data set; each replaces an earlier one completely. Members are
    given by name, with values in ``options`` as in ``runs.<name>.options``; a new member drops the
    values of the old one. train: values of ``runs.<name>.train``; inference: values of criteria.
    null in these removes an earlier value.
    """

    dataset: str | None = None
    features: dict | None = None
    texts: dict | None = None
    noise: dict | None = None
    loss: str | None = None
    scheme: str | None = None
    similarity: str | None = None
    text: str | None = None
    image: str | None = None
    sampler: str | None = None
    options: dict[MemberKey, dict] = Field(default_factory=dict)
    train: dict = Field(default_factory=dict)
    inference: dict[str, dict] = Field(default_factory=dict)


class Row(Strict):
    """A row of a table.

    id: the paper's number, or a fixed one of ours; published: the figures in the order of the
    block's columns, null for missing ones; settings: added to the block's. quoted: results of other
    people's work, with nothing to run. also: further tables with the row. trains: the row whose
    model this one ranks under ``inference``. variants: further settings by name, for
    ``<id>:<name>``. assumed: the remark on settings that the paper leaves open; note: for readers.
    printed_rsum_differs: the sum of the six recalls, if it differs from the printed rsum by more
    than 0.3.
    """

    id: Key
    method: str
    published: list[Annotated[float, Field(ge=0)] | None]
    settings: list[str] = Field(default_factory=list)
    quoted: bool = False
    also: list[str] = Field(default_factory=list)
    trains: str | None = None
    inference: str = "nns"
    variants: dict[Key, list[str]] = Field(default_factory=dict)
    assumed: str = ""
    note: str = ""
    printed_rsum_differs: float | None = None


class Block(Strict):
    """Rows of a printed table with the same settings. title: of the block; variants: of each row."""

    table: str
    title: str = ""
    dataset: str
    protocol: Protocol
    columns: Annotated[list[Figure], Field(min_length=1)]
    settings: list[str] = Field(default_factory=list)
    variants: dict[Key, list[str]] = Field(default_factory=dict)
    rows: Annotated[list[Row], Field(min_length=1)]


class Paper(Strict):
    """A paper's file. settings: by name, besides those of _common.yaml; remarks: assumptions of
    several rows, by name; notes: on the paper, such as differences from the authors' code."""

    title: str
    authors: str
    venue: str
    notes: list[str] = Field(default_factory=list)
    remarks: dict[Key, str] = Field(default_factory=dict)
    settings: dict[Key, Settings] = Field(default_factory=dict)
    blocks: Annotated[list[Block], Field(min_length=1)]


class Common(Strict):
    """_common.yaml: data sets and settings of several papers. datasets: nodes of params.yaml."""

    datasets: dict[Key, dict]
    settings: dict[Key, Settings]


_NODES = ("dataset", "features", "texts", "noise")


def merged(layers: Sequence[Settings]) -> Settings:
    """The merged settings; later layers win. A new member drops old options, null a value."""
    values: dict = {"options": {}, "train": {}, "inference": {}}
    for layer in layers:
        for name in (*_NODES, *MEMBERS):
            chosen = getattr(layer, name)
            if chosen is not None:
                if name in MEMBERS and chosen != values.get(name):
                    values["options"].pop(name, None)
                values[name] = chosen
        for key in ("options", "inference"):
            for name, options in getattr(layer, key).items():
                values[key][name] = _on_top(values[key].get(name, {}), options)
        values["train"] = _on_top(values["train"], layer.train)
    return Settings(**values)


def _on_top(below: dict, above: dict) -> dict:
    return {name: value for name, value in {**below, **above}.items() if value is not None}


FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Entry:
    """A row or variant. id: with ``:<variant>``; settings: merged, None for a quoted row."""

    paper: str
    id: str
    row: Row
    block: Block
    settings: Settings | None

    @property
    def marker(self) -> str:
        """The value of ``runs.<name>.row``: paper and id of the row that trains the model."""
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
    return validated(Common, read_document(FOLDER / "_common.yaml"), "_common.yaml")


@cache
def load(paper: str) -> Paper:
    """A packaged paper by name. Raises UsageError for no name, ParamsError for a wrong file."""
    if paper not in names():
        raise UsageError(unknown("paper", paper, names()))
    path = FOLDER / f"{paper}.yaml"
    return read(path if path.is_file() else FOLDER / paper)


def read(path: Path) -> Paper:
    """A paper from its file, or a folder with files of ``blocks``. Raises ParamsError."""
    document = read_document(path if path.is_file() else path / "paper.yaml")
    further = [] if path.is_file() else sorted(set(path.glob("*.yaml")) - {path / "paper.yaml"})
    blocks = [block for part in further for block in read_document(part)["blocks"]]
    return validated(Paper, {**document, "blocks": [*document.get("blocks", []), *blocks]}, path.name)


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
    by_id = {entry.id: entry for entry in entries(paper)}
    if row not in by_id:
        raise UsageError(missing(f"{paper} has no row '{row}'", row, by_id, f"`vse-pipe papers {paper}` lists them"))
    return by_id[row]


def located(marker: str) -> Entry:
    """The row that ``runs.<name>.row`` names, ``hal-aaai2020 2.12``. Raises UsageError."""
    paper, _, row = marker.partition(" ")
    if not row:
        raise UsageError(f"row {marker!r}: expected a paper and a row, for example hal-aaai2020 2.12")
    return find(paper, row.strip())


def variants(row: Row, block: Block) -> dict[str, list[str]]:
    """Names of the row's variants, and the settings each adds."""
    return {} if row.quoted else {**block.variants, **row.variants}


def _entry(paper: str, content: Paper, row: Row, block: Block, variant: str | None) -> Entry:
    name = row.id if variant is None else f"{row.id}:{variant}"
    if row.quoted:
        return Entry(paper, name, row, block, None)
    rows = ((other, place) for place in content.blocks for other in place.rows)
    trained, its_block = (row, block) if row.trains is None else next(pair for pair in rows if pair[0].id == row.trains)
    added = [] if variant is None else variants(row, block).get(variant, [])
    chosen = [*its_block.settings, *trained.settings, *added]
    settings = {**common().settings, **content.settings}
    base = Settings(dataset=its_block.dataset)
    return Entry(paper, name, row, block, merged([base, *(settings[name] for name in chosen)]))
