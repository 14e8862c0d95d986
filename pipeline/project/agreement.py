"""Comparisons that several kinds of artefacts share."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from pipeline.project.problems import ARTEFACT, DIGEST, Problem


def settings(address: str, made_with: object, asked_for: dict, where: str, advice: str) -> list[Problem]:
    """Values that an artefact was made with against those of params.yaml, for the keys that both have."""
    if not isinstance(made_with, dict):
        return [Problem(ARTEFACT, address, "does not say what it was made with", advice)]
    return [
        Problem(
            DIGEST, address, f"made with {key} {made_with[key]!r}, params.yaml {where} says {value!r}", advice
        )
        for key, value in asked_for.items()
        if key in made_with and made_with[key] != value
    ]


def ids(
    address: Path, kind: str, found: Iterable, expected: Iterable, other: Path, advice: str
) -> list[Problem]:
    """Ids that ``found`` has and ``expected`` lacks: the artefact speaks of things its source does not have."""
    strange = np.setdiff1d(np.asarray(found), np.asarray(expected))
    if not len(strange):
        return []
    what = f"{len(strange)} ids are not in {other}, the first is {kind} {strange[0]}"
    return [Problem(ARTEFACT, str(address), what, advice)]


def digest(address: Path, what: str, made_from: object, there: object, advice: str) -> list[Problem]:
    """An artefact names the digest of its input. None on either side: not recorded, or not there."""
    if made_from is None or there is None or made_from == there:
        return []
    return [Problem(DIGEST, str(address), f"made from other {what} than there are now", advice)]
