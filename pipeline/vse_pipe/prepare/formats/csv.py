"""A table ``image,caption[,split]``, optionally with ``image_id`` and ``caption_id``; UTF-8, comma, semicolon, tab or
bar between cells."""

from collections.abc import Sequence
from pathlib import Path

from vse_pipe.artifacts.names import TextIds
from vse_pipe.core.errors import InputError
from vse_pipe.core.text import shown_id
from vse_pipe.prepare import source as sources
from vse_pipe.prepare import tables
from vse_pipe.prepare.captions import CaptionCells
from vse_pipe.prepare.formats.options import CsvOptions as Params
from vse_pipe.prepare.scan import scan
from vse_pipe.prepare.tables import TableRow


def read(source: Path, out: Path, params: Params, seed: int) -> sources.Source:
    """source: the table. Rows of an image need not be adjacent; images keep the order of their first rows.

    image_id and caption_id are the columns of these names, numbers or text, else running numbers. CaptionCells stay unchanged,
    so ``NA`` and ``null`` are captions. Without a split column the split of an image is a hash of the seed and its
    name, so it does not change when images are added. Raises InputError with the row, counted as in a spreadsheet (the
    header is row 1), for a malformed cell, an unknown split, an image in two splits or with two ids, a repeated id."""
    text = sources.read_text(sources.existing(source))
    rows, unread = tables.read(source, text, params.delimiter, params.columns)
    tables.tell_unread(source, unread)
    left_out = [f"{source} row {row.number}: names no picture" for row in rows if not row.cells["image"].strip()]
    if not (rows := [row for row in rows if row.cells["image"].strip()]):
        raise InputError(left_out[0])
    images = _Images(source, rows, params, seed)
    texts, owners = _captions(source, rows, images.numbers, params)
    root = source.parent / params.images
    firsts = [rows[at] for at in images.first_rows]
    scanned = scan(root, images.names, lambda number: f"{source.name} row {firsts[number].number}")
    keys, named = _ids(source, firsts, "image_id", len(firsts))
    ids, called = _ids(source, rows, "caption_id", len(texts))
    table = sources.image_table(keys, images.names, images.splits, scanned.widths, scanned.heights, scanned.digests)
    captions = sources.caption_table(ids, [keys[i] for i in owners], texts, [images.splits[i] for i in owners])
    names = TextIds.from_columns(**named, **called) if named or called else None
    return sources.Source(table, captions, str(root), scanned.broken, names=names, left_out=left_out)


class _Images:
    """The images of the rows. numbers: of the image of each row; names, splits, first_rows: by number."""

    def __init__(self, source: Path, rows: list[TableRow], params: Params, seed: int) -> None:
        by_name: dict[str, int] = {}
        self.first_rows: list[int] = []
        self.splits: list[str] = []
        self.numbers: list[int] = []
        for at, row in enumerate(rows):
            where, cell = f"{source} row {row.number}", row.cells.get("split")
            number = by_name.setdefault(sources.file_name(row.cells["image"]), len(by_name))
            self.numbers.append(number)
            split = None if cell is None else sources.split_of(cell, where)
            if number == len(self.splits):
                # Drawn by the name as written, so that the split of existing data sets stays when names are normalised.
                self.splits.append(split or sources.drawn_split(row.cells["image"], params.val, params.test, seed))
                self.first_rows.append(at)
            else:
                self._must_agree(row, rows[self.first_rows[number]], split, self.splits[number], where)
        self.names = list(by_name)

    @staticmethod
    def _must_agree(row: TableRow, first: TableRow, split: str | None, expected: str, where: str) -> None:
        """Raise InputError where a row gives an image another split or id than its first row."""
        image, there = sources.file_name(row.cells["image"]), f"in row {first.number}"
        if split is not None and split != expected:
            raise InputError(f"{where}: image '{image}' is in split {split} here, but in {expected} {there}")
        if (key := row.cells.get("image_id")) != (before := first.cells.get("image_id")):
            raise InputError(
                f"{where}: image '{image}' has image_id {shown_id(str(key))} here, but {shown_id(str(before))} {there}"
            )


def _captions(source: Path, rows: list[TableRow], numbers: list[int], params: Params) -> tuple[list[str], list[int]]:
    """The captions of all rows, and the number of the image of each."""
    cells, texts, owners = CaptionCells(params.separator), list[str](), list[int]()
    for row, number in zip(rows, numbers, strict=True):
        where = f"{source} row {row.number}"
        captions = cells.captions(row.captions if len(row.captions) > 1 else row.captions[0], where)
        if len(captions) > 1 and "caption_id" in row.cells:
            raise InputError(f"{where}: a caption_id for {len(captions)} captions; leave the column out")
        texts += captions
        owners += [number] * len(captions)
    cells.tell(source)
    return texts, owners


def _ids(source: Path, rows: Sequence[TableRow], key: str, count: int) -> tuple[list[int], dict]:
    """``numbered`` for the cells of the rows, or ``count`` running numbers without the column."""
    if key not in rows[0].cells:
        return list(range(count)), {}
    return sources.numbered([row.cells[key] for row in rows], key, lambda place: f"{source} row {rows[place].number}")
