"""Phrases and proposals of a data set as a data set of regions: a picture with a box is a picture."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa

from vse_pipe.artifacts import captions as captions_artefact
from vse_pipe.artifacts import images, joins, regions
from vse_pipe.core import memory
from vse_pipe.core.console import track
from vse_pipe.core.devices import generator
from vse_pipe.core.errors import UnreadableImage
from vse_pipe.pictures.address import Box
from vse_pipe.pictures.images import Item, upright_size
from vse_pipe.prepare.engine.regions.mentions import Mentions
from vse_pipe.prepare.engine.regions.proposing import Proposed, Proposer, Seen, settled
from vse_pipe.prepare.engine.regions.recall import covered
from vse_pipe.prepare.engine.source import RegionRows, Source, caption_table, image_table

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
    root = str(images.root(mentions.pictures))
    told = joins.digests(source) if (source / captions_artefact.NAME).is_file() else {}
    return Source(rows[0], captions, root, broken, spoken, RegionRows(rows[1], str(source), recall, told))


def _seen(mentions: Mentions) -> tuple[list[Seen], list[str]]:
    """The pictures with their upright size, and why they cannot be read; then the size is 0."""
    table, root = mentions.pictures, images.root(mentions.pictures)
    ids, files, digests = (table[name].to_pylist() for name in ("image_id", "file", "sha256"))
    items = [
        Item(image_id, file, digest, f"{mentions.source / images.NAME} image_id {image_id}")
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
    splits = np.where(proposed, images.PROPOSAL, split)
    images_ = image_table(ids, files, splits, widths, heights, of["sha256"])
    columns = [ids, of["image_id"], *boxes.T.astype(np.float64), proposed, scores, split]
    return images_, pa.table(columns, schema=regions.SCHEMA)


def _recall(mentions: Mentions, proposals: list[np.ndarray], chosen: np.ndarray) -> dict[str, dict]:
    """As ``artifacts.regions.recall`` says; mentions in pictures without proposals are not counted."""
    order = np.argsort(mentions.picture, kind="stable")
    ends = np.cumsum(np.bincount(mentions.picture, minlength=len(proposals)))[:-1]
    by_picture = np.split(mentions.boxes()[order], ends)
    splits = _column(mentions.pictures, "split")
    found = {}
    for split in images.DESCRIBED:
        places = np.flatnonzero(chosen & (splits == split)).tolist()
        if places:
            hits = covered([by_picture[n] for n in places], [proposals[n] for n in places])
            count = sum(len(proposals[n]) for n in places)
            found[split] = {"mentions": len(hits), "proposals": count, "recall": float(hits.mean())}
    return found


def _column(table: pa.Table, name: str) -> np.ndarray:
    return table[name].to_numpy()
