"""data/<stage>/.../made_from.json, in the folder of every output: what it was made from, and what
it is.

``inputs`` has the digests of what the stage read, by folder and part; ``parts`` has the digests of
the output itself. Parts are the splits of a data set (ids, bytes and boxes of its images, ids and
texts of its captions), ``images``, ``captions``, ``names``, ``phrases`` and ``regions`` (its
files), ``features``, ``texts``, ``pairs``, ``teachers``, ``weights`` and ``vectors``. A digest is
computed once, when the output is written.

Ids are running numbers and may stand for other pictures and captions when a data set is prepared
again. So every reader that joins an output with another one by ids calls ``require_current``. An
input that no stage has written, or that is not on this machine, is not compared.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from vse_pipe.artifacts.images import SPLITS
from vse_pipe.core.errors import IntegrityError, command_of
from vse_pipe.core.files import read_json, sha256, write_json

NAME = "made_from.json"
_INPUTS, _PARTS = "inputs", "parts"
# {folder: {part: digest}}
Inputs = dict[str, dict[str, str]]


def write(folder: Path, inputs: Inputs, parts: dict[str, str]) -> None:
    """inputs: as of ``parts_of`` when the stage read them; parts: digests of the output."""
    write_json(folder / NAME, {_INPUTS: inputs, _PARTS: parts})


def parts_of(folder: Path, *names: str) -> Inputs:
    """The parts of an output as it is now, as an input of another; all parts without ``names``."""
    parts = _read(folder, _PARTS)
    return {str(folder): {name: parts[name] for name in names or parts if name in parts}}


def inputs_of(folder: Path, splits: Iterable[str] = SPLITS) -> Inputs:
    """The recorded inputs of an output. splits: those in use, of inputs that have splits."""
    unused = set(SPLITS) - set(splits)
    return {
        place: {name: digest for name, digest in parts.items() if name not in unused}
        for place, parts in _read(folder, _INPUTS).items()
    }


def require_current(folder: Path, splits: Iterable[str] = SPLITS, places: Iterable[Path] | None = None) -> None:
    """Raises IntegrityError where an input of the output has changed since. splits: as in
    ``inputs_of``; places: inputs that it is used with, which must be among its own; None for all of
    its own."""
    recorded = inputs_of(folder, splits)
    for place in recorded if places is None or not recorded else map(str, places):
        if place not in recorded:
            raise IntegrityError(f"{folder}: was not made from {place}; {made_anew(folder)}")
        current = _read(Path(place), _PARTS)
        changed = [name for name, digest in recorded[place].items() if current and current.get(name) != digest]
        if changed:
            content = _content(changed)
            raise IntegrityError(f"{folder}: made from other {content} than {place} now holds; {made_anew(folder)}")


def _content(changed: list[str]) -> str:
    """Names of parts for a message."""
    splits = [name for name in changed if name in SPLITS]
    files = [name for name in changed if name not in SPLITS]
    return " and ".join([*files, *([f"images or captions of split {', '.join(splits)}"] if splits else [])])


def digest_of(folder: Path, names: Iterable[str]) -> str:
    """A digest of the files of these names that are there."""
    listing = "".join(f"{name} {sha256(folder / name)}\n" for name in names if (folder / name).is_file())
    return hashlib.sha256(listing.encode()).hexdigest()


def made_anew(place: Path) -> str:
    """Advice for an output that is no longer right, by its place."""
    command = command_of(place)
    return f"run `{command}` again, or `dvc repro`" if command else "run `dvc repro`"


def _read(folder: Path, key: str) -> dict:
    path = folder / NAME
    if not path.is_file():
        return {}
    content = read_json(path)
    if not isinstance(content.get(key), dict):
        raise IntegrityError(f"{path}: has no {key}; {made_anew(folder)}")
    return content[key]
