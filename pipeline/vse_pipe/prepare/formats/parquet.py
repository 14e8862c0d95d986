"""Parquet files with a row for each image: its bytes, plain or as on the Hugging Face hub, or its
file's name, and its captions."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.core.console import track
from vse_pipe.core.errors import InputError
from vse_pipe.core.files import is_remote
from vse_pipe.core.tables import Parquet, open_parquet
from vse_pipe.pictures.address import Cell
from vse_pipe.prepare.assembly import Assembly
from vse_pipe.prepare.captions import cell_captions
from vse_pipe.prepare.formats.options import ParquetOptions as Params
from vse_pipe.prepare.shards import files
from vse_pipe.prepare.source import Source, file_name, split_of
from vse_pipe.prepare.tables import caption_columns


def read(source: Path, out: Path, params: Params, seed: int) -> Source:
    """source: the folder of the files. ``file`` is the address of a cell, read in place, or the
    name of the picture where the column has only names. Ids of images are those of ``image_id``,
    else running numbers; captions have running numbers.

    Raises InputError naming file and row for a damaged file, a column that is missing or of another
    type, an unknown split, a picture outside of ``source``."""
    root, paths = files(source, params, ".parquet")
    assembly = Assembly(root, in_shards=True)
    for path, split in track(iter(paths), len(paths), "reading Parquet files"):
        name = path.relative_to(root).as_posix()
        with open_parquet(path, InputError) as file:
            for row, about in enumerate(_rows(root, file, params)):
                where = f"{path} row {row}"
                if about["file"] == "":
                    assembly.left_out.append(f"{where}: names no picture")
                    continue
                address = about["file"] or str(Cell(name, row, params.image))
                if params.split is not None:
                    chosen = split_of(about["split"] or "", where)
                else:
                    chosen = params.drawn(address, seed) if split == "train" else split
                key = None if params.image_id is None else _id(about["image_id"], params.image_id, where)
                image = assembly.image(address, chosen, f"{path.name} row {row}", key)
                for text in cell_captions(about["captions"], where, params.separator):
                    assembly.caption(image, text)
    return assembly.source()


def _rows(root: Path, file: Parquet, params: Params) -> Iterator[dict[str, Any]]:
    """Yield captions, split, image_id and, where the column has names, file of the rows; the bytes
    of images are not read."""
    texts = caption_columns(file.schema.names, params.caption)
    expected = texts or ([params.caption] if isinstance(params.caption, str) else params.caption)
    for name in (params.image, *expected, *filter(None, (params.split, params.image_id))):
        if name not in file.schema.names:
            raise InputError(f"{file.path}: has no column '{name}'; it has {', '.join(file.schema.names)}")
    names = _names_column(root, file, params.image)
    single = {"split": params.split, "image_id": params.image_id}
    for batch in file.batches([*texts, *filter(None, [*single.values(), names])]):
        nothing = [None] * len(batch)
        with file.named():  # bytes that are no text
            captions = zip(*(batch[name].to_pylist() for name in texts), strict=True)
            columns = [batch[name].to_pylist() if name else nothing for name in single.values()]
            pictures = list(_names(root, file.path, batch[params.image])) if names else nothing
        for values in zip(map(list, captions), *columns, pictures, strict=True):
            yield dict(zip(("captions", *single, "file"), values, strict=True))


def _names_column(root: Path, file: Parquet, image: str) -> str | None:
    """The column of the pictures' names, ``image`` or ``image.path``; None where it holds bytes:
    the first row has some, or names no file. Raises InputError for a column of another type."""
    kind = file.schema.field(image).type
    if _is_text(kind):
        return image
    fields = {field.name: field.type for field in kind} if pa.types.is_struct(kind) else {"bytes": kind}
    if "bytes" not in fields or not _is_binary(fields["bytes"]):
        raise InputError(f"{file.path}: column '{image}' is {kind}, expected bytes, names, or structs with 'bytes'")
    if "path" not in fields or is_remote(root):
        return None
    first = next((batch[image][0].as_py() for batch in file.batches([image], rows=1)), None) or {}
    has_file = first.get("bytes") is None and first.get("path") and (root / first["path"]).is_file()
    return f"{image}.path" if has_file else None


def _names(root: Path, path: Path, column: pa.ChunkedArray) -> Iterator[str]:
    """The names relative to the root; "" for null. Raises InputError for one outside of it."""
    roots = (root.absolute(), root.resolve())
    for name in (pc.struct_field(column, "path") if pa.types.is_struct(column.type) else column).to_pylist():
        place = Path(name or "")
        if place.is_absolute():
            base = next((base for base in roots if place.is_relative_to(base)), None)
            if base is None:
                raise InputError(f"{path}: picture {name} lies outside of {root}; let `source` be a folder above both")
            name = str(place.relative_to(base))
        yield file_name(name or "")


def _is_text(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _is_binary(kind: pa.DataType) -> bool:
    is_view = pa.types.is_binary_view(kind) or pa.types.is_null(kind)
    return is_view or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)


def _id(value: Any, column: str, where: str) -> int | str:
    """The id. Raises InputError for null, and for a number that is not whole or beyond 63 bits."""
    number = int(value) if isinstance(value, float) and value.is_integer() else value
    if isinstance(number, str) or (isinstance(number, int) and number < 2**63):
        return number
    raise InputError(f"{where}: column '{column}' holds {str(value)[:40]}, no text and no whole number of 64 bits")
