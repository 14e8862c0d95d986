"""Arrays of plain numbers in MATLAB's files of version 5 to 7, and cells of them.

Every size is compared with the bytes that are there before it is used: on damaged files ``scipy.io.loadmat`` ends the whole
process. Source: MathWorks, MAT-File Format, the chapter on level 5.
"""

import math
import struct
import zlib
from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from vse_pipe.core import memory
from vse_pipe.core.damage import Damage
from vse_pipe.core.errors import InputError

Found = np.ndarray | list[np.ndarray]
_HEADER, _V5, _V73 = 128, 0x0100, 0x0200
_ORDERS = {b"IM": "<", b"MI": ">"}
_INT32, _UINT32, _MATRIX, _COMPRESSED = 5, 6, 14, 15
_STORED = dict(zip((1, 2, 3, 4, 5, 6, 7, 9, 12, 13), ("i1", "u1", "i2", "u2", "i4", "u4", "f4", "f8", "i8", "u8"), strict=True))  # fmt: skip
_CLASSES = {1: "cell", 2: "struct", 3: "object", 4: "char", 5: "sparse", 16: "function", 17: "object"}
_COMPLEX, _CLASS, _OPAQUE, _NUMBERS = 0x0800, 0xFF, 17, range(6, 16)
# Bytes that a number takes as a double beside what is stored, and an array of a cell by itself.
_OF_NUMBER, _OF_ARRAY = 16, 500


class _Array(NamedTuple):
    """told: its class, where that is none of numbers; fields: the rest of it."""

    name: str
    told: str
    shape: list[int]
    fields: Iterator[tuple[int, memoryview]]


def read(path: Path, wanted: Collection[str], damage: Damage) -> dict[str, Found]:
    """Those of ``wanted`` that the file has, as they are stored: of any type of number, in MATLAB's shape. What else it holds is
    passed over. Raises ``damage``; InputError for a wanted variable that is none of these, and for more than memory may hold."""
    memory.require(str(path), path.stat().st_size)
    content = path.read_bytes()
    found: dict[str, Found] = {}
    with damage.named(path, "no MATLAB file of version 5 to 7"):
        order = _ORDERS.get(content[_HEADER - 2 : _HEADER], "<")
        version = struct.unpack_from(f"{order}H", content.ljust(_HEADER), _HEADER - 4)[0]
        if version == _V73 or content.startswith(b"\x89HDF"):
            raise InputError(f"{path}: a MATLAB file of version 7.3; save it with '-v7'")
        if version != _V5:
            raise ValueError("its header is of another kind")
        for kind, data in _elements(order, memoryview(content)[_HEADER:]):
            array = _opened(order, _unpacked(path, order, data) if kind == _COMPRESSED else _matrix(kind, data))
            if array.name in found:
                raise ValueError(f"'{array.name}' is there twice")
            if array.name in wanted:
                where = f"{path}: '{array.name}'"
                found[array.name] = (
                    _cell(where, order, array) if array.told == "cell" else _numbers(where, order, array)
                )
    return found


def _elements(order: str, data: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Type and bytes of each. Up to four bytes stand within the tag itself."""
    at = 0
    while at < len(data):
        kind, size = struct.unpack_from(f"{order}II", data, at)
        start = at + 8
        if kind >> 16:
            kind, size, start = kind & 0xFFFF, kind >> 16, at + 4
        end = start + size
        if end > (len(data) if start > at + 4 else at + 8):
            raise ValueError(f"an element of {size} bytes reaches over the end")
        yield kind, data[start:end]
        # What is compressed is not padded.
        at = end if kind == _COMPRESSED else at + 8 + (-(-size // 8) * 8 if start > at + 4 else 0)


def _matrix(kind: int, data: memoryview) -> memoryview:
    if kind != _MATRIX:
        raise ValueError(f"an element of type {kind} in place of an array")
    return data


def _unpacked(path: Path, order: str, data: memoryview) -> memoryview:
    stream = zlib.decompressobj()
    kind, size = struct.unpack(f"{order}II", stream.decompress(data, 8))
    memory.require(str(path), size)
    body = stream.decompress(stream.unconsumed_tail, size + 1)
    if len(body) != size or not stream.eof:
        raise ValueError(f"a compressed element is not of {size} bytes, as it says")
    return _matrix(kind, memoryview(body))


def _opened(order: str, body: memoryview) -> _Array:
    fields = _elements(order, body)
    (flagged, flags), (sized, sizes), (_, letters) = islice(fields, 3)
    flag = struct.unpack_from(f"{order}I", flags)[0] if (flagged, sized) == (_UINT32, _INT32) else _OPAQUE
    told = "complex" if flag & _COMPLEX else _CLASSES.get(flag & _CLASS, "" if flag & _CLASS in _NUMBERS else "unknown")
    shape = np.frombuffer(sizes, f"{order}i4").tolist() if flag != _OPAQUE else []
    return _Array(bytes(letters).decode("latin-1"), told, shape, fields)


def _numbers(where: str, order: str, array: _Array) -> np.ndarray:
    if array.told:
        raise InputError(f"{where} is {array.told}, expected plain numbers; objects, structs and text are not read")
    ((kind, data),) = islice(array.fields, 1)
    if kind not in _STORED:
        raise ValueError(f"'{array.name}' is stored as type {kind}")
    dtype, count = np.dtype(order + _STORED[kind]), math.prod(array.shape)
    if count * dtype.itemsize != len(data) or min(array.shape) < 0:
        raise ValueError(f"'{array.name}' has {len(data)} bytes for the shape {array.shape} of {dtype}")
    memory.require(where, count * _OF_NUMBER)
    return np.frombuffer(data, dtype).reshape(array.shape, order="F")


def _cell(where: str, order: str, array: _Array) -> list[np.ndarray]:
    count = math.prod(array.shape)
    memory.require(where, count * _OF_ARRAY)
    found = []
    for place, (kind, data) in enumerate(islice(array.fields, max(count, 0) + 1)):
        one = _opened(order, _matrix(kind, data)) if len(data) else None
        found.append(np.zeros((0, 0)) if one is None else _numbers(f"{where} {place + 1}", order, one))
    if len(found) != count:
        raise ValueError(f"'{array.name}' has not as many arrays as the shape {array.shape}")
    return found
