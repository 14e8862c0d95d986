"""Text, CSV, JSON, arrays and tensors in files that appear whole or not at all, and their digests."""

import hashlib
import importlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, overload

from vse_pipe.core.errors import InputError, PipelineError
from vse_pipe.core.whole import whole_file

if TYPE_CHECKING:
    import numpy as np
    from pandas import DataFrame  # half a second that most commands do without


def sha256(path: Path) -> str:
    """Hex digest of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def may_replace(path: Path, mark: bytes, within: int) -> bool:
    """Is nothing at ``path``, or a regular file with ``mark`` in its first ``within`` bytes: what an earlier call wrote?"""
    try:
        if not path.is_file():
            return not path.exists()
        with path.open("rb") as file:
            return mark in file.read(within)
    except OSError:
        return False


def write_text(path: Path, text: str) -> None:
    """UTF-8, whole or not at all."""
    content = text.encode()
    with whole_file(path, len(content)) as temporary:
        temporary.write_bytes(content)


def write_array(path: Path, array: "np.ndarray") -> None:
    """As .npy, whole or not at all."""
    import numpy as np

    with whole_file(path, array.nbytes) as temporary, temporary.open("wb") as file:
        # To a file of the system numpy writes by itself, and a few kilobytes that a full disk does not take go unnoticed.
        np.lib.format.write_array(SimpleNamespace(write=file.write), array, allow_pickle=False)


def csv_text(table: "DataFrame") -> str:
    """Without the index, lines ended by a line feed everywhere."""
    return table.to_csv(index=False, lineterminator="\n")


def write_csv(path: Path, table: "DataFrame") -> None:
    write_text(path, csv_text(table))


def json_text(content: object) -> str:
    """Sorted keys, indented, final newline; NaN and infinities are refused (ValueError)."""
    return json.dumps(content, indent=2, sort_keys=True, allow_nan=False, ensure_ascii=False) + "\n"


def write_json(path: Path, content: object) -> None:
    """As ``json_text``, whole or not at all."""
    write_text(path, json_text(content))


def save_tensors(path: Path, tensors: dict, metadata: dict[str, str] | None = None) -> None:
    """Write a safetensors file of torch tensors or of numpy arrays, contiguous, whole or not at all.

    metadata: one key; several would come in an order that changes from file to file.
    Raises PipelineError with the reason when it cannot be written for another reason than the disk: safetensors has an
    error of its own for everything.
    """
    import numpy as np
    from safetensors import SafetensorError

    of_numpy = all(isinstance(tensor, np.ndarray) for tensor in tensors.values())
    library = importlib.import_module("safetensors.numpy" if of_numpy else "safetensors.torch")
    with whole_file(path, sum(tensor.nbytes for tensor in tensors.values())) as temporary:
        try:
            library.save_file(tensors, temporary, metadata=metadata)
        except SafetensorError as error:
            if "os error" in str(error):
                raise OSError(str(error)) from error
            raise PipelineError(f"{path}: {error}") from error


@overload
def read_json(path: Path) -> dict: ...


@overload
def read_json(path: Path, kind: type[list]) -> list: ...


def read_json(path: Path, kind: type[dict] | type[list] = dict) -> dict | list:
    """kind: what the document is, ``dict`` or ``list``. Raises InputError when the file is missing or is not that."""
    try:
        found = json.loads(require(path).read_text(encoding="utf-8"))
    # ValueError: no JSON, no UTF-8, or an integer of thousands of digits.
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not a JSON document ({error})") from error
    if not isinstance(found, kind):
        wanted = "an object" if kind is dict else "a list"
        raise InputError(f"{path}: the JSON document is a {type(found).__name__}, expected {wanted}")
    return found


def require(path: Path, made_by: str = "") -> Path:
    """``path`` if it exists. Raises InputError that names the command which makes it."""
    if not path.exists():
        advice = f"; make it with `{made_by}` or `dvc repro`" if made_by else ""
        raise InputError(f"{path} does not exist{advice}")
    return path
