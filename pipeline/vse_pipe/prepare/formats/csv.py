"""A table ``image,caption[,split]``, optionally with ``image_id`` and ``caption_id``; RFC 4180, UTF-8."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from vse_pipe.artifacts.names import TextIds
from vse_pipe.core.errors import InputError
from vse_pipe.core.text import shown_id
from vse_pipe.prepare import source as sources
from vse_pipe.prepare.formats.options import CsvOptions as Params
from vse_pipe.prepare.scan import scan

_REQUIRED, _OPTIONAL = ("image", "caption"), ("split", "image_id", "caption_id")


def read(source: Path, out: Path, params: Params, seed: int) -> sources.Source:
    """source: the table. Rows of an image need not be adjacent; images keep the order of their first rows.

    image_id and caption_id are the columns of these names, numbers or text, else running numbers. Cells stay unchanged,
    so ``NA`` and ``null`` are captions. Without a split column the split of an image is a hash of the seed and its
    name, so it does not change when images are added. Raises InputError with the row, counted as in a spreadsheet (the
    header is row 1), for a malformed or empty cell, an unknown split, an image in two splits or with two ids, a
    repeated id."""
    places, rows = _rows(sources.existing(source))
    numbers: dict[str, int] = {}
    first_rows: list[int] = []  # of each image
    splits: list[str] = []
    image_ids: list[int] = []
    for at, cells in enumerate(rows):
        where, image = f"{source} row {places[at]}", sources.file_name(cells["image"])
        sources.caption_text(cells["caption"], where)
        cell = cells.get("split")
        number = numbers.setdefault(image, len(numbers))
        if number == len(splits):
            # Drawn by the name as written, so that the split of existing data sets stays when names are normalised.
            drawn = sources.drawn_split(cells["image"], params.val, params.test, seed)
            splits.append(drawn if cell is None else sources.split_of(cell, where))
            first_rows.append(at)
        elif cell is not None and splits[number] != (split := sources.split_of(cell, where)):
            raise InputError(
                f"{where}: image '{image}' is in split {split} here, but in {splits[number]} in row {places[first_rows[number]]}"
            )
        if cells.get("image_id") != (first_row := rows[first_rows[number]]).get("image_id"):
            raise InputError(
                f"{where}: image '{image}' has image_id {shown_id(cells['image_id'])} here, but {shown_id(first_row['image_id'])} in row {places[first_rows[number]]}"
            )
        image_ids.append(number)
    root = source.parent / params.images
    scanned = scan(root, list(numbers), lambda number: f"{source.name} row {places[first_rows[number]]}")
    keys, named = _ids(source, rows, places, "image_id", first_rows)
    ids, called = _ids(source, rows, places, "caption_id", range(len(rows)))
    images = sources.image_table(keys, list(numbers), splits, scanned.widths, scanned.heights, scanned.digests)
    texts = [cells["caption"] for cells in rows]
    captions = sources.caption_table(ids, [keys[i] for i in image_ids], texts, [splits[i] for i in image_ids])
    names = TextIds.from_columns(**named, **called) if named or called else None
    return sources.Source(images, captions, str(root), scanned.broken, names=names)


def _ids(
    source: Path, rows: list[dict[str, str]], places: list[int], key: str, at: Sequence[int]
) -> tuple[list[int], dict]:
    """``numbered`` for the cells in the rows ``at``, or running numbers without the column. places: numbers of rows."""
    if key not in rows[0]:
        return list(range(len(at))), {}
    return sources.numbered([rows[row][key] for row in at], key, lambda place: f"{source} row {places[at[place]]}")


def _rows(source: Path) -> tuple[list[int], list[dict[str, str]]]:
    """The number of each row, and its cells by columns. Blank lines are no rows, but are counted."""
    # newline="": the csv module splits rows, so that a quoted line break stays in its caption.
    reader = csv.reader(io.StringIO(sources.read_text(source), newline=""), strict=True)
    try:
        header = next(reader, [])
        _check(header, source)
        places, rows = [], []
        for number, cells in enumerate(reader, start=2):
            if not any(cell.strip() for cell in cells) and len(cells) < 2:
                continue
            if len(cells) != len(header):
                raise InputError(
                    f"{source} row {number}: expected {len(header)} cells ({','.join(header)}), found {len(cells)}"
                )
            places.append(number)
            rows.append(dict(zip(header, cells, strict=True)))
    except csv.Error as error:
        raise InputError(f"{source} line {reader.line_num}: {error}; quote cells as RFC 4180 does") from error
    if not rows:
        raise InputError(f"{source}: no rows below the header")
    return places, rows


def _check(header: list[str], source: Path) -> None:
    allowed = (*_REQUIRED, *_OPTIONAL)
    if len(set(header)) != len(header) or not set(_REQUIRED) <= set(header) <= set(allowed):
        raise InputError(
            f"{source} row 1: expected the columns image,caption or image,caption,split, and image_id or caption_id if you have them; found {','.join(header)!r}"
        )
