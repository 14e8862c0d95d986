"""The one place where prepared images and captions meet what was made from them.

Ids of data/prepare/<dataset>/ are running numbers: prepared anew they may stand for other pictures and captions. Every artefact with such
ids therefore keeps a digest of what they stood for, and a reader that looks them up takes the prepared tables from here, with the
artefact's digest as an argument. What differs is refused with the command that makes the artefact anew. An artefact of an earlier
version, which keeps no digest, is believed.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path

import pyarrow as pa

from vse_pipe.artifacts import _content, captions, images, model_files, names
from vse_pipe.core import mapped
from vse_pipe.core.errors import IntegrityError
from vse_pipe.core.files import require as existing
from vse_pipe.core.files import sha256

_TABLES = (images.NAME, captions.NAME)
# What artefacts call the digests of these files.
FILES = ("images_sha256", "captions_sha256")


@dataclass(frozen=True)
class Origin:
    """What an artefact says of the prepared data set it was made from.

    artefact: its file or folder, for messages; mend: the command that makes it anew; splits: of each split in use the digest of its
    images and captions, as ``digests`` gives it, None where the artefact does not say; names: the folder that holds its copy of
    names.parquet where ids are text, None for an artefact without one; files: digests of both tables as of ``made_of``, where it keeps
    them: files that have not changed need not be read.
    """

    artefact: Path
    mend: str
    splits: Mapping[str, str | None] = field(default_factory=dict)
    names: Path | None = None
    files: Mapping[str, str] = field(default_factory=dict)


def mend(stage: str, command: str) -> str:
    """What to do, for a project with DVC and for one without. stage: as DVC addresses it; command: which makes the artefact."""
    return f"run `dvc repro {stage}`, or `{command}` again"


def digests(prepared: Path) -> dict[str, str]:
    """{split: digest} of the images and captions that lie in data/prepare/<dataset>/: ids, bytes, boxes and texts. Computed once a
    process for the same files. Raises as the tables' readers do."""
    made_by = f"vse-pipe prepare --dataset {prepared.name}"
    files = [existing(prepared / name, made_by) for name in _TABLES]
    return _digests(prepared.resolve(), prepared, *map(mapped.file_state, files))


@lru_cache(maxsize=16)
def _digests(where: Path, prepared: Path, *states: mapped.State) -> dict[str, str]:
    found = _content.by_split(images.read(prepared), partial(captions.blocks, prepared))
    for name, state in zip(_TABLES, states, strict=True):
        mapped.require_state(prepared / name, state)
    return found


def require(prepared: Path, *origins: Origin) -> None:
    """Raises IntegrityError for the first artefact that was made from other images, captions or names than lie there now. Of a data
    set that is not prepared here nothing is compared."""
    if not all((prepared / name).is_file() for name in _TABLES):
        return
    for origin in origins:
        if origin.files and origin.files == made_of(prepared):
            continue
        told = {split: digest for split, digest in origin.splits.items() if digest is not None}
        held = digests(prepared) if told else {}
        if changed := sorted(split for split, digest in told.items() if held.get(split) != digest):
            what = f"images or captions of split {', '.join(changed)}"
        elif origin.names is not None and not _same_names(origin.names, prepared):
            what = "names of images or captions"
        else:
            continue
        raise IntegrityError(f"{origin.artefact}: made from other {what} than {prepared} now holds; {origin.mend}")


@contextlib.contextmanager
def compared(prepared: Path, *origins: Origin) -> Iterator[None]:
    """Within, the tables in ``prepared`` may be read beside the artefacts. Raises as ``require``, and IntegrityError where they are
    written anew meanwhile."""
    with contextlib.ExitStack() as reading:
        for name in _TABLES:
            reading.enter_context(mapped.throughout(prepared / name))
        require(prepared, *origins)
        yield


def images_of(prepared: Path, *origins: Origin) -> pa.Table:
    """images.parquet, to be read beside these artefacts. Raises as ``compared`` and ``images.read``."""
    with compared(prepared, *origins):
        return images.read(prepared)


def captions_of(prepared: Path, *origins: Origin, columns: Sequence[str] = tuple(captions.SCHEMA.names)) -> pa.Table:
    """captions.parquet, to be read beside these artefacts. Raises as ``compared`` and ``captions.read``."""
    with compared(prepared, *origins):
        return captions.read(prepared, columns=columns)


def require_file(artefact: Path, told: Mapping, what: str, prepared: Path, mend: str) -> None:
    """For an artefact that has a row for each row of one table. Raises IntegrityError where it was made from another file than lies
    there now.

    what: ``images`` or ``captions``; told: holds the digest of that file as ``<what>_sha256``, or nothing, and then nothing is
    compared.
    """
    path = existing(prepared / f"{what}.parquet", f"vse-pipe prepare --dataset {prepared.name}")
    digest = told.get(f"{what}_sha256")
    if digest is not None and digest != sha256(path):
        raise IntegrityError(f"{artefact}: made from other {what} than {path} now holds; {mend}")


def require_model(artefact: Path, digest: object, trained: Path, run: str, mend: str) -> None:
    """Raises IntegrityError where data/train/<run>/ is there and holds another model than made the artefact. digest: of the weights, as the
    artefact has it; None where it does not say."""
    held = model_files.digest_of(trained, run)
    if held is not None and digest is not None and digest != held:
        raise IntegrityError(f"{artefact}: made by another model than {trained} now holds; {mend}")


def made_of(prepared: Path) -> dict[str, str]:
    """What a new artefact keeps of both files, for ``require_file``: their digests by ``images_sha256`` and ``captions_sha256``."""
    return {key: sha256(mapped.unchanged_path(prepared / name)) for key, name in zip(FILES, _TABLES, strict=True)}


def _same_names(folder: Path, prepared: Path) -> bool:
    """Do the same numbers have the same names, or none, in both folders?"""
    ours, theirs = (None if found is None else found.table for found in map(names.read, (folder, prepared)))
    return ours is theirs if ours is None or theirs is None else ours.equals(theirs)
