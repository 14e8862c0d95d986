"""Features and shards that an earlier call left, recognised without building a network or importing torch.

Building one takes seconds, and most calls find nothing to do. What cannot be told this way is left to the long way: an
answer of False is never wrong.
"""

import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError
from pathlib import Path

from vse_pipe.artifacts import images
from vse_pipe.core import weights
from vse_pipe.core.files import sha256
from vse_pipe.extract.engine import fingerprint
from vse_pipe.project import paths
from vse_pipe.project.params.typed import FeatureSet

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
    if not (paths.prepared(node.dataset) / images.NAME).is_file():
        return False
    kind = _kind(device)
    if precision != _precision(node, kind, precision):
        return False
    try:
        own = fingerprint.own(node, kind, precision, [name for name in libraries if name != "numpy"])
    except PackageNotFoundError:
        return False
    network = {key: value for key, value in about.items() if key not in own}
    same = all(about.get(key) == value for key, value in own.items())
    return same and all(_unchanged(given, node, seed) for given in _given(network))


def _kind(device: str) -> str:
    gpus = [path for pattern in _GPUS for path in Path("/dev").glob(pattern)]
    if device == "cpu" or (device == "auto" and sys.platform == "linux" and not gpus):
        return "cpu"
    from vse_pipe.core import devices

    return devices.resolve_device(device).type


def _precision(node: FeatureSet, kind: str, found: str) -> str | None:
    """What ``precision`` comes to; ``found`` where the backbone has no choice, None where only torch knows."""
    wanted = getattr(node.backbone.params, "precision", found)
    if wanted != "auto":
        return wanted
    cpuinfo = Path("/proc/cpuinfo")
    if kind != "cpu" or not cpuinfo.is_file():
        return None
    flags = cpuinfo.read_text(encoding="utf-8", errors="replace").partition("flags")[2].partition("\n")[0]
    return "bfloat16" if {"amx_bf16", "avx512_bf16"} & set(flags.split()) else "float32"


def _given(value: object) -> Iterator[dict]:
    """Everything below ``value`` that speaks of weights or another file."""
    if isinstance(value, dict):
        if "origin" in value or "sha256" in value:
            yield value
        for below in value.values():
            yield from _given(below)
    elif isinstance(value, list):
        for below in value:
            yield from _given(below)


def _unchanged(given: dict, node: FeatureSet, seed: int) -> bool:
    origin, name = given.get("origin"), str(given.get("file"))
    if origin == "random":
        return given.get("seed") == seed
    if origin == "published":
        found = [weights.cache() / name]
    elif origin == "file":
        values = node.backbone.params.model_dump().values()
        found = [Path(value).expanduser() for value in values if isinstance(value, str) and Path(value).name == name]
    else:
        return False
    return any(path.is_file() and sha256(path) == given.get("sha256") for path in found)
