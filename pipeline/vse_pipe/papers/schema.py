"""What a paper's file may hold: its tables row by row, and the settings its own rows were trained with."""

from typing import Annotated, Literal, Self, get_args

from pydantic import Field, StringConstraints, model_validator

from vse_pipe.core.strict import Strict

Key = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+-]*$")]
Figure = Literal[
    "i2t.r1",
    "i2t.r5",
    "i2t.r10",
    "i2t.medr",
    "i2t.meanr",
    "t2i.r1",
    "t2i.r5",
    "t2i.r10",
    "t2i.medr",
    "t2i.meanr",
    "rsum",
    "hs_sum",
    "phrase.r1",
    "phrase.r5",
    "phrase.r10",
    "phrase.map",
]
RECALLS = tuple(f"{way}.r{k}" for way in ("i2t", "t2i") for k in (1, 5, 10))
# Which of the test images are ranked: all of a small or of COCO's test set, its first thousand, the mean over its five folds.
Protocol = Literal["1k", "5k", "c1", "c2", "phrases"]
MemberKey = Literal["loss", "scheme", "similarity", "text", "image", "sampler"]
MEMBERS: tuple[MemberKey, ...] = get_args(MemberKey)


class Settings(Strict):
    """Part of what a run is made of. A row merges those it names, later ones on top of earlier ones.

    dataset: a name under ``datasets`` of _common.yaml. features, texts, noise: nodes of params.yaml without their data set,
    with the ``name`` they get there; each replaces an earlier one whole. The members name themselves, their values stand
    in ``options``, keyed as in ``runs.<name>.options``; a new member drops the values of the one it replaces. train: values
    of ``runs.<name>.train``; inference: values of criteria. null in these takes an earlier value back.
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
    """One line of a table.

    id: as the paper numbers it, or one made up that stays; published: the figures in the order of the block's columns, null
    where none is printed; settings: on top of the block's. quoted: figures of other people's work, with nothing to run.
    also: further tables that repeat the row. trains: the row whose model this one ranks under ``inference``. variants: further
    settings by name, for ``<id>:<name>``. assumed: the remark on what the paper leaves open and how it is filled;
    note: anything else a reader must know. printed_rsum_differs: the sum of the six recalls, where the printed rsum is more than 0.3 away from it.
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

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        if self.quoted and (self.settings or self.trains or self.variants):
            raise ValueError("a quoted row has neither settings nor variants, and trains nothing")
        if self.trains and self.settings:
            raise ValueError(f"the settings are those of row {self.trains}, which it trains")
        return self


class Block(Strict):
    """Rows of one printed table that share data set, protocol and settings. title: what sets the block apart in its table;
    variants: of each of its rows that is not quoted."""

    table: str
    title: str = ""
    dataset: str
    protocol: Protocol
    columns: Annotated[list[Figure], Field(min_length=1)]
    settings: list[str] = Field(default_factory=list)
    variants: dict[Key, list[str]] = Field(default_factory=dict)
    rows: Annotated[list[Row], Field(min_length=1)]

    @model_validator(mode="after")
    def _a_figure_a_column(self) -> Self:
        for row in self.rows:
            if len(row.published) != len(self.columns):
                raise ValueError(
                    f"row {row.id}: {len(row.published)} figures for the {len(self.columns)} columns of table {self.table}"
                )
        return self


class Paper(Strict):
    """One file. settings: by name, besides those of _common.yaml; remarks: what several rows assume, by name; notes: where
    paper and authors' code disagree, and what else holds for the whole paper."""

    title: str
    authors: str
    venue: str
    notes: list[str] = Field(default_factory=list)
    remarks: dict[Key, str] = Field(default_factory=dict)
    settings: dict[Key, Settings] = Field(default_factory=dict)
    blocks: Annotated[list[Block], Field(min_length=1)]


class Common(Strict):
    """_common.yaml: the data sets and settings that several papers share. datasets: nodes of params.yaml by name."""

    datasets: dict[Key, dict]
    settings: dict[Key, Settings]
