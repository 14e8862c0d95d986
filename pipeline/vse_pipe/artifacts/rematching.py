"""data/train/<run>/rematching.json: how a scheme told matched from mismatched pairs, one entry for each epoch that did.

A list, in the order of epochs. Each entry has

- ``epoch``, counted from 1 as in history.csv; ``pairs``: of the training set; ``matched``: pairs taken for matched;
- ``mixture``: ``alpha``, ``beta`` and ``weight`` of both components on scaled losses, the one of the lower mean first (null
  where there was nothing to split), ``converged``, ``iterations``, and ``doubts`` in words;
- ``by``: whose word decides what counts as matched in the histograms, ``truth`` where inject mixed pairs up and knows which,
  else ``split``;
- ``losses``: ``smallest`` and ``largest`` loss, and the histogram of scaled losses: ``edges``, ``matched``, ``mismatched``;
- ``cost``: the histogram of a pair's own transport cost at the steps of the epoch, whose last bin takes what lies above it;
- ``moved``: mean mass of the epoch's transport plans, null without any;
- ``kept``: of it what stays with the pair's own caption, which the mask forbids;
- ``alignment``: of ``transported`` images (more than half of their mass is moved) and of ``untransported`` ones how many there
  were, ``rows``, and the ``mean`` of their refined alignments, each sorted from its largest entry down; null without any plan;
- ``rematched``: at most twelve pairs, of different images, whose image the last plan they were in gives to one caption
  most plainly: ``image_id``, ``caption_id``, ``rematch_caption_id`` and its ``weight`` in the refined alignment;
- ``truth``: ``mismatched`` (share), ``auc`` of the posterior, ``precision`` and ``recall`` of the pairs taken for
  mismatched, null where undefined; null as a whole where ``by`` is ``split``.
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
