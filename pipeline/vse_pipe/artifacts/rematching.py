"""data/train/<run>/rematching.json: how a scheme split matched from mismatched pairs.

A list with an entry for each epoch that split:

- ``epoch`` (from 1); ``pairs`` of the training set; ``matched`` pairs;
- ``mixture``: ``alpha``, ``beta`` and ``weight`` of both components on scaled losses, the lower mean first (null without a split),
  ``converged``, ``iterations``, ``doubts``;
- ``by``: what the histograms call matched, ``truth`` where inject knows it, else ``split``;
- ``losses``: ``smallest``, ``largest``, and the histogram of scaled losses: ``edges``, ``matched``, ``mismatched``;
- ``cost``: the histogram of pairs' own transport costs; the last bin takes all above it;
- ``moved``: mean mass of the transport plans (null without any); ``kept``: the part that stays with the pair's own caption;
- ``alignment``: number ``rows`` and sorted ``mean`` of the refined alignments of ``transported`` images (more than half of their mass
  moved) and ``untransported`` ones;
- ``rematched``: at most twelve pairs that the last plan rematched most clearly: ``image_id``, ``caption_id``, ``rematch_caption_id``,
  ``weight``;
- ``truth``: ``mismatched`` (share), ``auc`` of the posterior, ``precision`` and ``recall`` of the mismatched; null where ``by`` is ``split``.
"""

from pathlib import Path
from typing import TypeGuard

from vse_pipe.core.errors import InputError
from vse_pipe.core.files import read_json, write_json

NAME = "rematching.json"
KEYS = {
    "epoch",
    "pairs",
    "matched",
    "mixture",
    "by",
    "losses",
    "cost",
    "moved",
    "kept",
    "alignment",
    "rematched",
    "truth",
}


def write(folder: Path, records: list[dict]) -> None:
    write_json(folder / NAME, records)


def read(folder: Path) -> list[dict]:
    """Raises InputError when it is missing, as for runs of other schemes, or an entry lacks a key or has no whole histogram of costs."""
    records = read_json(folder / NAME, list)
    for place, record in enumerate(records):
        missing = sorted(KEYS - set(record)) if isinstance(record, dict) else sorted(KEYS)
        if missing:
            raise InputError(f"{folder / NAME}: entry {place} has no {', '.join(missing)}; train the run again")
        if not isinstance(record["epoch"], int) or not _is_histogram(record["cost"]):
            raise InputError(
                f"{folder / NAME}: entry {place} has no epoch or no histogram of costs; train the run again"
            )
    return records


def _is_histogram(found: object) -> bool:
    """Numbers in ``edges``, and one fewer in each of ``matched`` and ``mismatched``?"""
    if not isinstance(found, dict):
        return False
    edges, *counts = (found.get(name) for name in ("edges", "matched", "mismatched"))
    if not _is_numbers(edges):
        return False
    return all(_is_numbers(values) and len(values) == len(edges) - 1 for values in counts)


def _is_numbers(found: object) -> TypeGuard[list[int | float]]:
    return isinstance(found, list) and all(isinstance(value, int | float) for value in found)
