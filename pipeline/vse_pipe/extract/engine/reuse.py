"""Rows that need not be computed: those of the same pictures, made alike, in the features that are there or in shards of an
extraction of another list of images that was interrupted."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa

from vse_pipe.artifacts import features as artefact
from vse_pipe.artifacts import images, joins
from vse_pipe.artifacts.features import Features
from vse_pipe.core.console import warn
from vse_pipe.core.errors import InputError, IntegrityError
from vse_pipe.core.files import read_json
from vse_pipe.extract.engine.job import Job, Reused, RowSource
from vse_pipe.extract.engine.shards import Damaged, Shards, earlier, mapped

# Files of a folder of features, shards included: what a new one replaces.
OURS = (artefact.ARRAY, artefact.INDEX, artefact.META, images.UNREADABLE, joins.NAME, "shards/*", "parts/*")
# Shards that are mapped at once: a map keeps its file open.
_mapped = lru_cache(maxsize=16)(mapped)


@dataclass(frozen=True)
class _Folder:
    held: Features

    def array(self, name: str) -> np.ndarray | None:
        return self.held.array if name == "features" else getattr(self.held, name)


@dataclass(frozen=True)
class _Shard:
    path: Path

    def array(self, name: str) -> np.ndarray | None:
        return _mapped(self.path).get(name)


def growing(job: Job, out: Path, verify: bool = True) -> Job:
    """``job`` without the rows that ``out`` holds already. verify: what is damaged there counts for nothing; without it contents
    are not compared with their digests, which takes a second a gigabyte."""
    if job.contents.null_count == len(job.contents):
        return job
    made = artefact.made(job.about)
    found = [*_of_folder(out, made, job, verify), *_of_shards(out, made, job, verify)]
    if not found:
        return job
    known, sources = zip(*found, strict=True)
    places = joins.places(job.contents, known)
    if places.null_count == len(places):
        return job
    sizes = list(map(len, known))
    there = places.is_valid().to_numpy(zero_copy_only=False)
    place = places.fill_null(0).to_numpy().astype(np.int64)
    number = np.repeat(np.arange(len(sources)), sizes)[place]
    row = place - np.repeat(np.cumsum([0, *sizes[:-1]]), sizes)[place]
    return replace(job, reused=Reused(sources, np.where(there, number, -1), row))


def shards_of(job: Job, out: Path) -> Shards:
    """The shards of ``job``, which keeps those of others whose rows it takes."""
    sources = () if job.reused is None else job.reused.sources
    return Shards(out, job.shards_digest, {one.path.parent for one in sources if isinstance(one, _Shard)})


def about_now(out: Path, images_sha256: str) -> Iterator[dict]:
    """What features of the images that are there now may follow from, as far as ``out`` tells: what earlier extractions did."""
    abouts = [manifest["about"] for manifest in earlier(out).values()]
    if (out / artefact.META).is_file():
        with contextlib.suppress(InputError):  # told where the features are looked at
            abouts.append(artefact.about(read_json(out / artefact.META)))
    seen = []
    for about in ({**one, artefact.IMAGES: images_sha256} for one in abouts):
        if about not in seen:
            seen.append(about)
            yield about


def _of_folder(out: Path, made: str, job: Job, verify: bool) -> Iterator[tuple[pa.ChunkedArray, RowSource]]:
    if not (out / artefact.META).is_file() or not (out / joins.NAME).is_file():
        return
    try:
        known, how = joins.read(out)
        # Under the job's own fingerprint they would be what is wanted, were they not damaged.
        if how == made and read_json(out / artefact.META).get("fingerprint") != job.digest:
            held = artefact.read(out, verify)
            if len(known) == len(held.array):
                yield known, _Folder(held)
    except (InputError, IntegrityError) as error:
        warn(f"{error}; doing so now")


def _of_shards(out: Path, made: str, job: Job, verify: bool) -> Iterator[tuple[pa.Array, RowSource]]:
    """Of lists of images other than the job's: its own shards it knows by their numbers."""
    for manifest in earlier(out).values():
        about = manifest["about"]
        if about.get(artefact.IMAGES) == job.about[artefact.IMAGES] or artefact.made(about) != made:
            continue
        shards = Shards(out, manifest["fingerprint"])
        for number, path in shards.found().items():
            with contextlib.suppress(Damaged):
                yield from _of_shard(shards, number, path, verify)


def _of_shard(shards: Shards, number: int, path: Path, verify: bool) -> Iterator[tuple[pa.Array, RowSource]]:
    manifest = shards.manifest(number, path)
    if verify:
        shards.rows(number, path)
    failed = {failure.image_id for failure in manifest["failures"]}
    known = [content for image_id, content in manifest.get("contents", []) if image_id not in failed]
    if known and len(known) == manifest["rows"]:
        yield pa.array(known, pa.string()), _Shard(path)
