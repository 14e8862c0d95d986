"""Prepared images and captions beside the artefacts that were made from them, and contents.parquet.

Ids of data/prepare/<dataset>/ are running numbers and may stand for other pictures and captions when it is prepared
again. So every artefact with ids has a digest of its images and captions for each split. A reader that looks up ids
takes the prepared tables from here, with the artefact's digest as an argument. A difference is an error that names the
command for a new artefact. An artefact of an earlier version without a digest is accepted.

data/extract/<dataset>/<features>/contents.parquet has the picture behind each row of features.npy. A later call reuses
these rows and computes the others. ``made`` in the footer is a digest of weights, options, code and versions.
"""

import contextlib
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.artifacts import captions, images, model_files
from vse_pipe.artifacts import names as artifact_names
from vse_pipe.artifacts.images import SPLITS, UNREAD
from vse_pipe.core import tables
from vse_pipe.core.errors import IntegrityError
from vse_pipe.core.files import State, require_state, sha256, state_of
from vse_pipe.core.files import require as existing
from vse_pipe.project import paths

_DIGITS = 16  # of a digest: 64 bits are enough against accidents, and short enough for a table
_COLUMNS = (("image_id", "sha256"), ("caption_id", "image_id", "text"), ("box",))
# The part of an address that names a box (``vse_pipe.pictures.address``).
BOX = "(?P<box>#xywh=[0-9,]+)$"
# Takes names of columns and gives their consecutive rows, at every call.
Blocks = Callable[[list[str]], Iterator[pa.Table]]


def by_split(images: pa.Table, captions: pa.Table | Blocks) -> dict[str, str]:
    """{split: hex digest} of the splits with images: ids, bytes and boxes of the images, ids and texts of the captions,
    in their order. images, captions: the tables of ``vse-pipe prepare``, or some of their rows."""
    digests = {split: hashlib.sha256() for split in SPLITS if pc.any(pc.equal(images["split"], split)).as_py()}
    boxes = pc.struct_field(pc.extract_regex(images["file"], BOX), "box")
    tables = (images, captions, pa.table({"split": images["split"], "box": boxes}))
    for table, names in zip(tables, _COLUMNS, strict=True):
        for name in names:
            _add(digests, table, name)
    return {split: digest.hexdigest()[:_DIGITS] for split, digest in digests.items()}


def _add(digests: dict[str, Any], table: pa.Table | Blocks, name: str) -> None:
    """Adds the rows of a column, whatever its chunks: numbers, or lengths in bytes and then the bytes."""
    texts = False
    for split, part in _parts(digests, table, name):
        texts = pa.types.is_string(part.type)
        digests[split].update((pc.binary_length(part) if texts else part).to_numpy())
    for split, part in _parts(digests, table, name) if texts else ():
        for chunk in part.chunks:
            digests[split].update(pc.binary_join(pa.ListArray.from_arrays([0, len(chunk)], chunk), "")[0].as_buffer())


def _parts(digests: dict[str, Any], table: pa.Table | Blocks, name: str) -> Iterator[tuple[str, pa.ChunkedArray]]:
    """(split, its rows) of consecutive blocks."""
    columns = [name, "split"]
    for block in [table.select(columns)] if isinstance(table, pa.Table) else table(columns):
        for split in digests:
            yield split, block[name].filter(pc.equal(block["split"], split)).drop_null()


NAME = "contents.parquet"
_MADE = "made"
SCHEMA = tables.schema(
    "contents 1",
    tables.field(
        "content",
        pa.string(),
        "digest of the picture, as in images.parquet, and which box of it; null: nobody knows",
        nullable=True,
    ),
)


def picture_contents(images: pa.Table) -> pa.Array:
    """A string for each row of images.parquet, equal for equal pixels; null where ``prepare`` found no file."""
    box = pc.struct_field(pc.extract_regex(images["file"], BOX), "box")
    has_digest = pc.invert(pc.is_in(images["sha256"], pa.array(["", UNREAD])))
    contents = pc.binary_join_element_wise(images["sha256"], pc.fill_null(box, ""), "")
    return pc.if_else(has_digest, contents, pa.scalar(None, pa.string())).combine_chunks()


def write(folder: Path, contents: pa.Array, digest: str) -> None:
    tables.write(folder / NAME, pa.table([contents], schema=SCHEMA), SCHEMA, {_MADE: digest})


def read(folder: Path) -> tuple[pa.ChunkedArray, str]:
    """Contents by row, and ``made``. Raises InputError when the file is missing or unfit, IntegrityError when it is
    damaged."""
    table = tables.read(folder / NAME, SCHEMA, required_key=_MADE)
    return table["content"], tables.footer(table)[_MADE]


def places(contents: pa.Array, sources: Iterable[pa.Array | pa.ChunkedArray]) -> pa.Array:
    """The first place of each of ``contents`` in all ``sources`` one after the other; null for a missing one."""
    chunks = [chunk for one in sources for chunk in (one.chunks if isinstance(one, pa.ChunkedArray) else [one])]
    return pc.index_in(contents, pa.chunked_array(chunks, pa.string()).combine_chunks(), skip_nulls=True)


_TABLES = (images.NAME, captions.NAME)
# Keys of the digests of these files in artefacts.
FILES = ("images_sha256", "captions_sha256")


@dataclass(frozen=True)
class Origin:
    """The prepared data that an artefact was made from, as the artefact names it.

    artefact: its file or folder; splits: ``digests`` of the splits in use, None where the artefact has none; names:
    folder of its copy of names.parquet if ids are text; files: digests of both tables by ``made_of``, if it has them:
    unchanged files need not be read.
    """

    artefact: Path
    splits: Mapping[str, str | None] = field(default_factory=dict)
    names: Path | None = None
    files: Mapping[str, str] = field(default_factory=dict)


def made_anew(artefact: Path) -> str:
    """Advice for an artefact that is no longer right, by its place."""
    command = paths.command_of(artefact)
    return f"run `{command}` again, or `dvc repro`" if command else "run `dvc repro`"


def require_same(artefact: Path, content: str, digest: object, current: object) -> None:
    """Raises IntegrityError where an artefact was made from other ``content`` than there is now. digest: of that content,
    in the artefact; current: the same of its file now. Without either, nothing is compared."""
    if digest is not None and current is not None and digest != current:
        raise IntegrityError(f"{artefact}: made from other {content} than there are now; {made_anew(artefact)}")


def digests(prepared: Path) -> dict[str, str]:
    """``by_split`` of data/prepare/<dataset>/, computed once in a process for the same files. Raises as the tables'
    readers."""
    made_by = f"vse-pipe prepare --dataset {prepared.name}"
    files = [existing(prepared / name, made_by) for name in _TABLES]
    return _digests(prepared.resolve(), prepared, *map(state_of, files))


@lru_cache(maxsize=16)
def _digests(where: Path, prepared: Path, *states: State) -> dict[str, str]:
    digests = by_split(images.read(prepared), partial(captions.blocks, prepared))
    for name, state in zip(_TABLES, states, strict=True):
        require_state(prepared / name, state)
    return digests


def require(prepared: Path, *origins: Origin) -> None:
    """Raises IntegrityError for the first artefact made from other images, captions or names than ``prepared`` holds.
    Nothing is compared where the data set is not prepared."""
    if not all((prepared / name).is_file() for name in _TABLES):
        return
    for origin in origins:
        if origin.files and origin.files == made_of(prepared):
            continue
        expected = {split: digest for split, digest in origin.splits.items() if digest is not None}
        current = digests(prepared) if expected else {}
        if changed := sorted(split for split, digest in expected.items() if current.get(split) != digest):
            content = f"images or captions of split {', '.join(changed)}"
        elif origin.names is not None and not _same_names(origin.names, prepared):
            content = "names of images or captions"
        else:
            continue
        raise IntegrityError(
            f"{origin.artefact}: made from other {content} than {prepared} now holds; {made_anew(origin.artefact)}"
        )


@contextlib.contextmanager
def compared(prepared: Path, *origins: Origin) -> Iterator[None]:
    """Within, the tables in ``prepared`` may be read beside the artefacts. Raises as ``require``, and IntegrityError if
    they change meanwhile."""
    states = {path: state_of(path) for path in (prepared / name for name in _TABLES) if path.is_file()}
    require(prepared, *origins)
    yield
    for path, state in states.items():
        require_state(path, state)


def images_of(prepared: Path, *origins: Origin) -> pa.Table:
    """images.parquet, to be read beside these artefacts. Raises as ``compared`` and ``images.read``."""
    with compared(prepared, *origins):
        return images.read(prepared)


def captions_of(prepared: Path, *origins: Origin, columns: Sequence[str] = tuple(captions.SCHEMA.names)) -> pa.Table:
    """captions.parquet, to be read beside these artefacts. Raises as ``compared`` and ``captions.read``."""
    with compared(prepared, *origins):
        return captions.read(prepared, columns=columns)


def require_file(artefact: Path, metadata: Mapping, side: str, source: Path) -> None:
    """Raises IntegrityError where an artefact with the rows of a table was made from another version of it.

    side: ``images``, ``captions`` or ``pairs``, the name of the file in ``source``; metadata: has the digest of that file
    as ``<side>_sha256``. Without either, nothing is compared.
    """
    path = source / f"{side}.parquet"
    digest = metadata.get(f"{side}_sha256")
    if digest is not None and path.is_file() and digest != sha256(path):
        raise IntegrityError(f"{artefact}: made from other {side} than {path} now holds; {made_anew(artefact)}")


def require_model(artefact: Path, digest: object, trained: Path) -> None:
    """Raises IntegrityError where data/train/<run>/ exists with another model than the artefact's. digest: of the
    weights, in the artefact; None if it has none."""
    current = model_files.digest_of(trained)
    if current is not None and digest is not None and digest != current:
        raise IntegrityError(f"{artefact}: made by another model than {trained} now holds; {made_anew(artefact)}")


def made_of(prepared: Path) -> dict[str, str]:
    """Digests of both tables by ``images_sha256`` and ``captions_sha256``; a new artefact keeps them for
    ``require_file``."""
    return {key: sha256(prepared / name) for key, name in zip(FILES, _TABLES, strict=True)}


def _same_names(folder: Path, prepared: Path) -> bool:
    """Whether numbers have the same names, or none, in both folders."""
    ours, theirs = (None if found is None else found.table for found in map(artifact_names.read, (folder, prepared)))
    return ours is theirs if ours is None or theirs is None else ours.equals(theirs)
