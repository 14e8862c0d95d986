"""Rows of a table, and the images they name."""

import csv
import io
from pathlib import Path

from pipeline.core.errors import InputError
from pipeline.prepare.engine.scan import scan
from pipeline.prepare.engine.source import (
    Source,
    caption_table,
    caption_text,
    drawn_split,
    existing,
    image_table,
    read_text,
    split_of,
)
from pipeline.prepare.formats.csv import Params

_REQUIRED, _OPTIONAL = ("image", "caption"), ("split",)


def read(source: Path, out: Path, params: Params, seed: int) -> Source:
    """source: the table. Rows of one image need not be adjacent; images keep the order of their first rows.

    image_id and caption_id are running numbers. Cells are kept as they are: ``NA`` and ``null`` are captions like any
    other. Without a split column an image's split comes from a hash of the seed and its name, so that it does not
    change when other images are added. Raises InputError with the row, counted as a spreadsheet does (the header is
    row 1): a malformed or empty cell, an unknown split, an image in two splits.
    """
    rows = _rows(existing(source))
    numbers: dict[str, int] = {}
    first_rows: list[int] = []
    splits: list[str] = []
    image_ids: list[int] = []
    for row, (image, caption, split) in enumerate(rows, start=2):
        where = f"{source} row {row}"
        caption_text(caption, where)
        split = drawn_split(image, params.val, params.test, seed) if split is None else split_of(split, where)
        number = numbers.setdefault(image, len(numbers))
        if number == len(splits):
            splits.append(split)
            first_rows.append(row)
        elif splits[number] != split:
            raise InputError(
                f"{where}: image '{image}' is in split {split} here, but in {splits[number]} in row {first_rows[number]}"
            )
        image_ids.append(number)
    root = source.parent / params.images
    scanned = scan(root, list(numbers), lambda number: f"{source.name} row {first_rows[number]}")
    images = image_table(range(len(numbers)), list(numbers), splits, scanned.widths, scanned.heights, scanned.digests)
    texts = [caption for _, caption, _ in rows]
    captions = caption_table(range(len(rows)), image_ids, texts, [splits[i] for i in image_ids])
    return Source(images, captions, str(root), scanned.broken)


def _rows(source: Path) -> list[tuple[str, str, str | None]]:
    """(image, caption, split or None) a row."""
    # newline="": the csv module itself cuts rows, so that a quoted line break stays in its caption.
    reader = csv.reader(io.StringIO(read_text(source), newline=""), strict=True)
    try:
        header = next(reader, [])
        image, caption, split = _columns(header, source)
        rows = []
        for number, cells in enumerate(reader, start=2):
            if len(cells) != len(header):
                raise InputError(
                    f"{source} row {number}: expected {len(header)} cells ({','.join(header)}), found {len(cells)}"
                )
            rows.append((cells[image], cells[caption], None if split is None else cells[split]))
    except csv.Error as error:
        raise InputError(f"{source} line {reader.line_num}: {error}; quote cells as RFC 4180 does") from error
    if not rows:
        raise InputError(f"{source}: no rows below the header")
    return rows


def _columns(header: list[str], source: Path) -> tuple[int, int, int | None]:
    """Where image, caption and split stand; None for an absent split."""
    known = (*_REQUIRED, *_OPTIONAL)
    if len(set(header)) != len(header) or not set(_REQUIRED) <= set(header) <= set(known):
        raise InputError(
            f"{source} row 1: expected the columns image,caption or image,caption,split; found {','.join(header)!r}"
        )
    image, caption = map(header.index, _REQUIRED)
    return image, caption, header.index("split") if "split" in header else None
