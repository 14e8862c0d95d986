"""A data set of regions: the boxes of phrases, proposed boxes, and the recall of the proposals."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from PIL import Image

from vse_pipe.artifacts import images as artifacts_images
from vse_pipe.artifacts import regions as artifacts_regions
from vse_pipe.core.console import track
from vse_pipe.core.errors import InputError
from vse_pipe.core.seeds import generator
from vse_pipe.pictures import images
from vse_pipe.pictures.address import Box
from vse_pipe.prepare.formats.options import RegionsOptions
from vse_pipe.prepare.source import RegionRows, Source, caption_table, existing, image_table
from vse_pipe.ranking import boxes

# Flickr30k Entities: a proposal covers a box from this intersection over union on.
OVERLAP = 0.5


def covered(mentions: list[np.ndarray], proposals: list[np.ndarray]) -> np.ndarray:
    """bool for each mention, picture by picture: whether a proposal of its picture has an IoU of
    ``OVERLAP`` or more.

    mentions, proposals: (n, 4) for each picture, as of ``vse_pipe.ranking.boxes``. The share of
    covered mentions is the highest recall of any model that ranks the proposals."""
    hits = [
        (boxes.iou(*map(torch.from_numpy, pair)).amax(dim=1) >= OVERLAP).numpy()
        for pair in zip(mentions, proposals, strict=True)
    ]
    return np.concatenate(hits) if hits else np.zeros(0, dtype=bool)


class Proposed(NamedTuple):
    """boxes: float64 (n, 4), x1, y1, x2, y2 in upright pixels from 0, inside; scores: (n,)."""

    boxes: np.ndarray
    scores: np.ndarray


@dataclass(frozen=True)
class Picture:
    """A picture for proposals. item: its row of images.parquet; width, height: upright pixels."""

    root: Path
    item: images.Item
    width: int
    height: int

    def load(self) -> Image.Image:
        """The picture, upright and in RGB. Raises as ``images.load``."""
        return images.load(self.root, self.item)


Proposer = Callable[[Picture], Proposed]


def settled(proposed: Proposed, picture: Picture, count: int) -> Proposed:
    """The ``count`` best boxes, with equal scores the first: in whole pixels and cut at the edges
    of the picture.

    Boxes outside the picture are dropped; of equal boxes the best score stays. Raises InputError
    when no box is left.
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
    """The whole pixels of each box, cut at the edges of the picture; x2 < x1 or y2 < y1 for a box
    outside of it.

    width, height: of the picture, numbers or an array with a value for each box."""
    low = np.maximum(np.floor(boxes[:, :2]), 0)
    high = np.minimum(np.ceil(boxes[:, 2:]), np.stack(np.broadcast_arrays(width, height), axis=-1) - 1)
    return np.concatenate([low, high], axis=1)


_NONE = Proposed(np.zeros((0, 4)), np.zeros(0))


def assembled(source: Path, proposer: Proposer, params: RegionsOptions, seed: int) -> Source:
    """The data set of regions. Rows of a picture are adjacent: boxes of its phrases by first
    mention, then proposals, best first. Images have running numbers, captions the numbers of their
    phrases.

    source: folder of the data set with whole pictures, of which unreadable ones are left out.
    Raises as ``formats.regions.read``."""
    phrases, table, owner, left_out = _mentions(source)
    pictures = _pictures(source, table)
    boxes = _whole_pixels(phrases, np.array([(picture.width, picture.height) for picture in pictures])[owner])
    region, first = _regions(owner, boxes)
    captioned = _captioned(phrases, region, params.regions_per_phrase, generator(seed, "regions", "of phrases"))
    named = np.unique(region[captioned])
    is_chosen = np.isin(_column(table, "split"), params.splits)
    pairs = zip(pictures, is_chosen.tolist(), strict=True)
    proposals = [
        settled(proposer(picture), picture, params.count) if is_wanted else _NONE
        for picture, is_wanted in track(pairs, len(pictures), "proposals")
    ]
    picture = np.concatenate(
        [owner[first[named]], np.repeat(np.arange(len(pictures)), [len(entry.scores) for entry in proposals])]
    )
    is_proposed = np.arange(len(picture)) >= len(named)
    order = np.lexsort([is_proposed, picture])
    all_boxes = np.concatenate([boxes[first[named]], *(entry.boxes for entry in proposals)])[order].astype(np.int64)
    scores = np.concatenate([np.zeros(len(named)), *(entry.scores for entry in proposals)])[order]
    images, rows = _tables(table, picture[order], is_proposed[order], all_boxes, scores)
    # Regions without a caption get the next numbers, because training needs them as truth.
    numbers = len(order) + np.arange(len(first))
    numbers[named] = np.argsort(order)[: len(named)]
    place = phrases.schema.get_field_index("region_id")
    phrases = phrases.set_column(place, phrases.schema.field(place), pa.array(numbers[region]))
    columns = (phrases.take(pa.array(captioned))[name] for name in ("phrase_id", "region_id", "text", "split"))
    recall = _recall(phrases, table, owner, [entry.boxes for entry in proposals], is_chosen)
    described, region_rows = caption_table(*columns), RegionRows(rows, str(source), recall)
    root = str(artifacts_images.root(table))
    return Source(images, described, root, phrases=phrases, regions=region_rows, left_out=left_out)


def _mentions(source: Path) -> tuple[pa.Table, pa.Table, np.ndarray, list[str]]:
    """Phrases, the pictures that they are in, the picture of each phrase, a row of them, and a line
    where the data set has unreadable pictures, whose phrases are left out.

    source: a folder below data/prepare. Raises MissingResource without it; InputError for a data
    set without phrases or one of regions."""
    if (existing(source) / artifacts_regions.NAME).exists():
        raise InputError(f"{source}: holds regions already; name the data set that has the whole pictures")
    path = source / artifacts_regions.PHRASES
    if not path.is_file():
        raise InputError(f"{source} has no {path.name}; the formats entities, and shapes with phrases: true, write it")
    phrases, table = artifacts_regions.read_phrases(source), artifacts_images.read(source)
    is_readable = pc.greater(table["width"], 0)
    unread = pc.sum(pc.invert(is_readable)).as_py()
    table = table.filter(is_readable)
    rows = pc.index_in(phrases["image_id"].combine_chunks(), value_set=table["image_id"].combine_chunks())
    phrases, rows = phrases.filter(rows.is_valid()), rows.drop_null()
    used, owner = np.unique(rows.to_numpy(), return_inverse=True)
    left_out = [f"the phrases of {unread} pictures that cannot be read"] * bool(unread)
    return phrases, table.take(pa.array(used)), owner, left_out


def _pictures(source: Path, table: pa.Table) -> list[Picture]:
    """The pictures with the size that ``prepare`` has read."""
    root, where = artifacts_images.root(table), f"{source / artifacts_images.NAME} image_id"
    columns = (table[name].to_pylist() for name in ("image_id", "file", "sha256", "width", "height"))
    return [
        Picture(root, images.Item(image_id, file, digest, f"{where} {image_id}"), width, height)
        for image_id, file, digest, width, height in zip(*columns, strict=True)
    ]


def _whole_pixels(phrases: pa.Table, extents: np.ndarray) -> np.ndarray:
    """The boxes of phrases in whole pixels inside the picture, int64 (phrases, 4). extents: width
    and height of the picture of each phrase."""
    boxes = artifacts_regions.boxes(phrases)
    return clipped(boxes, extents[:, 0], extents[:, 1]).astype(np.int64)


def _regions(owner: np.ndarray, boxes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The number of the region of each phrase, and the first phrase of each region.

    Regions are the different boxes of each picture, ordered by picture and first phrase."""
    keys = np.concatenate([owner[:, None], boxes], axis=1)
    _, first, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    order = np.lexsort([first, owner[first]])
    return np.argsort(order)[inverse.reshape(-1)], first[order]


def _captioned(phrases: pa.Table, region: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    """The phrases that become captions, in order: all of val and test, and in train one for each
    pair of region and words. At most ``most`` regions for the same words are drawn by ``rng``."""
    is_train = pc.equal(phrases["split"], "train").to_numpy()
    train = np.flatnonzero(is_train)
    words = artifacts_regions.phrase_key(phrases).dictionary_encode().indices.to_numpy()[train]
    _, first = np.unique(np.stack([words, region[train]], axis=1), axis=0, return_index=True)
    order = np.lexsort([rng.random(len(first)), words[first]])
    ranked = words[first][order]
    place = np.arange(len(order)) - np.searchsorted(ranked, ranked)
    return np.sort(np.concatenate([np.flatnonzero(~is_train), train[first[order[place < most]]]]))


def _tables(
    table: pa.Table, picture: np.ndarray, is_proposed: np.ndarray, boxes: np.ndarray, scores: np.ndarray
) -> tuple[pa.Table, pa.Table]:
    """images.parquet, regions.parquet. picture: row of ``table``."""
    ids, rows = np.arange(len(picture)), table.take(pa.array(picture))
    split = _column(rows, "split")
    sizes = boxes[:, 2:] - boxes[:, :2] + 1
    extents = np.concatenate([boxes[:, :2], sizes], axis=1).tolist()
    files = [Box(*extent).address(file) for extent, file in zip(extents, rows["file"].to_pylist(), strict=True)]
    splits = np.where(is_proposed, artifacts_images.PROPOSAL, split)
    columns = [ids, rows["image_id"], *boxes.T.astype(np.float64), is_proposed, scores, split]
    widths, heights = sizes.T.astype(np.int32)
    boxed = image_table(ids, files, splits, widths, heights, rows["sha256"])
    return boxed, pa.table(columns, schema=artifacts_regions.SCHEMA)


def _recall(
    phrases: pa.Table, table: pa.Table, owner: np.ndarray, proposals: list[np.ndarray], is_chosen: np.ndarray
) -> dict[str, dict]:
    """The recall by split, as of ``artifacts.regions.recall``, of pictures with proposals."""
    order, splits = np.argsort(owner, kind="stable"), _column(table, "split")
    ends = np.cumsum(np.bincount(owner, minlength=len(proposals)))[:-1]
    mentions = np.split(artifacts_regions.boxes(phrases)[order], ends)
    recall = {}
    for split in artifacts_images.DESCRIBED:
        places = np.flatnonzero(is_chosen & (splits == split)).tolist()
        if places:
            hits = covered([mentions[place] for place in places], [proposals[place] for place in places])
            count = sum(len(proposals[place]) for place in places)
            recall[split] = {"mentions": len(hits), "proposals": count, "recall": float(hits.mean())}
    return recall


def _column(table: pa.Table, name: str) -> np.ndarray:
    return table[name].to_numpy()
