"""What an extraction does about images that cannot be read: stop at the first, or leave out a limited number of them."""

import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.artifacts import images as image_table
from vse_pipe.core import weights
from vse_pipe.core.errors import InputError
from vse_pipe.core.files import sha256
from vse_pipe.extract import job
from vse_pipe.extract.backbone import Failure
from vse_pipe.extract.job import Job
from vse_pipe.project import paths
from vse_pipe.project.params.typed import FeatureSet

_SHOWN = 20


def limit(node: FeatureSet, images: int) -> int:
    """How many of ``images`` may be left out; of a share at least one."""
    if node.on_error == "fail":
        return 0
    return int(node.max_errors) if node.max_errors >= 1 else math.ceil(node.max_errors * images)


def named(job: Job, failures: Iterable[tuple[int, Sequence[Failure]]]) -> pa.Table:
    """The rows of errors.parquet for the failures of some shards, each with its number."""
    rows = []
    for number, group in failures:
        if group:
            table = job.table.take(job.places(number))
            files = dict(zip(table["image_id"].to_pylist(), table["file"].to_pylist(), strict=True))
            rows += [(failure.image_id, files.get(failure.image_id, "?"), failure.detail) for failure in group]
    columns = zip(*rows, strict=True) if rows else ([], [], [])
    return pa.table([list(column) for column in columns], schema=image_table.UNREADABLE_SCHEMA)


def check(node: FeatureSet, failures: pa.Table, images: int, name: str) -> None:
    """found: as ``named`` gives it, of all images so far; images: of the whole data set; name: of the features.

    Raises InputError under ``fail`` naming the first, under ``skip`` when there are more than ``max_errors`` that ``prepare``
    has not listed, or nothing is left, with the list of them.
    """
    count, most = failures.num_rows, limit(node, images)
    if not count:
        return
    beyond = count - len(_listed(node).intersection(failures["image_id"].to_pylist()))
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


def _listed(node: FeatureSet) -> set[int]:
    """image_ids of the pictures that ``prepare`` could not read either, and was told to leave to ``extract``."""
    table = image_table.read(paths.prepared(node.dataset)).select(["image_id", "width"])
    return set(table.filter(pc.equal(table["width"], 0))["image_id"].to_pylist())


# Features and shards that an earlier call left, recognised without building a network or importing torch.
#
# Building one takes seconds, and most calls find nothing to do. What cannot be told this way is left to the long way: an
# answer of False is never wrong.

# Without one of these there is no GPU that torch could find: NVIDIA's (also on ARM boards and under WSL) and AMD's.
_GPUS = ("nvidia*", "nvhost*", "nvgpu*", "nvmap", "dxg", "kfd")


def settled(about: dict, node: FeatureSet, seed: int, device: str) -> bool:
    """Whether an extraction of ``node`` would follow from ``about`` and from nothing else.

    Parameters, code, libraries, images.parquet, device and precision are compared, and the weights files' digests. device: as
    on the command line; raises UsageError as ``device.resolve``.
    """
    libraries, precision = about.get("libraries"), about.get("precision")
    if not isinstance(libraries, dict) or not isinstance(precision, str):
        return False
    if not (paths.prepared(node.dataset) / image_table.NAME).is_file():
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
    """What ``precision`` comes to; ``found`` where the backbone has no choice, None where only torch knows."""
    choice = getattr(node.backbone.params, "precision", precision)
    if choice != "auto":
        return choice
    cpuinfo = Path("/proc/cpuinfo")
    if kind != "cpu" or not cpuinfo.is_file():
        return None
    flags = cpuinfo.read_text(encoding="utf-8", errors="replace").partition("flags")[2].partition("\n")[0]
    return "bfloat16" if {"amx_bf16", "avx512_bf16"} & set(flags.split()) else "float32"


def _weights_in(value: object) -> Iterator[dict]:
    """Everything below ``value`` that speaks of weights or another file."""
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
        candidates = [
            Path(value).expanduser() for value in values if isinstance(value, str) and Path(value).name == name
        ]
    else:
        return False
    return any(path.is_file() and sha256(path) == about.get("sha256") for path in candidates)
