"""What an extraction does about images that cannot be read: stop at the first, or leave out a limited number of them."""

import math
from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.artifacts import images as image_table
from vse_pipe.core.errors import InputError
from vse_pipe.extract.engine.backbone import Failure
from vse_pipe.extract.engine.job import Job
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
            shown = job.table.take(job.places(number))
            files = dict(zip(shown["image_id"].to_pylist(), shown["file"].to_pylist(), strict=True))
            rows += [(one.image_id, files.get(one.image_id, "?"), one.detail) for one in group]
    columns = zip(*rows, strict=True) if rows else ([], [], [])
    return pa.table([list(column) for column in columns], schema=image_table.UNREADABLE_SCHEMA)


def check(node: FeatureSet, found: pa.Table, images: int, name: str) -> None:
    """found: as ``named`` gives it, of all images so far; images: of the whole data set; name: of the features.

    Raises InputError under ``fail`` naming the first, under ``skip`` when there are more than ``max_errors`` that ``prepare``
    has not listed, or nothing is left, with the list of them.
    """
    count, most = found.num_rows, limit(node, images)
    if not count:
        return
    beyond = count - len(_listed(node).intersection(found["image_id"].to_pylist()))
    if node.on_error == "skip" and beyond <= most and count < images:
        return
    shown = [
        f"{row['file']} (image_id {row['image_id']}) {row['reason']}" for row in found.slice(0, _SHOWN).to_pylist()
    ]
    if node.on_error == "fail":
        raise InputError(
            f"extract {name}: {shown[0]}; to leave such images out, set on_error: skip in datasets.{node.dataset}"
        )
    more = f"; and {count - _SHOWN} more" if count > _SHOWN else ""
    allowed = f"max_errors {node.max_errors:g} allows {most}" + (
        f" beside {count - beyond} of prepare's" * (beyond < count)
    )
    why = allowed if beyond > most else "none is left"
    raise InputError(f"extract {name}: {count} of {images} images cannot be read, {why}: {'; '.join(shown)}{more}")


def _listed(node: FeatureSet) -> set[int]:
    """image_ids of the pictures that ``prepare`` could not read either, and was told to leave to ``extract``."""
    table = image_table.read(paths.prepared(node.dataset)).select(["image_id", "width"])
    return set(table.filter(pc.equal(table["width"], 0))["image_id"].to_pylist())
