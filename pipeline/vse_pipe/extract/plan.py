"""What `vse-pipe extract --features` would do, from images.parquet, meta.json and params.yaml alone."""

import math
from pathlib import Path

from vse_pipe.artifacts import contents, features, images
from vse_pipe.core.errors import InputError, IntegrityError
from vse_pipe.core.files import read_json, sha256
from vse_pipe.project import paths
from vse_pipe.project.params.typed import FeatureSet, Params
from vse_pipe.project.step import AGAIN, DONE, FLOAT32, GOES_ON, RUNS, Earlier, Step, rows_in, seconds

_DIMENSIONS = {"resnet152": 2048, "vgg19": 4096, "inception_resnet_v2": 1536}
_PARTS = ("parts", "shards")
_ITSELF = "{}; the command itself compares weights, code and versions too"


def plan(params: Params, name: str) -> Step:
    node = params.features[name]
    out, source = paths.extracted(node.dataset, name), paths.prepared(node.dataset) / images.NAME
    count = rows_in(source)
    if count is None:
        raise InputError(f"{source}: damaged Parquet file; run `vse-pipe prepare --dataset {node.dataset}` again")
    meta = _meta(params, name)
    shape = _shape(node, meta, count)
    earlier = [
        Earlier(paths.extracted(params.features[one].dataset, one), _rows(params, one)) for one in _alike(params, name)
    ]
    new = _new(node, out, meta, count)
    spent, because = seconds(new, earlier)
    state = RUNS
    if meta is not None and _same(node, meta) and meta.get("images_sha256") == sha256(source):
        state, spent = DONE, 0.0
        because = _ITSELF.format("same images and parameters")
    elif any((out / part).is_dir() for part in _PARTS):
        state = GOES_ON
    elif meta is not None:
        state = AGAIN
    told = {"images": count}
    if new < count and state != DONE:
        told, because = told | {"new": new}, _ITSELF.format("the others were computed with the same parameters")
    width = 2 if node.backbone.params.store == "float16" else FLOAT32
    written = None if shape is None else math.prod(shape) * width
    return Step("extract", name, str(out), state, told, 0 if state == DONE else written, spent, because)


def _new(node: FeatureSet, out: Path, meta: dict | None, count: int) -> int:
    """How many pictures no earlier call has computed, as far as parameters tell."""
    if meta is None or not _same(node, meta) or not (out / contents.NAME).is_file():
        return count
    try:
        known = contents.read(out)[0]
    except (InputError, IntegrityError):  # the command itself says so
        return count
    return contents.places(contents.of(images.read(paths.prepared(node.dataset))), [known]).null_count


def _meta(params: Params, name: str) -> dict | None:
    path = paths.extracted(params.features[name].dataset, name) / features.META
    return read_json(path) if path.is_file() else None


def _rows(params: Params, name: str) -> int | None:
    shape = (_meta(params, name) or {}).get("shape")
    return shape[0] if isinstance(shape, list) and shape else None


def _alike(params: Params, name: str) -> list[str]:
    """This node, then others with the same backbone and options."""
    wanted = params.features[name].backbone
    return [name, *(one for one, node in params.features.items() if one != name and node.backbone == wanted)]


def _same(node: FeatureSet, meta: dict) -> bool:
    asked = node.backbone.params.model_dump(mode="json")
    return meta.get("backbone") == node.backbone.name and all(
        value == asked.get(key, value) for key, value in (meta.get("params") or {}).items()
    )


def _shape(node: FeatureSet, meta: dict | None, count: int) -> tuple[int, ...] | None:
    """(rows, D) or (rows, R, D): as it lies there, or what the backbone is known to give; None where only the network
    itself can tell."""
    options = node.backbone.params
    if meta and meta.get("backbone") == node.backbone.name and _same(node, meta) and meta.get("shape"):
        return (count, *meta["shape"][1:])
    if node.backbone.name == "random_filters":
        return count, 2 * options.filters
    if node.backbone.name == "bottom_up":
        return count, options.regions, options.dimensions
    dimensions = _DIMENSIONS.get(node.backbone.name)
    return None if dimensions is None else (count, dimensions)
