"""The digests that artefacts keep: in meta.json, config.json, a Parquet file, or a file's own name; and those in dvc.lock."""

import re
from pathlib import Path

import pyarrow as pa

from vse_pipe.artifacts import features, fragments, images, model_files
from vse_pipe.core import parquet, tables
from vse_pipe.core.errors import InputError, IntegrityError
from vse_pipe.core.files import read_json
from vse_pipe.core.inside import inside
from vse_pipe.pictures.address import cut, path_of
from vse_pipe.project.lock import Lock, Recorded
from vse_pipe.tools.verify.finding import IN_IMAGES, IN_LOCK, NAMED, OWN, PAGES, READABLE, SHA256, Claim

# Documents that name the digests of the files beside them under ``sha256``: of the array alone, or by file.
_DOCUMENTS = (features.META, model_files.CONFIG, "manifest.json")
_IN_NAME = re.compile(r"-([0-9a-f]{8,64})\.\w+$")
_PARTS = ("parts", "shards")
# Names of rows of an array, which `vse-pipe extract` compares with their digests when it reads them.
_ROW = re.compile(r".+\.npy#\d+")
_STATE = "state.safetensors"
# What DVC, git and the pipeline itself put beside and into outputs.
_NOT_OURS = (".lock", ".timing.json", ".partial", ".tmp", ".pyc", ".gitignore")


def claims(folder: Path, lock: Lock | None) -> list[Claim]:
    """One for each file in and below ``folder`` whose digest somebody kept. lock: None outside a project."""
    found = {path: Claim(path, SHA256, digest) for path, digest in _documented(folder).items()}
    for path in sorted(path for name in _PARTS for path in folder.glob(f"{name}/**/*") if path.is_file()):
        match = _IN_NAME.search(path.name)
        if match:
            found.setdefault(path, Claim(path, NAMED, match[1]))
    for path, digest in _pictures(folder).items():
        found.setdefault(path, Claim(path, IN_IMAGES, digest))
    for path, digest in (locked(folder, lock) if lock else {}).items():
        found.setdefault(path, Claim(path, IN_LOCK, digest))
    for path in sorted(folder.rglob("*.parquet")):
        found.setdefault(path, Claim(path, PAGES))
    for path in sorted(folder.rglob(_STATE)):
        found.setdefault(path, Claim(path, OWN))
    for path in _documents(folder):
        # Of those that can be read nothing is claimed: their digest nobody keeps.
        if unreadable(path):
            found.setdefault(path, Claim(path, READABLE))
    return list(found.values())


def unreadable(path: Path) -> str:
    """What is wrong with a JSON document; empty where nothing is."""
    try:
        read_json(path)
    except InputError as error:
        return str(error).removeprefix(f"{path}: ")
    return ""


def files(folder: Path) -> list[Path]:
    """Everything below ``folder`` that an artefact consists of."""
    return [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not any(part.endswith(_NOT_OURS) for part in path.relative_to(folder).parts)
    ]


def locked(folder: Path, lock: Lock) -> dict[Path, str]:
    """md5 by path, as dvc.lock and the listing in DVC's cache have them: of an output whose stage has not changed since it
    was recorded. After a change, or a run by hand under other parameters, other bytes are no damage."""
    recorded = lock.outs.get(str(folder))
    if recorded is None or lock.changed(recorded.stage):
        return {}
    return {folder / name: digest for name, digest in (lock.files(recorded) or {}).items()}


def whole_folder(folder: Path, lock: Lock) -> Recorded | None:
    """What dvc.lock has of a folder whose listing is not in the cache: one digest for all of it."""
    recorded = lock.outs.get(str(folder))
    if recorded is None or lock.files(recorded) is not None or lock.changed(recorded.stage):
        return None
    return recorded


def _documented(folder: Path) -> dict[Path, str]:
    """What an unreadable document names is unknown; ``claims`` names the document itself."""
    found: dict[Path, str] = {}
    for path in _documents(folder):
        found |= {path.parent / name: digest for name, digest in _named(path).items()}
    for path in sorted(folder.rglob(fragments.WEIGHTS)):
        digest = _footer(path.with_name("images.parquet")).get(b"weights_sha256")
        if digest:
            found[path] = digest.decode()
    return found


def _documents(folder: Path) -> list[Path]:
    return sorted(path for name in _DOCUMENTS for path in folder.rglob(name))


def _named(path: Path) -> dict[str, str]:
    if unreadable(path):
        return {}
    recorded = read_json(path).get("sha256")
    if isinstance(recorded, str):
        return {features.ARRAY: recorded}
    if not isinstance(recorded, dict):
        return {}
    # A name is data: none may lead out of the folder.
    below = {name for name in recorded if not Path(name).is_absolute() and ".." not in Path(name).parts}
    return {name: digest for name, digest in recorded.items() if name in below and isinstance(digest, str)}


def _footer(path: Path) -> dict[bytes, bytes]:
    found = _schema(path)
    return {} if found is None else found.metadata or {}


def _pictures(folder: Path) -> dict[Path, str]:
    """The images of a prepared data set, wherever they lie: images.parquet has the digest of each."""
    path = folder / images.NAME
    if not path.is_file() or "file" not in _columns(path):
        return {}
    try:
        table = tables.read(path, images.SCHEMA)
    except (InputError, IntegrityError):
        return {}  # said where the file itself is verified
    root = images.root(table)
    rows = zip(table["file"].to_pylist(), table["sha256"].to_pylist(), strict=True)
    files = {
        cut(name)[0]: digest for name, digest in rows if digest and digest != images.UNREAD and not _ROW.fullmatch(name)
    }
    return {_place(root, name, str(path)): digest for name, digest in files.items()}


def _place(root: Path, name: str, where: str) -> Path:
    """As ``sources.read.at`` takes it. Raises InputError for a name that leads out of ``root``."""
    inside(root, path_of(name), where)
    return root / name


def _columns(path: Path) -> list[str]:
    found = _schema(path)
    return [] if found is None else found.names


def _schema(path: Path) -> pa.Schema | None:
    try:
        with parquet.opened(path) as file:
            return file.schema
    except (OSError, InputError, IntegrityError):
        return None  # said where the file itself is verified
