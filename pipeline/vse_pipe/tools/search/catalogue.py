"""What the data set says of the images and captions that are found: file, captions."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
from jaxtyping import Int64

from vse_pipe.artifacts import captions, images, joins
from vse_pipe.artifacts.names import TextIds
from vse_pipe.core import tables
from vse_pipe.core.errors import InputError, MissingResource
from vse_pipe.core.inside import inside
from vse_pipe.pictures.address import path_of
from vse_pipe.project import paths
from vse_pipe.tools.search import where
from vse_pipe.tools.search.columns import numbers

_IMAGES = ["image_id", "file", "width"]
_PRECOMPUTED = "_ims.npy#"
_CAPTIONS = ["caption_id", "image_id", "text"]


@dataclass(frozen=True)
class Catalogue:
    """dataset: its name; images, captions: the tables of data/prepare/<dataset>/; origins: as of ``read``."""

    dataset: str
    images: pa.Table
    captions: pa.Table
    origins: tuple[joins.Origin, ...] = ()

    @classmethod
    def read(cls, dataset: str, *origins: joins.Origin) -> "Catalogue":
        """origins: of the vectors whose ids are looked up. Raises MissingResource where the data set is not prepared, IntegrityError as
        ``joins.compared``, else as the artefacts' readers."""
        folder = paths.prepared(dataset)
        for name in (images.NAME, captions.NAME):
            if not (folder / name).is_file():
                raise MissingResource(
                    f"{folder / name} does not exist; make it with `vse-pipe prepare --dataset {dataset}`"
                )
        with joins.compared(folder, *origins):
            seen, read = (
                tables.read(folder / of.NAME, pa.schema([of.SCHEMA.field(name) for name in names]), columns=names)
                for of, names in ((images, _IMAGES), (captions, _CAPTIONS))
            )
        return cls(dataset, seen, read, origins)

    @cached_property
    def columns(self) -> pa.Table:
        """All of images.parquet. Raises IntegrityError where the data set was prepared anew since."""
        folder = paths.prepared(self.dataset)
        with joins.compared(folder, *self.origins):
            return tables.read(folder / images.NAME, images.SCHEMA)

    def fitting(self, condition: str, names: TextIds | None) -> Int64[np.ndarray, " images"]:
        """Ids of the images for which the condition holds; the column image_id is as the data set has it. Raises as
        ``where.rows``."""
        table, ids = self.columns, numbers(self.columns["image_id"])
        texts = None if names is None else names.texts("image_id", ids)
        shown = table if texts is None else table.set_column(table.column_names.index("image_id"), "image_id", texts)
        return ids[where.rows(condition, shown)]

    def file(self, image_id: int) -> str:
        """As images.parquet has it; of precomputed features the name in ``<split>_ids.txt``, where there is one."""
        file = self._of_image("file", image_id)
        return self._names.get(file, file) if _PRECOMPUTED in file else file

    def first_caption(self, image_id: int) -> str:
        """Empty where the image has none."""
        place = _place(self._first_captions, image_id)
        return "" if place is None else self.captions["text"][place].as_py()

    def text(self, caption_id: int) -> str:
        place = _place(self._caption_order, caption_id)
        if place is None:
            raise InputError(self._strange("caption_id", caption_id, captions.NAME))
        return self.captions["text"][place].as_py()

    def path(self, image_id: int) -> Path | None:
        """Where the image lies, as ``sources.read.at`` takes it: a file, or a member of a shard. None where the file is gone
        or the image exists as features only. Raises InputError for a name that leads out of the data set's root."""
        if not self._of_image("width", image_id):
            return None
        where = f"{paths.prepared(self.dataset) / images.NAME}: image_id {image_id}"
        root, file = images.root(self.images), self._of_image("file", image_id)
        return root / file if inside(root, path_of(file), where).is_file() else None

    def _of_image(self, column: str, image_id: int):
        place = _place(self._image_order, image_id)
        if place is None:
            raise InputError(self._strange("image_id", image_id, images.NAME))
        return self.images[column][place].as_py()

    def _strange(self, key: str, value: int, name: str) -> str:
        return f"{paths.prepared(self.dataset) / name}: no {key} {value}; prepare and embed the data set again"

    @cached_property
    def _names(self) -> dict[str, str]:
        found: dict[str, list[str]] = {}
        for file in self.images["file"].to_pylist():
            found.setdefault(file.rpartition(_PRECOMPUTED)[0], []).append(file)
        root = images.root(self.images)
        named: dict[str, str] = {}
        for prefix, files in found.items():
            named.update(zip(files, _lines_of(root / f"{prefix}_ids.txt", len(files)), strict=False))
        return named

    @cached_property
    def _image_order(self) -> tuple[np.ndarray, np.ndarray]:
        return _order(numbers(self.images["image_id"]))

    @cached_property
    def _caption_order(self) -> tuple[np.ndarray, np.ndarray]:
        return _order(numbers(self.captions["caption_id"]))

    @cached_property
    def _first_captions(self) -> tuple[np.ndarray, np.ndarray]:
        return np.unique(numbers(self.captions["image_id"]), return_index=True)


def _lines_of(path: Path, count: int) -> list[str]:
    """The lines of ``path``, one for each of ``count`` images; of a line a caption those that all of an image's have. Empty
    where there is no such file, or its lines name no images."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []
    each = len(lines) // count
    blocks = [{line.strip() for line in lines[start : start + each]} for start in range(0, each * count, each or 1)]
    fits = each * count == len(lines) and all(len(block) == 1 for block in blocks)
    return [block.pop() for block in blocks] if fits else []


def _order(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sorted, and where each of them lies."""
    order = np.argsort(ids, kind="stable")
    return ids[order], order


def _place(order: tuple[np.ndarray, np.ndarray], wanted: int) -> int | None:
    ids, places = order
    found = int(np.searchsorted(ids, wanted))
    return int(places[found]) if found < len(ids) and ids[found] == wanted else None
