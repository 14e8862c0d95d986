"""Features and shards of earlier extractions: recognised, reused and put together."""

import contextlib
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.artifacts import digests, identity, images
from vse_pipe.artifacts import features as artefact
from vse_pipe.core import weights
from vse_pipe.core.console import warn
from vse_pipe.core.errors import InputError, IntegrityError
from vse_pipe.core.files import read_json, sha256, whole_folder
from vse_pipe.extract import job
from vse_pipe.extract.job import Damaged, Failure, Job, Reused, RowSource, Shards, earlier_manifests, tensor
from vse_pipe.project import paths
from vse_pipe.project.params.typed import FeatureSet

# Files of a folder of features, shards included; a new folder replaces them.
OURS = (artefact.ARRAY, artefact.INDEX, artefact.META, images.UNREADABLE, digests.NAME, "shards/*", "parts/*")
# Shards of an earlier extraction whose arrays are in memory at once.
_tensor = lru_cache(maxsize=4)(tensor)


def with_reused_rows(job: Job, out: Path) -> Job:
    """``job`` with the rows of the same pictures that ``out`` holds already.

    They come from its features or from shards of an interrupted extraction of another list of images. Contents are
    compared with their digests, about a second a gigabyte, and damaged files are left out."""
    if job.contents.null_count == len(job.contents):
        return job
    digest = artefact.row_digest(job.about)
    parts = [*_features_in(out, digest, job), *_shards_in(out, digest, job)]
    if not parts:
        return job
    contents, sources = zip(*parts, strict=True)
    places = digests.places(job.contents, contents)
    if places.null_count == len(places):
        return job
    sizes = list(map(len, contents))
    is_reused = places.is_valid().to_numpy(zero_copy_only=False)
    place = places.fill_null(0).to_numpy().astype(np.int64)
    number = np.repeat(np.arange(len(sources)), sizes)[place]
    row = place - np.repeat(np.cumsum([0, *sizes[:-1]]), sizes)[place]
    return replace(job, reused=Reused(sources, np.where(is_reused, number, -1), row))


def shards_of(job: Job, out: Path) -> Shards:
    """The shards of ``job``. Shards of other extractions are kept when it reuses their rows."""
    sources = () if job.reused is None else job.reused.sources
    return Shards(out, job.shards_digest, {source.folder for source in sources if source.folder is not None})


def _features_in(out: Path, digest: str, job: Job) -> Iterator[tuple[pa.ChunkedArray, RowSource]]:
    if not (out / artefact.META).is_file() or not (out / digests.NAME).is_file():
        return
    try:
        contents, contents_digest = digests.read(out)
        # Features with the fingerprint of the job are finished, so they come here only when they are damaged.
        if contents_digest == digest and read_json(out / artefact.META).get("fingerprint") != job.digest:
            features = artefact.read(out)
            if len(contents) == len(features.array):
                arrays = {"features": features.array, "boxes": features.boxes, "scores": features.scores}
                yield contents, RowSource(arrays.get)
    except (InputError, IntegrityError) as error:
        warn(f"{error}; doing so now")


def _shards_in(out: Path, digest: str, job: Job) -> Iterator[tuple[pa.Array, RowSource]]:
    """Shards of other lists of images; shards of the same list are recognised by their numbers."""
    for manifest in earlier_manifests(out).values():
        about = manifest["about"]
        if about.get(artefact.IMAGES) == job.about[artefact.IMAGES] or artefact.row_digest(about) != digest:
            continue
        shards = Shards(out, manifest["fingerprint"])
        for number, path in shards.files().items():
            with contextlib.suppress(Damaged):
                shard = shards.manifest(number, path)
                shards.rows(number, path)
                failed = {failure.image_id for failure in shard["failures"]}
                contents = [content for image_id, content in shard.get("contents", []) if image_id not in failed]
                if contents and len(contents) == shard["rows"]:
                    yield pa.array(contents, pa.string()), RowSource(partial(_tensor, path), path.parent)


def _sources(job: Job, shards: Shards, manifests: list[dict], failed: np.ndarray) -> Reused:
    """The source and row of every image with features: earlier extractions, then the shards of this one.

    failed: bool (N,), images without features."""
    none = np.full(len(failed), -1)
    reused = job.reused or Reused((), none, none)
    sources, number, row = [*reused.sources], reused.number.copy(), reused.row.copy()
    # Two shards are in memory at once: reused rows between them shift the blocks.
    load = lru_cache(maxsize=2)(partial(_array, shards, shards.files(), manifests))
    for shard in range(len(manifests)):
        places = job.places(shard)
        places = places[~failed[places]]
        number[places], row[places] = len(sources), np.arange(len(places))
        sources.append(RowSource(partial(load, shard)))
    return Reused(tuple(sources), number, row)


def _array(shards: Shards, files: dict[int, Path], manifests: list[dict], number: int, name: str) -> np.ndarray | None:
    """An array of a shard, whose file is compared with its digest where the features are read. Raises Damaged."""
    if name != "features":
        return tensor(files[number], name)
    arrays, count = shards.rows(number, files[number]), manifests[number]["rows"]
    if "features" not in arrays or any(array.shape[:1] != (count,) for array in arrays.values()):
        raise Damaged(number, files[number], "its features are not those that its manifest speaks of")
    return arrays["features"]


def _taken(rows: Reused, places: np.ndarray, name: str) -> np.ndarray | None:
    """(len(places), ...): the rows of these images; None when no source has the array."""
    number, row = rows.number[places], rows.row[places]
    taken: np.ndarray | None = None
    for source in np.unique(number).tolist():
        if (values := rows.sources[source].array(name)) is None:
            continue
        if taken is None:
            taken = np.empty((len(places), *values.shape[1:]), values.dtype)
        taken[number == source] = values[row[number == source]]
    return taken


_FINE = Failure(0, artefact.OK, "")


def assemble(job: Job, shards: Shards, out: Path) -> None:
    """Write the features as a folder that replaces ``out`` and its shards; one shard at a time is in memory.

    After a kill at any moment ``out`` is unchanged, or the next ``claim`` restores it. Raises Damaged for a damaged
    shard, InputError when no image could be read."""
    files = shards.files()
    manifests = [_checked(job, shards, number, files[number]) for number in range(job.count)]
    failures = {failure.image_id: failure for manifest in manifests for failure in manifest["failures"]}
    count = job.table.num_rows - len(failures)
    if not count:
        reason = next(iter(failures.values())).detail
        raise InputError(
            f"{job.where}: none of its {job.table.num_rows} images has features, the first for this reason: {reason}"
        )
    failed = np.isin(job.table["image_id"].to_numpy(), list(failures))
    sources = _sources(job, shards, manifests, failed)
    starts = range(0, len(failed), job.size)
    blocks = [start + np.flatnonzero(~failed[start : start + job.size]) for start in starts]
    features = (_taken(sources, places, "features") for places in blocks if len(places))
    rows = (values for values in features if values is not None)
    index = (
        _index(job.table["image_id"].slice(start, job.size).to_numpy(), sources, places, failures)
        for start, places in zip(starts, blocks, strict=True)
    )

    def write_rest() -> None:
        images.write_unreadable(
            folder, unreadable_table(job, ((number, manifest["failures"]) for number, manifest in enumerate(manifests)))
        )
        digests.write(folder, job.contents.filter(pa.array(~failed)), artefact.row_digest(job.about))

    with whole_folder(out, OURS) as folder:
        artefact.write_blocks(
            folder, rows, count, _numbered(index), {**job.about, "fingerprint": job.digest}, write_rest
        )
        prepared = str(paths.prepared(job.about["dataset"]))
        read = {prepared: {"images": job.about[artefact.IMAGES]}}
        identity.write(folder, read, {"features": read_json(folder / artefact.META)["sha256"]})


def _checked(job: Job, shards: Shards, number: int, path: Path) -> dict:
    manifest, expected = shards.manifest(number, path), job.manifest(number)
    ids = set(job.ids(number).to_pylist())
    missing = {failure.image_id for failure in manifest["failures"]}
    is_complete = len(missing) == len(manifest["failures"]) and manifest.get("rows") == len(ids - missing)
    if not is_complete or not missing <= ids or any(manifest.get(key) != value for key, value in expected.items()):
        raise Damaged(number, path, "its manifest does not fit images.parquet")
    return manifest


def _index(ids: np.ndarray, sources: Reused, rows: np.ndarray, failures: dict[int, Failure]) -> pa.Table:
    """A row of index.parquet for each image, numbered from 0; images without features have the reason in ``detail``."""
    missing = np.isin(ids, list(failures))
    places = pa.array(np.cumsum(~missing) - 1, pa.int64(), mask=missing)
    reasons = [failures.get(image_id, _FINE) for image_id in ids.tolist()]
    columns = {
        "image_id": ids,
        "row": places,
        "status": [reason.status for reason in reasons],
        "detail": [reason.detail for reason in reasons],
    }
    for name in artefact.BESIDE:
        values = _taken(sources, rows, name)
        columns[name] = pa.nulls(len(ids)) if values is None else artefact.lists(values).take(places)
    return pa.table(columns)


def _numbered(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """The tables with rows numbered on from table to table."""
    first = 0
    for table in tables:
        rows = table["row"]
        yield table.set_column(1, "row", pc.add(rows, first))
        first += len(rows) - rows.null_count


_SHOWN = 20


def limit(node: FeatureSet, images: int) -> int:
    """The number of ``images`` that may be left out; a share is rounded up."""
    if node.on_error == "fail":
        return 0
    return int(node.max_errors) if node.max_errors >= 1 else math.ceil(node.max_errors * images)


def unreadable_table(job: Job, failures: Iterable[tuple[int, Sequence[Failure]]]) -> pa.Table:
    """The rows of errors.parquet. failures: numbers of shards with their failures."""
    rows = []
    for number, group in failures:
        if group:
            table = job.table.take(job.places(number))
            files = dict(zip(table["image_id"].to_pylist(), table["file"].to_pylist(), strict=True))
            rows += [(failure.image_id, files.get(failure.image_id, "?"), failure.detail) for failure in group]
    columns = zip(*rows, strict=True) if rows else ([], [], [])
    return pa.table([list(column) for column in columns], schema=images.UNREADABLE_SCHEMA)


def require_allowed(node: FeatureSet, failures: pa.Table, images: int, name: str) -> None:
    """Check the failures so far. failures: as of ``unreadable_table``; images: of the data set; name: of the features.

    Raises InputError under ``fail`` for the first failure. Under ``skip`` it is raised for more than ``max_errors``
    failures beside those that ``prepare`` listed, and when no image is left."""
    count, most = failures.num_rows, limit(node, images)
    if not count:
        return
    beyond = count - len(_unread_by_prepare(node).intersection(failures["image_id"].to_pylist()))
    if node.on_error == "skip" and beyond <= most and count < images:
        return
    examples = [
        f"{row['file']} (image_id {row['image_id']}) {row['reason']}" for row in failures.slice(0, _SHOWN).to_pylist()
    ]
    if node.on_error == "fail":
        raise InputError(
            f"extract {name}: {examples[0]}; to leave such images out, set on_error: skip in datasets.{node.dataset}"
        )
    more = f"; and {count - _SHOWN} more" if count > _SHOWN else ""
    allowed = f"max_errors {node.max_errors:g} allows {most}" + (
        f" beside {count - beyond} of prepare's" * (beyond < count)
    )
    reason = allowed if beyond > most else "none is left"
    raise InputError(
        f"extract {name}: {count} of {images} images cannot be read, {reason}: {'; '.join(examples)}{more}"
    )


def _unread_by_prepare(node: FeatureSet) -> set[int]:
    """image_ids of the pictures that ``prepare`` could not read either and left to ``extract``."""
    table = images.read(paths.prepared(node.dataset)).select(["image_id", "width"])
    return set(table.filter(pc.equal(table["width"], 0))["image_id"].to_pylist())


# Devices of GPUs that torch supports: NVIDIA's (also on ARM boards and under WSL) and AMD's.
_GPUS = ("nvidia*", "nvhost*", "nvgpu*", "nvmap", "dxg", "kfd")


def is_settled(about: dict, node: FeatureSet, seed: int, device: str) -> bool:
    """Return whether an extraction of ``node`` would have this ``about``; no network is built and torch is not
    imported.

    Building a network takes seconds, and most calls have nothing to compute. Parameters, code, libraries,
    images.parquet, device, precision and digests of weights files are compared. Doubtful cases return False, and the
    network decides. device: as on the command line. Raises UsageError as ``resolve_device``."""
    libraries, precision = about.get("libraries"), about.get("precision")
    if not isinstance(libraries, dict) or not isinstance(precision, str):
        return False
    if not (paths.prepared(node.dataset) / images.NAME).is_file():
        return False
    kind = _kind(device)
    if precision != _precision(node, kind, precision):
        return False
    try:
        light = job.describe_without_network(node, kind, precision, [name for name in libraries if name != "numpy"])
    except PackageNotFoundError:
        return False
    network = {key: value for key, value in about.items() if key not in light}
    same = all(about.get(key) == value for key, value in light.items())
    return same and all(_is_unchanged(file, node, seed) for file in _weights_in(network))


def _kind(device: str) -> str:
    gpus = [path for pattern in _GPUS for path in Path("/dev").glob(pattern)]
    if device == "cpu" or (device == "auto" and sys.platform == "linux" and not gpus):
        return "cpu"
    from vse_pipe.core import devices

    return devices.resolve_device(device).type


def _precision(node: FeatureSet, kind: str, precision: str) -> str | None:
    """The resolved precision; ``precision`` for a backbone without this option, None when only torch can decide."""
    choice = getattr(node.backbone.params, "precision", precision)
    if choice != "auto":
        return choice
    cpuinfo = Path("/proc/cpuinfo")
    if kind != "cpu" or not cpuinfo.is_file():
        return None
    flags = cpuinfo.read_text(encoding="utf-8", errors="replace").partition("flags")[2].partition("\n")[0]
    return "bfloat16" if {"amx_bf16", "avx512_bf16"} & set(flags.split()) else "float32"


def _weights_in(value: object) -> Iterator[dict]:
    """The dictionaries in ``value`` that describe weights or another file."""
    if isinstance(value, dict):
        if "origin" in value or "sha256" in value:
            yield value
        for below in value.values():
            yield from _weights_in(below)
    elif isinstance(value, list):
        for below in value:
            yield from _weights_in(below)


def _is_unchanged(about: dict, node: FeatureSet, seed: int) -> bool:
    origin, name = about.get("origin"), str(about.get("file"))
    if origin == "random":
        return about.get("seed") == seed
    if origin == "published":
        candidates = [weights.cache() / name]
    elif origin == "file":
        values = node.backbone.params.model_dump().values()
        paths_of_params = [Path(value).expanduser() for value in values if isinstance(value, str)]
        candidates = [path for path in paths_of_params if path.name == name]
    else:
        return False
    return any(path.is_file() and sha256(path) == about.get("sha256") for path in candidates)
