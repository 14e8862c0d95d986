"""Mentions of phrases: which boxes of which pictures they name, and those that training sees."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.artifacts import images
from vse_pipe.artifacts import regions as artifacts_regions
from vse_pipe.core import memory
from vse_pipe.core.errors import InputError
from vse_pipe.prepare.engine.regions.proposing import clipped
from vse_pipe.prepare.engine.source import existing

# Bytes of a mention and its region: measured, 950.
_OF_MENTION = 1000


@dataclass(frozen=True)
class Mentions:
    """table: phrases.parquet; pictures: the rows of images.parquet that it speaks of, in their order; picture: of each mention
    the place in ``pictures``."""

    source: Path
    table: pa.Table
    pictures: pa.Table
    picture: np.ndarray

    @classmethod
    def read(cls, source: Path) -> "Mentions":
        """source: a folder below data/prepare. Raises MissingResource without it, InputError: a data set without phrases or
        one of regions, a phrase whose picture is not there or is of another split, more phrases than memory may hold."""
        if (existing(source) / artifacts_regions.NAME).exists():
            raise InputError(f"{source}: holds regions already; name the data set that has the whole pictures")
        if not (source / artifacts_regions.PHRASES).is_file():
            raise InputError(
                f"{source} has no {artifacts_regions.PHRASES}: its format gives no boxes of phrases; the formats entities, and shapes with "
                "phrases: true, do"
            )
        table, pictures = artifacts_regions.read_phrases(source), images.read(source)
        memory.take(str(source / artifacts_regions.PHRASES), table.num_rows * _OF_MENTION)
        rows = pc.index_in(table["image_id"].combine_chunks(), value_set=pictures["image_id"].combine_chunks())
        _refuse(source, table.filter(pc.is_null(rows)), f"{{image_id}} is no image_id of {images.NAME}")
        differs = pc.not_equal(pictures["split"].take(rows), table["split"])
        _refuse(source, table.filter(differs), "its split {split} is not that of image_id {image_id}")
        used, picture = np.unique(rows.to_numpy(zero_copy_only=False).astype(np.int64), return_inverse=True)
        return cls(source, table, pictures.take(pa.array(used)), picture)

    def boxes(self) -> np.ndarray:
        """(mentions, 4) float64."""
        return artifacts_regions.boxes(self.table)

    def whole_pixels(self, sizes: np.ndarray) -> np.ndarray:
        """``boxes`` in whole pixels inside the picture. sizes: int (pictures, 2), 0 for those that nobody can read, whose boxes
        stay where they are. Raises InputError for a box that lies outside of its picture."""
        boxes, of = self.boxes(), sizes[self.picture]
        edges = np.where(of > 0, of, np.ceil(boxes[:, 2:]) + 1)
        found = clipped(boxes, edges[:, 0], edges[:, 1])
        outside = (found[:, 2:] < found[:, :2]).any(axis=1)
        if outside.any():
            first = int(np.flatnonzero(outside)[0])
            told = ", ".join(f"{value:g}" for value in boxes[first])
            width, height = of[first].tolist()
            wrong = self.table.filter(pa.array(outside))
            _refuse(self.source, wrong, f"its box {told} lies outside the picture of {width} x {height} pixels")
        return found.astype(np.int64)

    def regions(self, boxes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The different boxes of each picture, pictures in order and boxes as they are first named: of each mention the number
        of its region, of each region its first mention. boxes: as of ``whole_pixels``."""
        keys = np.concatenate([self.picture[:, None], boxes], axis=1)
        _, first, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        order = np.lexsort([first, self.picture[first]])
        numbers = np.empty_like(order)
        numbers[order] = np.arange(len(order))
        return numbers[inverse.reshape(-1)], first[order]

    def numbered(self, regions: np.ndarray) -> pa.Table:
        """``table`` with these as ``region_id``."""
        at = self.table.schema.get_field_index("region_id")
        return self.table.set_column(at, artifacts_regions.PHRASES_SCHEMA.field("region_id"), pa.array(regions))

    def kept(self, region: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
        """Rows of the mentions that become captions, in order: all of val and test; of train one for each pair of a region and
        the words that name it, with no more than ``most`` regions for the same words, drawn by ``rng``."""
        train = np.flatnonzero(pc.equal(self.table["split"], "train").to_numpy())
        words = artifacts_regions.phrase_key(self.table).dictionary_encode().indices.to_numpy()[train]
        _, first = np.unique(np.stack([words, region[train]], axis=1), axis=0, return_index=True)
        order = np.lexsort([rng.random(len(first)), words[first]])
        ranked = words[first][order]
        place = np.arange(len(order)) - np.searchsorted(ranked, ranked)
        rest = np.setdiff1d(np.arange(len(region)), train)
        return np.sort(np.concatenate([rest, train[first[order[place < most]]]]))


def _refuse(source: Path, wrong: pa.Table, problem: str) -> None:
    if wrong.num_rows:
        first = wrong.slice(0, 1).to_pylist()[0]
        more = f" (and {wrong.num_rows - 1} more)" if wrong.num_rows > 1 else ""
        raise InputError(
            f"{source / artifacts_regions.PHRASES}: phrase_id {first['phrase_id']}: {problem.format(**first)}{more}"
        )
