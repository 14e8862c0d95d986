"""The headers of a Parquet file's pages: what decoding them will take. pyarrow reads them and does not show them.

https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift, struct PageHeader, in Thrift's compact
protocol. Only what bounds memory is kept: 32-bit integers and structs.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow.parquet as pq

DELTA_BYTE_ARRAY = 7
_DICTIONARY = 2
_FIRST_READ, _LONGEST_HEADER = 2**10, 2**24
_DEEPEST = 8
# Numbers of the fields of PageHeader, and of its structs for the kinds of pages; those begin with num_values.
_KIND, _SIZE, _PACKED = 1, 2, 3
_DATA, _DICTIONARY_PAGE, _DATA_V2 = 5, 7, 8
_TRUE, _FALSE, _BYTE, _INT16, _INT32, _INT64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)


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
    with path.open("rb") as file:
        while seen < chunk.num_values and place < end:
            header, length = _header(file, place)
            sizes = [header.get(_SIZE), header.get(_PACKED)]
            if not all(isinstance(size, int) and size >= 0 for size in sizes):
                raise ValueError(f"the page at byte {place} has no size")
            dictionary = header.get(_KIND) == _DICTIONARY
            about = header.get(_DICTIONARY_PAGE) or header.get(_DATA_V2) or header.get(_DATA) or {}
            values = max(0, about.get(1, 0))
            yield Page(0 if dictionary else values, sizes[0], dictionary, about.get(4 if _DATA_V2 in header else 2, 0))
            seen += 0 if dictionary else values
            place += length + sizes[1]


def _header(file: BinaryIO, place: int) -> tuple[dict[int, Any], int]:
    """The fields by number, and the bytes they take. Read anew, and more of it, where statistics make it long."""
    wanted = _FIRST_READ
    while True:
        file.seek(place)
        content = file.read(wanted)
        reader = _Compact(content)
        try:
            return reader.struct(), reader.at
        except IndexError as error:
            if len(content) < wanted or wanted >= _LONGEST_HEADER:
                raise ValueError(f"the page at byte {place} has no whole header") from error
            wanted *= 4


class _Compact:
    """Thrift's compact protocol. Raises IndexError at the end of the content, ValueError for what no header has."""

    def __init__(self, content: bytes) -> None:
        self._content, self.at = content, 0

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """32-bit integers and structs by field number; a number that comes twice has its last value, as in pyarrow."""
        if depth > _DEEPEST:
            raise ValueError("structs nested too deeply")
        found: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            value = self._value(head & 15, depth)
            if isinstance(value, dict):
                found[number] = {**found.get(number, {}), **value} if isinstance(found.get(number), dict) else value
            elif value is not None:
                found[number] = value
        return found

    def _value(self, kind: int, depth: int, element: bool = False) -> int | dict | None:
        if kind in (_TRUE, _FALSE):
            self._skip(element)
        elif kind == _BYTE:
            self._skip(1)
        elif kind == _INT32:
            return self._zigzag()
        elif kind in (_INT16, _INT64):
            self._varint()
        elif kind == _DOUBLE:
            self._skip(8)
        elif kind == _BINARY:
            self._skip(self._varint())
        elif kind in (_LIST, _SET):
            head = self._byte()
            for _ in range(head >> 4 if head >> 4 < 15 else self._varint()):
                self._value(head & 15, depth + 1, element=True)
        elif kind == _STRUCT:
            return self.struct(depth + 1)
        else:
            raise ValueError(f"a field of kind {kind}")
        return None

    def _byte(self) -> int:
        self.at += 1
        return self._content[self.at - 1]

    def _skip(self, count: int) -> None:
        self.at += count
        if self.at > len(self._content):
            raise IndexError

    def _varint(self) -> int:
        found = shift = 0
        while True:
            byte = self._byte()
            found |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return found
            if shift > 63:
                raise ValueError("a number of more than 64 bits")

    def _zigzag(self) -> int:
        found = self._varint()
        return (found >> 1) ^ -(found & 1)
