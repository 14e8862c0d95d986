"""A data set of regions: the boxes of phrases, proposed boxes, and the recall of the proposals."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from PIL import Image

from vse_pipe.artifacts import images as artifacts_images
from vse_pipe.artifacts import regions as artifacts_regions
from vse_pipe.core import memory
from vse_pipe.core.console import track
from vse_pipe.core.errors import InputError
from vse_pipe.core.seeds import generator
from vse_pipe.pictures import images
from vse_pipe.pictures.address import Box
from vse_pipe.prepare.source import RegionRows, Source, caption_table, existing, image_table
from vse_pipe.ranking import boxes

# Flickr30k Entities: a proposal covers a box from this intersection over union on.
OVERLAP = 0.5


def covered(mentions: list[np.ndarray], proposals: list[np.ndarray]) -> np.ndarray:
    """bool for each mention, picture by picture: whether a proposal of its picture has an IoU of ``OVERLAP`` or more.

    mentions, proposals: (n, 4) for each picture, as of ``vse_pipe.ranking.boxes``. The share of covered mentions is the
    highest recall of any model that ranks the proposals."""
    hits = [
        (boxes.iou(*map(torch.from_numpy, pair)).amax(dim=1) >= OVERLAP).numpy()
        for pair in zip(mentions, proposals, strict=True)
    ]
    return np.concatenate(hits) if hits else np.zeros(0, dtype=bool)


class Proposed(NamedTuple):
    """boxes: float64 (n, 4), x1, y1, x2, y2 in pixels of the upright picture from 0, corners inside; scores: (n,)."""

    boxes: np.ndarray
    scores: np.ndarray

    @classmethod
    def ranked(cls, edges: np.ndarray) -> "Proposed":
        """Boxes of a method without scores: evenly falling from 1 for the first box. edges: x1, y1, x2, y2 between
        pixels, so that x2 - x1 is a width."""
        return cls(edges - np.array([0.0, 0.0, 1.0, 1.0]), np.linspace(1, 0, len(edges), endpoint=False))


@dataclass(frozen=True)
class Picture:
    """A picture that boxes are proposed for. item: its row of images.parquet; width, height: pixels, upright."""

    root: Path
    item: images.Item
    width: int
    height: int

    def load(self) -> Image.Image:
        """The picture, upright and in RGB. Raises as ``images.load``."""
        return images.load(self.root, self.item)


Proposer = Callable[[Picture], Proposed]


def settled(proposed: Proposed, picture: Picture, count: int) -> Proposed:
    """The ``count`` best boxes, with equal scores the first: in whole pixels and cut at the edges of the picture.

    Boxes outside the picture are dropped; of equal boxes the best score stays. Raises InputError when no box is left.
    """
    boxes = clipped(proposed.boxes, picture.width, picture.height)
    inside = (boxes[:, 2:] >= boxes[:, :2]).all(axis=1)
    boxes, scores = boxes[inside], proposed.scores[inside]
    order = np.argsort(-scores, kind="stable")
    _, first = np.unique(boxes[order], axis=0, return_index=True)
    chosen = order[np.sort(first)[:count]]
    if not len(chosen):
        raise InputError(f"{picture.item.where}: no box was proposed for {picture.item.file}")
    return Proposed(boxes[chosen], scores[chosen])


def clipped(boxes: np.ndarray, width, height) -> np.ndarray:
    """The whole pixels of each box, cut at the edges of the picture; x2 < x1 or y2 < y1 for a box outside of it.

    width, height: of the picture, numbers or an array with a value for each box."""
    low = np.maximum(np.floor(boxes[:, :2]), 0)
    high = np.minimum(np.ceil(boxes[:, 2:]), np.stack(np.broadcast_arrays(width, height), axis=-1) - 1)
    return np.concatenate([low, high], axis=1)


# Bytes of a mention and its region; 950 were measured.
_MENTION_BYTES = 1000


@dataclass(frozen=True)
class Mentions:
    """table: phrases.parquet; pictures: rows of images.parquet with mentions, in their order; picture: the place in
    ``pictures`` of each mention."""

    source: Path
    table: pa.Table
    pictures: pa.Table
    picture: np.ndarray

    @classmethod
    def read(cls, source: Path) -> "Mentions":
        """The mentions in ``source``, a folder below data/prepare. Raises MissingResource without it; InputError for a
        data set without phrases or one of regions, and for too many phrases."""
        if (existing(source) / artifacts_regions.NAME).exists():
            raise InputError(f"{source}: holds regions already; name the data set that has the whole pictures")
        if not (source / artifacts_regions.PHRASES).is_file():
            raise InputError(
                f"{source} has no {artifacts_regions.PHRASES}: its format gives no boxes of phrases; the formats entities, and shapes with phrases: true, do"
            )
        table, pictures = artifacts_regions.read_phrases(source), artifacts_images.read(source)
        memory.reserve(str(source / artifacts_regions.PHRASES), table.num_rows * _MENTION_BYTES)
        rows = pc.index_in(table["image_id"].combine_chunks(), value_set=pictures["image_id"].combine_chunks())
        used, picture = np.unique(rows.to_numpy(), return_inverse=True)
        return cls(source, table, pictures.take(pa.array(used)), picture)

    def boxes(self) -> np.ndarray:
        """(mentions, 4) float64."""
        return artifacts_regions.boxes(self.table)

    def whole_pixels(self, sizes: np.ndarray) -> np.ndarray:
        """``boxes`` in whole pixels inside the picture. sizes: int (pictures, 2), 0 for unreadable pictures, whose
        boxes are not cut."""
        boxes, extents = self.boxes(), sizes[self.picture]
        edges = np.where(extents > 0, extents, np.ceil(boxes[:, 2:]) + 1)
        pixels = clipped(boxes, edges[:, 0], edges[:, 1])
        return pixels.astype(np.int64)

    def regions(self, boxes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The number of the region of each mention, and the first mention of each region.

        Regions are the different boxes of each picture, ordered by picture and first mention. boxes: of
        ``whole_pixels``."""
        keys = np.concatenate([self.picture[:, None], boxes], axis=1)
        _, first, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        order = np.lexsort([first, self.picture[first]])
        numbers = np.empty_like(order)
        numbers[order] = np.arange(len(order))
        return numbers[inverse.reshape(-1)], first[order]

    def numbered(self, regions: np.ndarray) -> pa.Table:
        """``table`` with ``regions`` as ``region_id``."""
        at = self.table.schema.get_field_index("region_id")
        return self.table.set_column(at, artifacts_regions.PHRASES_SCHEMA.field("region_id"), pa.array(regions))

    def drawn(self, region: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
        """The mentions that become captions, in order: all of val and test, and in train one for each pair of region
        and words. At most ``most`` regions for the same words are drawn by ``rng``."""
        train = np.flatnonzero(pc.equal(self.table["split"], "train").to_numpy())
        words = artifacts_regions.phrase_key(self.table).dictionary_encode().indices.to_numpy()[train]
        _, first = np.unique(np.stack([words, region[train]], axis=1), axis=0, return_index=True)
        order = np.lexsort([rng.random(len(first)), words[first]])
        ranked = words[first][order]
        place = np.arange(len(order)) - np.searchsorted(ranked, ranked)
        rest = np.setdiff1d(np.arange(len(region)), train)
        return np.sort(np.concatenate([rest, train[first[order[place < most]]]]))


CORES = os.cpu_count() or 1
_NONE = Proposed(np.zeros((0, 4)), np.zeros(0))
# Bytes of a proposal with its rows; 650 were measured.
_PROPOSAL_BYTES = 700


def assembled(
    source: Path, proposer: Proposer, threads: int, count: int, splits: Sequence[str], most: int, seed: int
) -> Source:
    """The data set of regions. Rows of a picture are adjacent: boxes of its phrases by first mention, then proposals,
    best first. Images have running numbers, captions the numbers of their phrases.

    source: folder of the data set with whole pictures; threads: that call ``proposer``; count: proposals of a picture;
    splits: whose pictures get proposals; most: boxes of the same words in train. Boxes of an unreadable picture are
    ``broken``, and nothing is proposed for it. Raises as ``formats.regions.read``."""
    mentions = Mentions.read(source)
    pictures = _pictures(mentions)
    readable = np.array([entry.width > 0 for entry in pictures])
    boxes = mentions.whole_pixels(np.array([(entry.width, entry.height) for entry in pictures]))
    region, first = mentions.regions(boxes)
    keep = mentions.drawn(region, most, generator(seed, "regions", "of phrases"))
    named = np.unique(region[keep])
    chosen = np.isin(_column(mentions.pictures, "split"), splits) & readable
    tasks = list(zip(pictures, chosen.tolist(), strict=True))
    with ThreadPoolExecutor(threads) as pool:
        results = pool.map(partial(_proposed, proposer, count), tasks)
        try:
            proposals = list(track(results, len(tasks), "proposals"))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    picture = np.concatenate(
        [mentions.picture[first[named]], np.repeat(np.arange(len(pictures)), [len(p.scores) for p in proposals])]
    )
    proposed = np.arange(len(picture)) >= len(named)
    order = np.lexsort([proposed, picture])
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    all_boxes = np.concatenate([boxes[first[named]], *(entry.boxes for entry in proposals)])[order].astype(np.int64)
    scores = np.concatenate([np.zeros(len(named)), *(entry.scores for entry in proposals)])[order]
    rows = _rows(mentions.pictures, picture[order], proposed[order], all_boxes, scores, readable)
    # Regions without a caption get the next numbers, because training needs them as truth.
    numbers = len(order) + np.arange(len(first))
    numbers[named] = place[: len(named)]
    spoken = mentions.numbered(numbers[region])
    captions_shown = spoken.take(pa.array(keep))
    captions = caption_table(
        captions_shown["phrase_id"], captions_shown["region_id"], captions_shown["text"], captions_shown["split"]
    )
    recall = _recall(mentions, [entry.boxes for entry in proposals], chosen)
    broken = [
        f"{pictures[number].item.where}: {file} could not be read when its data set was prepared"
        for number, file in zip(picture[order].tolist(), rows[0]["file"].to_pylist(), strict=True)
        if not readable[number]
    ]
    root = str(artifacts_images.root(mentions.pictures))
    return Source(rows[0], captions, root, broken, spoken, RegionRows(rows[1], str(source), recall))


def _pictures(mentions: Mentions) -> list[Picture]:
    """The pictures with the size that ``prepare`` has read, 0 for unreadable ones."""
    table, root = mentions.pictures, artifacts_images.root(mentions.pictures)
    columns = (table[name].to_pylist() for name in ("image_id", "file", "sha256", "width", "height"))
    place = f"{mentions.source / artifacts_images.NAME} image_id"
    return [
        Picture(root, images.Item(image_id, file, digest, f"{place} {image_id}"), width, height)
        for image_id, file, digest, width, height in zip(*columns, strict=True)
    ]


def _proposed(proposer: Proposer, count: int, about: tuple[Picture, bool]) -> Proposed:
    picture, is_chosen = about
    if not is_chosen:
        return _NONE
    proposed = settled(proposer(picture), picture, count)
    memory.reserve(picture.item.where, len(proposed.scores) * _PROPOSAL_BYTES)
    return proposed


def _rows(
    pictures: pa.Table,
    picture: np.ndarray,
    proposed: np.ndarray,
    boxes: np.ndarray,
    scores: np.ndarray,
    is_readable: np.ndarray,
) -> tuple[pa.Table, pa.Table]:
    """images.parquet and regions.parquet. picture: row of ``pictures``; is_readable: of each picture."""
    ids = np.arange(len(picture))
    rows = pictures.take(pa.array(picture))
    split = _column(rows, "split")
    sizes = boxes[:, 2:] - boxes[:, :2] + 1
    readable = is_readable[picture]
    widths, heights = np.where(readable, sizes.T, 0).astype(np.int32)
    extents = np.concatenate([boxes[:, :2], sizes], axis=1).tolist()
    files = [Box(*extent).address(file) for extent, file in zip(extents, rows["file"].to_pylist(), strict=True)]
    splits = np.where(proposed, artifacts_images.PROPOSAL, split)
    boxed = image_table(ids, files, splits, widths, heights, rows["sha256"])
    columns = [ids, rows["image_id"], *boxes.T.astype(np.float64), proposed, scores, split]
    return boxed, pa.table(columns, schema=artifacts_regions.SCHEMA)


def _recall(mentions: Mentions, proposals: list[np.ndarray], chosen: np.ndarray) -> dict[str, dict]:
    """The recall by split, as of ``artifacts.regions.recall``; pictures without proposals are not counted."""
    order = np.argsort(mentions.picture, kind="stable")
    ends = np.cumsum(np.bincount(mentions.picture, minlength=len(proposals)))[:-1]
    by_picture = np.split(mentions.boxes()[order], ends)
    splits = _column(mentions.pictures, "split")
    recall = {}
    for split in artifacts_images.DESCRIBED:
        places = np.flatnonzero(chosen & (splits == split)).tolist()
        if places:
            hits = covered([by_picture[n] for n in places], [proposals[n] for n in places])
            count = sum(len(proposals[n]) for n in places)
            recall[split] = {"mentions": len(hits), "proposals": count, "recall": float(hits.mean())}
    return recall


def _column(table: pa.Table, name: str) -> np.ndarray:
    return table[name].to_numpy()
