"""The headers of a Parquet file's pages, which say what decoding them will take, and what in its footer ends pyarrow.

pyarrow reads both and does not show them. Numbers of fields are those of
https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift, structs PageHeader and FileMetaData.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow.parquet as pq

from vse_pipe.core.remote import opened
from vse_pipe.core.thrift import Compact

DELTA_BYTE_ARRAY = 7
_DICTIONARY = 2
_FIRST_READ, _LONGEST_HEADER = 2**10, 2**24
# Numbers of the fields of PageHeader, and of its structs for the kinds of pages; those begin with num_values.
_KIND, _SIZE, _PACKED = 1, 2, 3
_DATA, _DICTIONARY_PAGE, _DATA_V2 = 5, 7, 8
# Of FileMetaData, RowGroup, ColumnChunk, ColumnMetaData and SizeStatistics.
_GROUPS, _CHUNKS, _ABOUT, _ENCRYPTED, _SIZES = 4, 1, 3, 8, 16
_UNPACKED, _REPETITIONS, _DEFINITIONS = 1, 2, 3


@dataclass(frozen=True)
class Page:
    """values: repetitions and nulls included, 0 of a dictionary; size: bytes once unpacked."""

    values: int
    size: int
    dictionary: bool
    encoding: int


def pages(path: Path, chunk: pq.ColumnChunkMetaData) -> Iterator[Page]:
    """Of one column in one row group, those that decoding it will open. Raises ValueError where a header is damaged."""
    if chunk.num_values <= 0:  # an empty column has no page
        return
    starts = [chunk.data_page_offset, chunk.dictionary_page_offset if chunk.has_dictionary_page else None]
    place = min(start for start in starts if start)
    end, seen = place + chunk.total_compressed_size, 0
    with opened(path) as file:
        while seen < chunk.num_values and place < end:
            header, length = _header(file, place)
            size, packed = header.get(_SIZE), header.get(_PACKED)
            if not isinstance(size, int) or not isinstance(packed, int) or min(size, packed) < 0:
                raise ValueError(f"the page at byte {place} has no size")
            dictionary = header.get(_KIND) == _DICTIONARY
            about = header.get(_DICTIONARY_PAGE) or header.get(_DATA_V2) or header.get(_DATA) or {}
            values = max(0, about.get(1, 0))
            yield Page(0 if dictionary else values, size, dictionary, about.get(4 if _DATA_V2 in header else 2, 0))
            seen += 0 if dictionary else values
            place += length + packed


def _header(file: BinaryIO, place: int) -> tuple[dict[int, Any], int]:
    """The fields by number, and the bytes they take. Read anew, and more of it, where statistics make it long."""
    wanted = _FIRST_READ
    while True:
        file.seek(place)
        content = file.read(wanted)
        reader = Compact(content)
        try:
            return reader.struct(), reader.at
        except IndexError as error:
            if len(content) < wanted or wanted >= _LONGEST_HEADER:
                raise ValueError(f"the page at byte {place} has no whole header") from error
            wanted *= 4


def require_sound(footer: bytes, schema: pq.ParquetSchema) -> None:
    """Raises ValueError for what makes ``RowGroupMetaData.column`` end the process: it throws where nothing catches."""
    try:
        groups = Compact(footer, whole=True).struct().get(_GROUPS, [])
        chunks = [(at, chunk) for group in groups for at, chunk in enumerate(group[_CHUNKS])]
        sound = all(_is_sound(chunk, schema.column(at)) for at, chunk in chunks)
    except (IndexError, KeyError, TypeError, AttributeError) as error:
        raise ValueError("the footer is not whole") from error
    if not sound:
        raise ValueError("the footer contradicts itself about the sizes of a column")


def _is_sound(chunk: dict[int, Any], column: pq.ColumnSchema) -> bool:
    sizes = chunk[_ABOUT].get(_SIZES, {})
    levels = {_REPETITIONS: column.max_repetition_level, _DEFINITIONS: column.max_definition_level}
    fits = all(len(sizes.get(field, [])) in (0, level + 1) for field, level in levels.items())
    return fits and _ENCRYPTED not in chunk and (_UNPACKED not in sizes or column.physical_type == "BYTE_ARRAY")
