"""Parquet files with a row for each image: its bytes, plain or as on the Hugging Face hub, and its captions."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from vse_pipe.core.console import track
from vse_pipe.core.errors import Damage, InputError
from vse_pipe.core.tables import open_parquet
from vse_pipe.pictures.address import Cell
from vse_pipe.prepare.formats.options import ParquetOptions as Params
from vse_pipe.prepare.shards import Assembly, drawn, files
from vse_pipe.prepare.source import Source, caption_text, split_of


def read(source: Path, out: Path, params: Params, seed: int) -> Source:
    """source: the folder of the files. ``file`` is the address of a cell, read in place. Ids of images are those of
    ``image_id``, else running numbers; captions have running numbers.

    Raises InputError naming file and row for a damaged file, a column that is missing or of another type, a missing or
    empty caption, an unknown split."""
    root, listed = files(source, params, ".parquet")
    assembly = Assembly(root, out)
    for path, split in track(iter(listed), len(listed), "reading Parquet files"):
        name = path.relative_to(root).as_posix()
        for row, (texts, split_name, image_id) in enumerate(_rows(path, params)):
            where = f"{path} row {row}"
            address = str(Cell(name, row, params.image))
            if params.split is not None:
                chosen = split_of(split_name, where)
            else:
                chosen = drawn(params, address, seed) if split == "train" else split
            assembly.add(address, chosen, f"{path.name} row {row}", _captions(texts, params.caption, where))
            if params.image_id is not None:
                if image_id is None:
                    raise InputError(f"{where}: column '{params.image_id}' has no id; give every image one")
                assembly.name(image_id, where)
    return assembly.source()


def _rows(path: Path, params: Params) -> Iterator[tuple[Any, Any, Any]]:
    """Yield caption or captions, split and id of each row; the images are not read."""
    with open_parquet(path, Damage(InputError, "copy it again")) as file:
        _check(path, file.schema, params)
        if not file.metadata.num_rows:
            raise InputError(f"{path}: holds no rows")
        optional = [params.split, params.image_id]
        for batch in file.batches([params.caption, *filter(None, optional)]):
            with file.named():  # bytes that are no text
                columns = [batch[name].to_pylist() if name else [None] * len(batch) for name in optional]
                texts = batch[params.caption].to_pylist()
            yield from zip(texts, *columns, strict=True)


def _check(path: Path, schema: pa.Schema, params: Params) -> None:
    checks = {params.image: _holds_bytes, params.caption: _holds_texts}
    checks |= {params.split: _is_text} if params.split else {}
    checks |= {params.image_id: _is_id} if params.image_id else {}
    for name, fits in checks.items():
        if name not in schema.names:
            raise InputError(f"{path}: has no column '{name}'; it has {', '.join(schema.names)}")
        if not fits(schema.field(name).type):
            raise InputError(f"{path}: column '{name}' is {schema.field(name).type}, expected {fits.__doc__}")


def _holds_bytes(kind: pa.DataType) -> bool:
    """binary, or a struct whose field 'bytes' is"""
    if pa.types.is_struct(kind):
        place = kind.get_field_index("bytes")
        return place >= 0 and _holds_bytes(kind.field(place).type)
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind)


def _holds_texts(kind: pa.DataType) -> bool:
    """string, or a list of strings"""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _is_text(kind.value_type)
    return _is_text(kind)


def _is_text(kind: pa.DataType) -> bool:
    """string"""
    if pa.types.is_dictionary(kind):
        return _is_text(kind.value_type)
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _is_id(kind: pa.DataType) -> bool:
    """string, or a signed integer"""
    return _is_text(kind) or pa.types.is_signed_integer(kind)


def _captions(value: Any, column: str, where: str) -> list[str]:
    texts = value if isinstance(value, list) else [value]
    if not texts or any(text is None for text in texts):
        raise InputError(f"{where}: column '{column}' has no caption; write one or remove the row")
    return [caption_text(text, where) for text in texts]
