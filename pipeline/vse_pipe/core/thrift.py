"""Thrift's compact protocol, as far as Parquet's headers and footers use it."""

import collections
from typing import Any

_DEEPEST = 8
_TRUE, _FALSE, _BYTE, _INT16, _INT32, _INT64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)


class Compact:
    """Raises IndexError at the end of the content, ValueError for what no header has.

    whole: keep lists, and True for every other field that is there; else 32-bit integers and structs alone.
    """

    def __init__(self, content: bytes, whole: bool = False) -> None:
        self._content, self._whole, self.at = content, whole, 0

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """What is kept, by field number; a number that comes twice has its last value, as in pyarrow."""
        if depth > _DEEPEST:
            raise ValueError("structs nested too deeply")
        found: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            value = self._value(head & 15, depth)
            if isinstance(value, dict):
                found[number] = {**found.get(number, {}), **value} if isinstance(found.get(number), dict) else value
            elif value is not None or self._whole:
                found[number] = True if value is None else value
        return found

    def _value(self, kind: int, depth: int, element: bool = False) -> int | dict | list | None:
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
            length = head >> 4 if head >> 4 < 15 else self._varint()
            values = (self._value(head & 15, depth + 1, element=True) for _ in range(length))
            if self._whole:
                return list(values)
            collections.deque(values, maxlen=0)
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
