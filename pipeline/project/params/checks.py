"""What parameter models cannot check by themselves: numbers too large to compute with, members that do not fit."""

import math
from collections.abc import Iterator

from pipeline.project.params.schema import RunNode
from pipeline.project.registry import RUN_FAMILIES, Family

# Counts become lengths of arrays, and products of two of them must stay below 2^63.
MOST = 2**31 - 1
# The first names the second in its module, ``losses = ("hal",)``, when it works with some of them only.
PARTNERS = (("scheme", "loss"), ("scheme", "similarity"), ("loss", "similarity"))
_PLURALS = {"loss": "losses", "similarity": "similarities"}


def partners(node: RunNode, key: str, other: str) -> Iterator[str]:
    """What is wrong when the run's member of family ``key`` does not work with that of family ``other``."""
    chosen, beside = getattr(node, key), getattr(node, other)
    known = getattr(RUN_FAMILIES[key].load(chosen), _PLURALS[other], None)
    if known is not None and beside not in known:
        yield f"{key} '{chosen}' works with {other} {', '.join(known)}, not '{beside}'"


def fragments(node: RunNode) -> Iterator[str]:
    """What is wrong when a similarity of fragments meets encoders of one vector, or the reverse."""
    wanted = getattr(RUN_FAMILIES["similarity"].load(node.similarity), "fragments", False)
    images = getattr(RUN_FAMILIES["image"].load(node.image), "regions", False)
    words = getattr(RUN_FAMILIES["text"].load(node.text), "words", False)
    if wanted and not images:
        yield f"similarity '{node.similarity}' compares regions, but image encoder '{node.image}' gives one vector an image"
    if wanted and not words:
        yield f"similarity '{node.similarity}' compares words, but text encoder '{node.text}' gives one vector a caption"
    if images and not wanted:
        yield f"image encoder '{node.image}' gives regions, but similarity '{node.similarity}' compares one vector an image"


def knows_truth(family: Family, name: str) -> bool:
    """False for a format or a noise protocol whose module says that nobody knows which train pairs match."""
    return name not in family.names() or getattr(family.load(name), "truth", "known") != "unknown"


def out_of_range(values: dict, address: str = "") -> Iterator[tuple[str, str]]:
    """(address, what is wrong) of every number in ``values`` that is not finite or above ``MOST``; a seed has its own bound."""
    for key, value in values.items():
        place = f"{address}.{key}" if address else str(key)
        for one in value if isinstance(value, list | tuple) else [value]:
            if isinstance(one, dict):
                yield from out_of_range(one, place)
            elif isinstance(one, float) and not math.isfinite(one):
                yield place, f"input should be a finite number, got {one!r}"
            elif isinstance(one, int) and abs(one) > MOST and place != "seed":
                yield place, f"input should be at most {MOST}, got {one!r}"
