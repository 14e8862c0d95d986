"""What files of others may hold: a pickle that acts when it is opened, which nothing may do, and text that is none."""

from pathlib import Path

import numpy as np
import pyarrow as pa


class Hostile:
    """Unpickling one makes the file ``path``."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return Path.touch, (self.path,)


def bytes_as_text(*rows: bytes) -> pa.StringArray:
    """A column that says it is text, whatever its bytes; no reader of Parquet looks."""
    ends = np.cumsum([0, *map(len, rows)], dtype=np.int32)
    return pa.StringArray.from_buffers(len(rows), pa.py_buffer(ends.tobytes()), pa.py_buffer(b"".join(rows)))
