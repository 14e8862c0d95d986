"""Tables of captions as text: the mark between cells, the columns, and the rows."""

import csv
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from vse_pipe.core.errors import InputError

KEYS = ("image", "caption", "split", "image_id", "caption_id")
# In the order in which they are looked for: a caption may well hold a comma.
_DELIMITERS = ("\t", "|", ";", ",")
_SAMPLE = 20
_TOKEN = re.compile(r"(.+\.\w+)#\d+")

Columns = Mapping[Any, str | int | list[str] | list[int]]


@dataclass(frozen=True, slots=True)
class TableRow:
    """number: as a spreadsheet counts; cells: one by the key of each column but the captions'."""

    number: int
    cells: dict[str, str]
    captions: list[str]


def read(path: Path, text: str, columns: Columns) -> list[TableRow]:
    """The rows of a table. text: of the file ``path``; columns: as in the options of ``csv``. Rows
    without any text are skipped; cells that a row lacks are empty.

    Raises InputError naming the row for a missing or doubtful column, a malformed cell and a row
    with too many."""
    named = {key: value if isinstance(value, list) else [value] for key, value in columns.items()}
    has_header = not any(isinstance(name, int) for names in named.values() for name in names)
    reader = _reader(text, has_header)
    try:
        header = [cell.strip() for cell in next(reader, [])] if has_header else []
        records = [record for record in enumerate(reader, 1 + has_header) if any(map(str.strip, record[1]))]
    except csv.Error as error:
        raise InputError(f"{path} line {reader.line_num}: {error}; quote cells as RFC 4180 does") from error
    places = _places(header, named, f"{path} row 1")
    if not records:
        raise InputError(f"{path}: no rows below the header")
    width = len(header) or max(len(cells) for _, cells in records)
    if (last := max(chain.from_iterable(places.values()))) >= width:
        raise InputError(f"{path}: `columns` names column {last} of {width}; the first is 0")
    return _without_numbers([_row(cells, number, places, width, path) for number, cells in records])


def caption_columns(names: list[str], caption: str | list[str]) -> list[str]:
    """The columns of captions: those of the option ``caption``, or where there is no such one,
    caption_0, caption_1 and so on. Empty where ``names`` has none of them."""
    if isinstance(caption, list):
        return caption if set(caption) <= set(names) else []
    if caption in names:
        return [caption]
    return [name for name in names if re.fullmatch(rf"{re.escape(caption)}s?_?\d+", name)]


def _reader(text: str, has_header: bool):
    """A reader of records. Programs that write bars, or tabs and no header, quote nothing."""
    lines = [line for line in text[: 2**16].splitlines()[: _SAMPLE + 1] if line.strip()]
    heads, body = (lines[:1], lines[1:]) if has_header else (lines, lines)
    mark = next((mark for mark in _DELIMITERS if all(mark in line for line in heads)), ",")
    is_plain = mark == "|" or (mark == "\t" and not has_header)
    # newline="": the csv module splits rows, so that a quoted line break stays in its caption.
    return csv.reader(
        io.StringIO(text, newline=""),
        delimiter=mark,
        skipinitialspace=bool(body) and all(line.partition(mark)[2][:1] == " " for line in body),
        quoting=csv.QUOTE_NONE if is_plain else csv.QUOTE_MINIMAL,
        strict=True,
    )


def _places(header: list[str], named: dict[str, list], where: str) -> dict[str, list[int]]:
    """The numbers of the columns of each key. named: names or numbers of columns in the options."""
    lowered = [name.lower() for name in header]
    places = {}
    for key in KEYS:
        columns = caption_columns(lowered, key) if key == "caption" else [key] * (key in lowered)
        if columns and key not in named:
            places[key] = [_place(lowered, name, where) for name in columns]
    for key, names in named.items():
        places[key] = [name if isinstance(name, int) else _place(header, name, where) for name in names]
    if not {"image", "caption"} <= set(places):
        raise InputError(
            f"{where}: expected the columns image,caption; found {','.join(header)!r}; name them, such as "
            "columns: {image: file, caption: title}, or without a header number them, columns: {image: 0, caption: 1}"
        )
    return places


def _place(header: list[str], name: str, where: str) -> int:
    if header.count(name) != 1:
        raise InputError(f"{where}: expected the column '{name}' once; found {','.join(header)!r}")
    return header.index(name)


def _row(cells: list[str], number: int, places: dict[str, list[int]], width: int, path: Path) -> TableRow:
    if any(cell.strip() for cell in cells[width:]):
        raise InputError(
            f"{path} row {number}: expected {width} cells, found {len(cells)}; quote a cell that holds the mark between cells"
        )
    cells += [""] * (width - len(cells))
    texts = [cells[place] for place in places["caption"]]
    return TableRow(number, {key: cells[place[0]] for key, place in places.items() if key != "caption"}, texts)


def _without_numbers(rows: list[TableRow]) -> list[TableRow]:
    """Flickr's token files number the captions of a picture, ``beach.jpg#0``: without these
    numbers, where all rows have one."""
    tokens = [match for row in rows if (match := _TOKEN.fullmatch(row.cells["image"]))]
    if len(tokens) == len(rows):
        for row, token in zip(rows, tokens, strict=True):
            row.cells["image"] = token[1]
    return rows
