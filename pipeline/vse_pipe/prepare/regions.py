"""How many phrases have a proposal that covers them: no model that ranks the proposals finds more."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from PIL import Image

from vse_pipe.artifacts import captions as captions_artefact
from vse_pipe.artifacts import images as artifacts_images
from vse_pipe.artifacts import joins
from vse_pipe.artifacts import regions as artifacts_regions
from vse_pipe.core import memory
from vse_pipe.core.console import track
from vse_pipe.core.errors import InputError, UnreadableImage
from vse_pipe.core.seeds import generator
from vse_pipe.pictures import images
from vse_pipe.pictures.address import Box
from vse_pipe.pictures.images import Item, upright_size
from vse_pipe.prepare.source import RegionRows, Source, caption_table, existing, image_table
from vse_pipe.ranking import boxes

# As of Flickr30k Entities: a box is found by one that overlaps it at least so much.
OVERLAP = 0.5


def covered(mentions: list[np.ndarray], proposals: list[np.ndarray]) -> np.ndarray:
    """bool, one for each mention, picture by picture: whether a proposal of its picture has an IoU of ``OVERLAP`` or more.

    mentions, proposals: parallel, of each picture (n, 4) as of ``vse_pipe.ranking.boxes``.
    """
    found = [
        (boxes.iou(*map(torch.from_numpy, pair)).amax(dim=1) >= OVERLAP).numpy()
        for pair in zip(mentions, proposals, strict=True)
    ]
    return np.concatenate(found) if found else np.zeros(0, dtype=bool)


class Proposed(NamedTuple):
    """boxes: float64 (n, 4), x1, y1, x2, y2 in pixels of the upright picture from 0, both corners inside; scores: (n,)."""

    boxes: np.ndarray
    scores: np.ndarray

    @classmethod
    def ranked(cls, edges: np.ndarray) -> "Proposed":
        """Of a method that gives an order and no scores: 1 for the first box, and evenly falling. edges: x1, y1, x2, y2 between
        pixels, so that x2 - x1 is a width."""
        return cls(edges - np.array([0.0, 0.0, 1.0, 1.0]), np.linspace(1, 0, len(edges), endpoint=False))


@dataclass(frozen=True)
class Seen:
    """A picture that boxes are proposed for. item: its row of images.parquet; width, height: pixels, upright."""

    root: Path
    item: Item
    width: int
    height: int

    def load(self) -> Image.Image:
        """Upright, in RGB. Raises as ``images.load``."""
        return images.load(self.root, self.item)


Proposer = Callable[[Seen], Proposed]


def settled(proposed: Proposed, seen: Seen, count: int) -> Proposed:
    """The ``count`` best of them, of equal scores the first: whole pixels, cut at the picture's edges, no box twice (the best
    score stays) and none of which nothing lies in the picture. Raises InputError when none is left."""
    boxes = clipped(proposed.boxes, seen.width, seen.height)
    inside = (boxes[:, 2:] >= boxes[:, :2]).all(axis=1)
    boxes, scores = boxes[inside], proposed.scores[inside]
    order = np.argsort(-scores, kind="stable")
    _, first = np.unique(boxes[order], axis=0, return_index=True)
    chosen = order[np.sort(first)[:count]]
    if not len(chosen):
        raise InputError(f"{seen.item.where}: no box was proposed for {seen.item.file}")
    return Proposed(boxes[chosen], scores[chosen])


def clipped(boxes: np.ndarray, width, height) -> np.ndarray:
    """The smallest whole pixels that hold each box, those of them inside the picture; width, height: numbers, or one a box.

    Of a box that lies wholly outside x2 < x1 or y2 < y1."""
    low = np.maximum(np.floor(boxes[:, :2]), 0)
    high = np.minimum(np.ceil(boxes[:, 2:]), np.stack(np.broadcast_arrays(width, height), axis=-1) - 1)
    return np.concatenate([low, high], axis=1)


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
        table, pictures = artifacts_regions.read_phrases(source), artifacts_images.read(source)
        memory.take(str(source / artifacts_regions.PHRASES), table.num_rows * _OF_MENTION)
        rows = pc.index_in(table["image_id"].combine_chunks(), value_set=pictures["image_id"].combine_chunks())
        _refuse(source, table.filter(pc.is_null(rows)), f"{{image_id}} is no image_id of {artifacts_images.NAME}")
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


Given = TypeVar("Given")
Made = TypeVar("Made")
CORES = os.cpu_count() or 1
_NONE = Proposed(np.zeros((0, 4)), np.zeros(0))
# Bytes of one with its rows: measured, 650.
_OF_PROPOSAL = 700


def assembled(
    source: Path, proposer: Proposer, threads: int, count: int, splits: Sequence[str], most: int, seed: int
) -> Source:
    """The rows of a picture stand together: the boxes of its phrases as they are first named, then what is proposed for it,
    best first. Ids of images are running numbers, those of captions the numbers of the phrases, of which all are kept.

    source: the folder of the data set with whole pictures; threads: in which ``proposer`` is called; count: proposals of a picture; splits: whose pictures get any;
    most: in train, boxes of one phrase. Of a picture that cannot be read the boxes are listed as ``broken`` and nothing is
    proposed. Raises as ``formats.regions.read``.
    """
    mentions = Mentions.read(source)
    seen, reasons = _seen(mentions)
    boxes = mentions.whole_pixels(np.array([(one.width, one.height) for one in seen]))
    region, first = mentions.regions(boxes)
    keep = mentions.kept(region, most, generator(seed, "regions", "of phrases"))
    named = np.unique(region[keep])
    chosen = np.isin(_column(mentions.pictures, "split"), splits) & ~np.array([bool(reason) for reason in reasons])
    asked = list(zip(seen, chosen.tolist(), strict=True))
    found = _in_threads(partial(_proposed, proposer, count), asked, "proposals", threads)
    picture = np.concatenate(
        [mentions.picture[first[named]], np.repeat(np.arange(len(seen)), [len(p.scores) for p in found])]
    )
    proposed = np.arange(len(picture)) >= len(named)
    order = np.lexsort([proposed, picture])
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    all_boxes = np.concatenate([boxes[first[named]], *(one.boxes for one in found)])[order].astype(np.int64)
    scores = np.concatenate([np.zeros(len(named)), *(one.scores for one in found)])[order]
    rows = _rows(mentions.pictures, picture[order], proposed[order], all_boxes, scores, reasons)
    # Those that no caption shows are numbered on: truth to training all the same.
    numbers = len(order) + np.arange(len(first))
    numbers[named] = place[: len(named)]
    spoken = mentions.numbered(numbers[region])
    told = spoken.take(pa.array(keep))
    captions = caption_table(told["phrase_id"], told["region_id"], told["text"], told["split"])
    recall = _recall(mentions, [one.boxes for one in found], chosen)
    broken = [
        f"{seen[number].item.where}: {file} {reasons[number]}"
        for number, file in zip(picture[order].tolist(), rows[0]["file"].to_pylist(), strict=True)
        if reasons[number]
    ]
    root = str(artifacts_images.root(mentions.pictures))
    told = joins.digests(source) if (source / captions_artefact.NAME).is_file() else {}
    return Source(rows[0], captions, root, broken, spoken, RegionRows(rows[1], str(source), recall, told))


def _seen(mentions: Mentions) -> tuple[list[Seen], list[str]]:
    """The pictures with their upright size, and why they cannot be read; then the size is 0."""
    table, root = mentions.pictures, artifacts_images.root(mentions.pictures)
    ids, files, digests = (table[name].to_pylist() for name in ("image_id", "file", "sha256"))
    items = [
        Item(image_id, file, digest, f"{mentions.source / artifacts_images.NAME} image_id {image_id}")
        for image_id, file, digest in zip(ids, files, digests, strict=True)
    ]
    known = (_column(table, "width") > 0).tolist()
    found = _in_threads(partial(_size, root), list(zip(items, known, strict=True)), "pictures")
    return [Seen(root, item, *size) for item, (size, _) in zip(items, found, strict=True)], [why for _, why in found]


def _size(root: Path, about: tuple[Item, bool]) -> tuple[tuple[int, int], str]:
    item, known = about
    if not known:
        return (0, 0), "could not be read when its data set was prepared"
    try:
        return upright_size(root, item), ""
    except UnreadableImage as error:
        return (0, 0), error.reason


def _proposed(proposer: Proposer, count: int, about: tuple[Seen, bool]) -> Proposed:
    seen, wanted = about
    if not wanted:
        return _NONE
    found = settled(proposer(seen), seen, count)
    memory.take(seen.item.where, len(found.scores) * _OF_PROPOSAL)
    return found


def _in_threads(work: Callable[[Given], Made], given: Sequence[Given], what: str, threads: int = CORES) -> list[Made]:
    with ThreadPoolExecutor(threads) as pool:
        try:
            return list(track(pool.map(work, given), len(given), what))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _rows(
    pictures: pa.Table,
    picture: np.ndarray,
    proposed: np.ndarray,
    boxes: np.ndarray,
    scores: np.ndarray,
    reasons: list[str],
) -> tuple[pa.Table, pa.Table]:
    """images.parquet and regions.parquet. picture: row of ``pictures``; reasons: of a picture that cannot be read."""
    ids = np.arange(len(picture))
    of = pictures.take(pa.array(picture))
    split = _column(of, "split")
    sizes = boxes[:, 2:] - boxes[:, :2] + 1
    readable = np.array([not reason for reason in reasons])[picture]
    widths, heights = np.where(readable, sizes.T, 0).astype(np.int32)
    extents = np.concatenate([boxes[:, :2], sizes], axis=1).tolist()
    files = [Box(*extent).of(file) for extent, file in zip(extents, of["file"].to_pylist(), strict=True)]
    splits = np.where(proposed, artifacts_images.PROPOSAL, split)
    images_ = image_table(ids, files, splits, widths, heights, of["sha256"])
    columns = [ids, of["image_id"], *boxes.T.astype(np.float64), proposed, scores, split]
    return images_, pa.table(columns, schema=artifacts_regions.SCHEMA)


def _recall(mentions: Mentions, proposals: list[np.ndarray], chosen: np.ndarray) -> dict[str, dict]:
    """As ``artifacts.regions.recall`` says; mentions in pictures without proposals are not counted."""
    order = np.argsort(mentions.picture, kind="stable")
    ends = np.cumsum(np.bincount(mentions.picture, minlength=len(proposals)))[:-1]
    by_picture = np.split(mentions.boxes()[order], ends)
    splits = _column(mentions.pictures, "split")
    found = {}
    for split in artifacts_images.DESCRIBED:
        places = np.flatnonzero(chosen & (splits == split)).tolist()
        if places:
            hits = covered([by_picture[n] for n in places], [proposals[n] for n in places])
            count = sum(len(proposals[n]) for n in places)
            found[split] = {"mentions": len(hits), "proposals": count, "recall": float(hits.mean())}
    return found


def _column(table: pa.Table, name: str) -> np.ndarray:
    return table[name].to_numpy()
