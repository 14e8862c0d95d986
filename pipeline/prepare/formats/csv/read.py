"""Rows of a table, and the images they name."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from pipeline.artifacts.names import TextIds
from pipeline.core.errors import InputError
from pipeline.core.text_ids import shown
from pipeline.prepare.engine.scan import scan
from pipeline.prepare.engine.source import (
    Source,
    caption_table,
    caption_text,
    drawn_split,
    existing,
    image_table,
    numbered,
    read_text,
    split_of,
)
from pipeline.prepare.formats.csv import Params

_REQUIRED, _OPTIONAL = ("image", "caption"), ("split", "image_id", "caption_id")


def read(source: Path, out: Path, params: Params, seed: int) -> Source:
    """source: the table. Rows of one image need not be adjacent; images keep the order of their first rows.

    image_id and caption_id are those of the columns of these names, numbers or text, and running numbers without them. Cells
    are kept as they are: ``NA`` and ``null`` are captions like any other. Without a split column an image's split comes from a
    hash of the seed and its name, so that it does not change when other images are added. Raises InputError with the row,
    counted as a spreadsheet does (the header is row 1): a malformed or empty cell, an unknown split, an image in two splits
    or of two ids, an id of two images or captions.
    """
    rows = _rows(existing(source))
    numbers: dict[str, int] = {}
    first_rows: list[int] = []
    splits: list[str] = []
    image_ids: list[int] = []
    for row, cells in enumerate(rows, start=2):
        where, image = f"{source} row {row}", cells["image"]
        caption_text(cells["caption"], where)
        given = cells.get("split")
        split = drawn_split(image, params.val, params.test, seed) if given is None else split_of(given, where)
        number = numbers.setdefault(image, len(numbers))
        if number == len(splits):
            splits.append(split)
            first_rows.append(row)
        elif splits[number] != split:
            raise InputError(
                f"{where}: image '{image}' is in split {split} here, but in {splits[number]} in row {first_rows[number]}"
            )
        if cells.get("image_id") != (own := rows[first_rows[number] - 2]).get("image_id"):
            raise InputError(
                f"{where}: image '{image}' has image_id {shown(cells['image_id'])} here, but {shown(own['image_id'])} in row "
                f"{first_rows[number]}"
            )
        image_ids.append(number)
    root = source.parent / params.images
    scanned = scan(root, list(numbers), lambda number: f"{source.name} row {first_rows[number]}")
    keys, named = _ids(source, rows, "image_id", first_rows)
    ids, called = _ids(source, rows, "caption_id", range(2, len(rows) + 2))
    images = image_table(keys, list(numbers), splits, scanned.widths, scanned.heights, scanned.digests)
    texts = [cells["caption"] for cells in rows]
    captions = caption_table(ids, [keys[i] for i in image_ids], texts, [splits[i] for i in image_ids])
    names = TextIds.of(**named, **called) if named or called else None
    return Source(images, captions, str(root), scanned.broken, names=names)


def _ids(source: Path, rows: list[dict[str, str]], key: str, at: Sequence[int]) -> tuple[list[int], dict]:
    """As of ``numbered``, from the cells in the rows ``at``; running numbers without that column."""
    if key not in rows[0]:
        return list(range(len(at))), {}
    return numbered([rows[row - 2][key] for row in at], key, lambda place: f"{source} row {at[place]}")


def _rows(source: Path) -> list[dict[str, str]]:
    """Each row's cells by their columns."""
    # newline="": the csv module itself cuts rows, so that a quoted line break stays in its caption.
    reader = csv.reader(io.StringIO(read_text(source), newline=""), strict=True)
    try:
        header = next(reader, [])
        _check(header, source)
        rows = []
        for number, cells in enumerate(reader, start=2):
            if len(cells) != len(header):
                raise InputError(
                    f"{source} row {number}: expected {len(header)} cells ({','.join(header)}), found {len(cells)}"
                )
            rows.append(dict(zip(header, cells, strict=True)))
    except csv.Error as error:
        raise InputError(f"{source} line {reader.line_num}: {error}; quote cells as RFC 4180 does") from error
    if not rows:
        raise InputError(f"{source}: no rows below the header")
    return rows


def _check(header: list[str], source: Path) -> None:
    known = (*_REQUIRED, *_OPTIONAL)
    if len(set(header)) != len(header) or not set(_REQUIRED) <= set(header) <= set(known):
        raise InputError(
            f"{source} row 1: expected the columns image,caption or image,caption,split, and image_id or caption_id if you have "
            f"them; found {','.join(header)!r}"
        )
