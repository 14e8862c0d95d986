"""Boxes looked up by picture."""

from functools import partial
from pathlib import Path

import numpy as np

from vse_pipe.core.errors import InputError
from vse_pipe.prepare.engine.regions.proposing import Proposed, Proposer, Seen
from vse_pipe.prepare.proposals.file import Params, tables


def proposer(params: Params, count: int, seed: int, device: str = "auto") -> Proposer:
    """The best ``count`` boxes that the file has for a picture. Raises what ``tables.read`` raises; InputError with the row for
    a box without area, for one that reaches outside its picture, for a picture without boxes, and where two pictures would
    get the same ones because ``by`` does not tell them apart.
    """
    path = Path(params.path)
    names, boxes, scores = tables.read(path, params.sha256)
    corners = _corners(path, boxes, params)
    order = np.argsort(names, kind="stable")
    keys, starts = np.unique(names[order], return_index=True)
    rows = dict(zip(keys.tolist(), np.split(order, starts[1:]), strict=True))
    return partial(_proposed, params, rows, corners, scores, {})


def _corners(path: Path, boxes: np.ndarray, params: Params) -> np.ndarray:
    low = boxes[:, :2] - params.first_pixel
    high = boxes[:, 2:] - params.first_pixel if params.form == "corners" else low + boxes[:, 2:] - 1
    if (wrong := (high < low).any(axis=1)).any():
        row = int(np.flatnonzero(wrong)[0])
        raise InputError(
            f"{tables.where(path, row)}: {_told(boxes[row])} is a box without area, in the form {params.form}"
        )
    return np.concatenate([low, high], axis=1)


def _proposed(
    params: Params,
    rows: dict[str, np.ndarray],
    corners: np.ndarray,
    scores: np.ndarray | None,
    taken: dict[str, str],
    seen: Seen,
) -> Proposed:
    # Of a member of a shard the name stands last.
    stem = Path(seen.item.file.rpartition("::")[2]).stem
    key = {"stem": stem, "file": seen.item.file, "image_id": str(seen.item.image_id)}[params.by]
    if key not in rows:
        raise InputError(f"{params.path}: no boxes for {seen.item.file}, looked for by {params.by} as '{key}'")
    if (other := taken.setdefault(key, seen.item.file)) != seen.item.file:
        raise InputError(
            f"{params.path}: {other} and {seen.item.file} are both '{key}'; set by: file, and name them so"
        )
    mine = rows[key]
    outside = (corners[mine] < 0).any(axis=1) | (corners[mine, 2:] > (seen.width - 1, seen.height - 1)).any(axis=1)
    if outside.any():
        row = int(mine[np.flatnonzero(outside)[0]])
        raise InputError(
            f"{tables.where(Path(params.path), row)}: the box from {_told(corners[row, :2])} to {_told(corners[row, 2:])}, counted from 0, "
            f"reaches outside {seen.item.file} of {seen.width} x {seen.height} pixels; are form and first_pixel right?"
        )
    if scores is None:
        return Proposed(corners[mine], np.linspace(1, 0, len(mine), endpoint=False))
    return Proposed(corners[mine], scores[mine])


def _told(values: np.ndarray) -> str:
    return ", ".join(f"{value:g}" for value in values.tolist())
