"""Graded pairs and labels of pictures, from files."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from vse_pipe.core import memory, weights
from vse_pipe.core.console import warn
from vse_pipe.core.errors import InputError
from vse_pipe.evaluate.engine.further import Further, Labels
from vse_pipe.evaluate.external.given import given
from vse_pipe.evaluate.judgements import cells
from vse_pipe.evaluate.judgements.names import NOWHERE, Names
from vse_pipe.project.params.schema import EvaluateParams
from vse_pipe.ranking.metrics.graded import Graded

_PAIR = ("image_id", "caption_id")
_TREC = ("caption_id", "iteration", "image_id", "grade")
# Flickr8k's ExpertAnnotations.txt and CrowdFlowerAnnotations.txt: three columns of figures.
_FLICKR8K = (*_PAIR, "first", "second", "third")
_EXPERT = (1, 2, 3, 4)
_ROUNDING = 0.01


def further(params: EvaluateParams, images: Names, captions: Names) -> Further | None:
    """What ``params.judgements`` and ``params.labels`` name; None where they name nothing. What is not among ``images`` and
    ``captions`` is left out with a warning. Raises InputError as ``cells.read`` does, and where nothing is left."""
    if not (params.judgements or params.labels):
        return None
    with memory.limit(params.memory, "evaluate.memory"):
        return Further(
            _graded(path, params.correct_above, images, captions)
            if (path := _pinned(params, params.judgements))
            else None,
            _labels(path, images) if (path := _pinned(params, params.labels)) else None,
        )


def _pinned(params: EvaluateParams, file: str | dict[str, str] | None) -> Path | None:
    """Raises IntegrityError for another file than ``params.sha256`` says."""
    if file is None:
        return None
    assert isinstance(file, str), "evaluate has taken that of its data set"
    if wanted := params.sha256.get(file):
        weights.check(given(Path(file)), wanted)
    return Path(file)


def _graded(path: Path, above: float, images: Names, captions: Names) -> Graded:
    table = cells.read(path, _PAIR, ["grade"], [_TREC, _FLICKR8K])
    if "grade" not in table and set(_FLICKR8K) <= set(table):
        table = _flickr8k(path, table)
    if "grade" not in table:
        raise InputError(f"{path}: column 'grade' is missing")
    grades = cells.numbers(path, table, "grade")
    if (grades < 0).any():
        raise InputError(
            f"{path}: row {np.flatnonzero(grades < 0)[0] + 1}: a grade below 0; 0 is for nothing in common"
        )
    sides = [names.find(table[key]) for names, key in zip((images, captions), _PAIR, strict=True)]
    for found, key in zip(sides, _PAIR, strict=True):
        _say_what_is_missing(path, found, table[key], key)
    there = np.logical_and(*(found != NOWHERE for found in sides))
    if not there.any():
        raise InputError(f"{path}: none of its {len(table)} judgements is of an image and a caption that are there")
    return Graded(sides[0][there], sides[1][there], grades[there], above)


def _flickr8k(path: Path, table: pd.DataFrame) -> pd.DataFrame:
    """A row an expert, graded 0 to 3 for their 1 to 4; or a row a pair, graded by the crowd's share of Yes, 0 to 1.

    No row can be both: experts' have no 0 and the crowd's, of which one column says yes and one no, have one, or a share
    below 1 in the first.
    """
    figures = np.stack([cells.numbers(path, table, name) for name in _FLICKR8K[2:]], axis=1)
    pairs = table[list(_PAIR)]
    if np.isin(figures, _EXPERT).all():
        return pd.concat([pairs.assign(grade=of_one - 1) for of_one in figures.T], ignore_index=True)
    share, yes, no = figures.T
    wrong = np.flatnonzero(~(np.abs(share * (yes + no) - yes) <= _ROUNDING * (yes + no)) | (yes + no < 1))
    if len(wrong):
        raise InputError(
            f"{path}: row {wrong[0] + 1}: expected grades of three experts, 1 to 4, or a share of Yes and how many said Yes and No"
        )
    return pairs.assign(grade=share)


def _labels(path: Path, images: Names) -> Labels:
    table = cells.read(path, ["image_id", "label"], bare=[("image_id", "label")])
    found = images.find(table["image_id"])
    _say_what_is_missing(path, found, table["image_id"], "image_id")
    there = found != NOWHERE
    if not there.any():
        raise InputError(f"{path}: none of its images is there")
    ids, rows = np.unique(found[there], return_inverse=True)
    names, columns = np.unique(table["label"].to_numpy(dtype=str)[there], return_inverse=True)
    has = np.zeros((len(ids), len(names)), np.float32)
    has[rows, columns] = 1
    return Labels(ids, has)


def _say_what_is_missing(path: Path, found: np.ndarray, named: Sequence[str], key: str) -> None:
    absent = pd.unique(pd.Series(named)[found == NOWHERE])
    if len(absent):
        warn(
            f"{path}: {len(absent)} of {pd.Series(named).nunique()} {key}s are not there, the first is {absent[0]}; they are left out"
        )
