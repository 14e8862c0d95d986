"""Parquet columns that hold the names of pictures in place of their bytes."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from vse_pipe.core.errors import Damage, InputError
from vse_pipe.core.files import is_remote
from vse_pipe.core.tables import Parquet, open_parquet
from vse_pipe.prepare.source import file_name

DAMAGE = Damage(InputError, "copy it again")


def named(root: Path, paths: list[Path], image: str) -> Iterator[str]:
    """The names of the pictures that lie beside the files."""
    for path in paths:
        with open_parquet(path, DAMAGE) as file:
            if (names := names_column(root, file, image)) is not None:
                for batch in file.batches([names]):
                    yield from (below(root, name, str(path)) for name in listed(batch, names))


def names_column(root: Path, file: Parquet, image: str) -> str | None:
    """The column of the pictures' names, ``image`` or ``image.path``; None where the first row holds bytes, or names no
    file."""
    kind = file.schema.field(image).type
    if not pa.types.is_struct(kind):
        return image if is_text(kind) else None
    if is_remote(root) or kind.get_field_index("path") < 0:
        return None
    first = file.first_row([image]).get(image) or {}
    has_file = first.get("bytes") is None and first.get("path") and (root / first["path"]).is_file()
    return f"{image}.path" if has_file else None


def listed(batch: pa.Table, name: str | None) -> list:
    """The values of a column, or of a field ``column.field``; nulls without a name."""
    if name is None:
        return [None] * len(batch)
    if name in batch.schema.names:
        return batch[name].to_pylist()
    column, _, field = name.rpartition(".")
    return [value and value[field] for value in batch[column].to_pylist()]


def below(root: Path, name: str | None, where: str) -> str:
    """The name of a picture relative to the root; "" for null. Raises InputError for one outside of it."""
    if name and Path(name).is_absolute():
        base = next((base for base in (root.absolute(), root.resolve()) if Path(name).is_relative_to(base)), None)
        if base is None:
            raise InputError(
                f"{where}: picture {name} lies outside of {root}; let `source` be a folder above both, with the "
                "Parquet files in `train`"
            )
        name = str(Path(name).relative_to(base))
    return file_name(name or "")


def is_text(kind: pa.DataType) -> bool:
    """string"""
    if pa.types.is_dictionary(kind):
        return is_text(kind.value_type)
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
