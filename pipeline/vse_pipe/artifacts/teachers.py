"""data/inject/<dataset>/<teacher>/teachers.json: the teachers of a run, beside pairs.parquet.

A list of entries with ``run``, ``folder`` (of its vectors), ``weight`` (only proportions count), and the digests ``images`` and
``captions`` of its two files.
"""

from pathlib import Path

from vse_pipe.artifacts import embeddings
from vse_pipe.core.errors import InputError, IntegrityError
from vse_pipe.core.files import read_json, require, sha256, write_json

NAME = "teachers.json"
KEYS = {"run", "folder", "weight", "images", "captions"}


def entry(run: str, folder: Path, weight: float) -> dict:
    """Of the vectors that lie in ``folder`` now. Raises InputError where they do not."""
    files = {"images": folder / embeddings.IMAGES, "captions": folder / embeddings.CAPTIONS}
    digests = {side: sha256(require(path, f"dvc repro embed@{run}")) for side, path in files.items()}
    return {"run": run, "folder": str(folder), "weight": weight, **digests}


def write(folder: Path, entries: list[dict]) -> None:
    write_json(folder / NAME, entries)


def read(folder: Path) -> list[dict]:
    """Raises InputError when the file is missing or an entry lacks a key."""
    require(folder / NAME, f"vse-pipe inject --teacher {folder.name}")
    entries = read_json(folder / NAME, list)
    if not entries or not all(isinstance(one, dict) and set(one) == KEYS for one in entries):
        raise InputError(f"{folder / NAME}: not a list of models; run `vse-pipe inject --teacher {folder.name}` again")
    return entries


def require_same(folder: Path, one: dict) -> None:
    """Raises IntegrityError where the vectors of an entry of ``read(folder)`` are no longer those it was written for."""
    if entry(one["run"], Path(one["folder"]), one["weight"]) != one:
        raise IntegrityError(
            f"{folder / NAME}: run '{one['run']}' was embedded anew; run `vse-pipe inject --teacher {folder.name}` again"
        )
