"""What decoding columns of a Parquet row group takes in memory, by the headers of its pages."""

from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from vse_pipe.core.pages import DELTA_BYTE_ARRAY, Page, pages

_TEXT = "BYTE_ARRAY"
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 8, "FLOAT": 4, "DOUBLE": 8, _TEXT: 8}
_DECIMAL = 32


@dataclass
class Need:
    """certain: bytes that will be taken at least. per_row, in_lists: what texts outside of lists, for each row, and inside of
    lists, for all, may take beyond it: a page can name one text any number of times, and only decoding tells how often.

    nested: the leaves with texts inside of lists; alike: whether some of these are stored as what differs from the one before.
    """

    certain: int = 0
    per_row: int = 0
    in_lists: int = 0
    nested: list[str] = field(default_factory=list)
    alike: bool = False

    def add(self, chunk: pq.ColumnChunkMetaData, found: list[Page], column: pq.ColumnSchema, slots: int) -> None:
        """slots: how many values the column has, nulls included."""
        self.certain += slots * _width(column)
        if column.physical_type != _TEXT:
            return
        self.certain += sum(page.size for page in found)
        alike = [page.size for page in found if page.encoding == DELTA_BYTE_ARRAY and not page.dictionary]
        longest = max([sum(alike), *(page.size for page in found if page.dictionary)])
        if not column.max_repetition_level:
            self.per_row += longest
            return
        self.in_lists += longest * slots
        self.nested.append(chunk.path_in_schema)
        self.alike = self.alike or bool(alike)


def of_group(path: Path, file: pq.ParquetFile, group: int, columns: list[str] | None) -> Need:
    """columns: names, or paths of leaves; None for all. Raises ValueError where a page header is damaged."""
    about, need = file.metadata.row_group(group), Need()
    for number in range(about.num_columns):
        chunk = about.column(number)
        if columns is None or any(_below(chunk, name) for name in columns):
            found = list(pages(path, chunk))
            values = max(chunk.num_values, sum(page.values for page in found))
            fields = [one for one in file.schema_arrow if _below(chunk, one.name)]
            slots = max([_slots(one, values, about.num_rows) for one in fields], default=values)
            need.add(chunk, found, file.metadata.schema.column(number), slots)
    return need


def _below(chunk: pq.ColumnChunkMetaData, name: str) -> bool:
    return f"{chunk.path_in_schema}.".startswith(f"{name}.")


def _width(column: pq.ColumnSchema) -> int:
    """Bytes of a value in Arrow; of a text, of where it begins."""
    if column.logical_type.type == "DECIMAL":
        return _DECIMAL
    return _WIDTHS.get(column.physical_type, column.length)


def _slots(column: pa.Field, values: int, rows: int) -> int:
    """A list of fixed size that is null has all its values in Arrow, and one in the file."""
    most, lists, kind = values, rows, column
    while pa.types.is_list(kind.type) or pa.types.is_large_list(kind.type) or pa.types.is_fixed_size_list(kind.type):
        if not pa.types.is_fixed_size_list(kind.type):
            lists = values
        elif kind.nullable:
            lists *= kind.type.list_size
        kind = kind.type.value_field
        most = max(most, lists)
    return most
