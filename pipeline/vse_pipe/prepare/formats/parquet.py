"""Parquet files with a row for each image: its bytes, plain or as on the Hugging Face hub, or its file's name, and its
captions."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from vse_pipe.core.console import track
from vse_pipe.core.errors import InputError
from vse_pipe.core.tables import open_parquet
from vse_pipe.pictures.address import Cell
from vse_pipe.prepare.assembly import Assembly
from vse_pipe.prepare.captions import FIELDS, CaptionCells
from vse_pipe.prepare.formats.options import ParquetOptions as Params
from vse_pipe.prepare.picture_columns import DAMAGE, below, is_text, listed, names_column
from vse_pipe.prepare.shards import drawn, files
from vse_pipe.prepare.source import Source, split_of
from vse_pipe.prepare.tables import caption_columns

# Captions, split, id and file of a row; the last is None where the row holds the bytes.
Found = tuple[Any, Any, Any, str | None]


def read(source: Path, out: Path, params: Params, seed: int) -> Source:
    """source: the folder of the files. ``file`` is the address of a cell, read in place, or the name of the picture
    where the column has only names. Ids of images are those of ``image_id``, else running numbers; captions have
    running numbers. A file without rows is left out.

    Raises InputError naming file and row for a damaged file, a column that is missing or of another type, an unknown
    split, a picture outside of ``source``."""
    root, paths = files(source, params, ".parquet")
    assembly, cells = Assembly(root, out, in_shards=True), CaptionCells(params.separator)
    for path, split in track(iter(paths), len(paths), "reading Parquet files"):
        name, count = path.relative_to(root).as_posix(), assembly.count
        for row, (texts, split_name, image_id, file) in enumerate(_rows(root, path, params)):
            where = f"{path} row {row}"
            if file == "":
                assembly.left_out.append(f"{where}: names no picture")
                continue
            address = file or str(Cell(name, row, params.image))
            if params.split is not None:
                chosen = split_of(split_name or "", where)
            else:
                chosen = drawn(params, address, seed) if split == "train" else split
            key = None if params.image_id is None else _whole(image_id, params.image_id, where)
            image = assembly.image(address, chosen, f"{path.name} row {row}", key)
            for text in cells.captions(texts, where):
                assembly.caption(image, text, chosen)
        if assembly.count == count:
            assembly.left_out.append(f"{path}: holds no rows")
    cells.tell(source)
    return assembly.source()


def _rows(root: Path, path: Path, params: Params) -> Iterator[Found]:
    """Yield the rows; the bytes of images are not read."""
    with open_parquet(path, DAMAGE) as file:
        texts = _checked(path, file.schema, params)
        names = names_column(root, file, params.image)
        single = [params.split, params.image_id, names]
        for batch in file.batches([*texts, *filter(None, single)]):
            with file.named():  # bytes that are no text
                caption_lists = [batch[name].to_pylist() for name in texts]
                columns = [listed(batch, name) for name in single]
            captions = caption_lists[0] if len(texts) == 1 else map(list, zip(*caption_lists, strict=True))
            for row, (value, split, image_id, picture) in enumerate(zip(captions, *columns, strict=True)):
                yield value, split, image_id, below(root, picture, f"{path} row {row}") if names else None


def _checked(path: Path, schema: pa.Schema, params: Params) -> list[str]:
    """The columns of captions. Raises InputError for a column that is missing or of another type."""
    texts = caption_columns(schema.names, params.caption)
    expected = params.caption if isinstance(params.caption, list) else [params.caption]
    checks = dict.fromkeys(texts or expected, _holds_texts) | {params.image: _holds_picture}
    checks |= {params.split: is_text} if params.split else {}
    checks |= {params.image_id: _is_id} if params.image_id else {}
    for name, fits in checks.items():
        if name not in schema.names:
            raise InputError(f"{path}: has no column '{name}'; it has {', '.join(schema.names)}")
        if not fits(schema.field(name).type):
            raise InputError(f"{path}: column '{name}' is {schema.field(name).type}, expected {fits.__doc__}")
    return texts


def _holds_picture(kind: pa.DataType) -> bool:
    """binary, the file's name, or a struct whose field 'bytes' is binary"""
    return is_text(kind) or _holds_bytes(kind)


def _holds_bytes(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        place = kind.get_field_index("bytes")
        return place >= 0 and _holds_bytes(kind.field(place).type)
    return (
        pa.types.is_null(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_binary_view(kind)
    )


def _holds_texts(kind: pa.DataType) -> bool:
    """string, a list of strings, or a struct with a field 'raw', 'caption' or 'text' of these"""
    if hasattr(kind, "value_type") and not pa.types.is_dictionary(kind):
        return _holds_texts(kind.value_type)
    if pa.types.is_struct(kind):
        name = next((name for name in FIELDS if kind.get_field_index(name) >= 0), None)
        return name is not None and _holds_texts(kind.field(name).type)
    return is_text(kind)


def _is_id(kind: pa.DataType) -> bool:
    """string, or whole numbers"""
    return is_text(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)


def _whole(value: Any, column: str, where: str) -> int | str:
    """The id. Raises InputError for null, and for a number that is not whole or beyond 63 bits."""
    if value is None:
        raise InputError(f"{where}: column '{column}' has no id; give every image one")
    number = int(value) if isinstance(value, float) and value.is_integer() else value
    if isinstance(number, float) or (isinstance(number, int) and number >= 2**63):
        raise InputError(f"{where}: column '{column}' holds {value}, no whole number of 64 bits; write it as text")
    return number
