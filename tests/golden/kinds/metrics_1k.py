"""HAL's evaluation.i2t and t2i on one set of images with the same number of captions each."""

import numpy as np
import torch

from tests.golden.kinds._ranking import Line, Way, both_ways, nearest_to_failing

_RECALLS = slice(0, 3)


def check(arrays: dict[str, np.ndarray], similarity: str = "cosine") -> list[Line]:
    found = both_ways(arrays["images"], arrays["captions"], similarity)
    ways = dict(zip(("i2t", "t2i"), found, strict=True))
    lines = []
    for name, way in ways.items():
        lines += [
            nearest_to_failing(name, way.figures(), arrays[name], way.leeway()),
            nearest_to_failing(f"{name}_ranks", way.found.ranks, arrays[f"{name}_ranks"], way.open),
        ]
        if f"{name}_top1" in arrays:
            lines.append(_first(f"{name}_top1", way, arrays[f"{name}_top1"]))
    if "rsum" not in arrays:
        return lines
    rsum = sum(way.figures()[_RECALLS].sum() for way in ways.values())
    leeway = sum(way.leeway()[_RECALLS].sum() for way in ways.values())
    return [*lines, nearest_to_failing("rsum", rsum, arrays["rsum"], leeway)]


def _first(name: str, way: Way, stored: np.ndarray) -> Line:
    """By how much the stored first item scores below ours: 0 where they are the same."""
    ours, theirs = (torch.from_numpy(way.found.top.reshape(len(stored), -1)[:, :1]), torch.from_numpy(stored)[:, None])
    gaps = [block.gather(1, ours[rows]) - block.gather(1, theirs[rows]) for rows, block in way.scores.blocks()]
    return name, float(torch.cat(gaps).max()), 1e-6
