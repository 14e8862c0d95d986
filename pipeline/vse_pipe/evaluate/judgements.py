"""Judgements of images and captions: grades by their names with figures from them, and which pairs
are correct."""

import importlib.util
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from jaxtyping import Int64

from vse_pipe.artifacts import captions, images
from vse_pipe.artifacts import names as text_names
from vse_pipe.artifacts.evaluation import DIRECTIONS, JUDGED, heading, rounded
from vse_pipe.core import memory, weights
from vse_pipe.core.console import warn
from vse_pipe.core.errors import InputError, missing_package
from vse_pipe.core.files import read_json
from vse_pipe.evaluate.text_tables import PAIR, numbers, read_pairs
from vse_pipe.project.params.schema import EvaluateParams
from vse_pipe.ranking import files, outcomes
from vse_pipe.ranking.criteria import Trial, Tuned
from vse_pipe.ranking.graded import Graded, kendall
from vse_pipe.ranking.recall import Relevance, mean_grades
from vse_pipe.ranking.scores import Scores
from vse_pipe.ranking.split import Split

NOWHERE = -1


def names_of(key: str, ids: Int64[np.ndarray, " rows"], texts: text_names.TextIds | None) -> pd.Series:
    """The ids of images or captions by their names. key: image_id or caption_id. texts: the texts
    of ids that are text."""
    labels = None if texts is None else texts.texts(key, ids)
    return pd.Series(ids, ids.astype(str) if labels is None else labels.to_pylist())


def find(names: pd.Series, texts: Iterable[str]) -> Int64[np.ndarray, " texts"]:
    """The ids of the names, NOWHERE for an unknown name."""
    rows = names.index.get_indexer(pd.Index(texts, dtype=object))
    return np.where(rows < 0, NOWHERE, names.to_numpy()[rows])


def dataset_names(folder: Path) -> tuple[pd.Series, pd.Series]:
    """The ids by name of the images and captions of data/prepare/<dataset>/.

    An image has its id, its path and its file name as names. A caption has its id, and the file
    name with ``#0``, ``#1``, ... in the order of the data set, as in Flickr8k and Flickr30k. File
    names that occur in several folders are no names; of equal names the first counts."""
    texts = text_names.read(folder)
    pictures, sentences = images.read(folder).to_pandas(), captions.read(folder).to_pandas()
    image_ids, caption_ids = pictures["image_id"].to_numpy(), sentences["caption_id"].to_numpy()
    files = pictures["file"].str.rpartition("/")[2]
    files = files.mask(files.duplicated(keep=False))
    owners = sentences["image_id"].map(pd.Series(files.to_numpy(), image_ids))
    numbered = owners + "#" + sentences.groupby("image_id", sort=False).cumcount().astype(str)
    image_names = [names_of("image_id", image_ids, texts)]
    image_names += [pd.Series(image_ids, names) for names in (pictures["file"], files)]
    caption_names = [names_of("caption_id", caption_ids, texts), pd.Series(caption_ids, numbered)]
    both = pd.concat(image_names), pd.concat(caption_names)
    return both[0][~both[0].index.duplicated()], both[1][~both[1].index.duplicated()]


def read_judgements(params: EvaluateParams, images: pd.Series, captions: pd.Series) -> Graded | None:
    """The content of ``params.judgements``, of one data set, or None. Rows with unknown images or
    captions are left out with a warning. Raises InputError as ``read_pairs`` does, and when no row
    is left, IntegrityError for another digest than in ``params.sha256``."""
    if params.judgements is None:
        return None
    path = Path(str(params.judgements))
    if digest := params.sha256.get(str(params.judgements)):
        weights.check(files.existing(path), digest)
    with memory.limit(params.memory, "evaluate.memory"):
        table = read_pairs(path, "grade")
    if "grade" not in table:
        raise InputError(f"{path}: column 'grade' is missing")
    grades = numbers(path, table, "grade")
    if (grades < 0).any():
        raise InputError(f"{path}: row {np.flatnonzero(grades < 0)[0] + 1}: a grade below 0")
    image_ids, caption_ids = ids = [
        find(names, table[key]) for key, names in zip(PAIR, (images, captions), strict=True)
    ]
    for key, numbered in zip(PAIR, ids, strict=True):
        if len(absent := table[key][numbered == NOWHERE].unique()):
            warn(f"{path}: {len(absent)} of {table[key].nunique()} {key}s are not there, the first is {absent[0]}")
    present = (image_ids != NOWHERE) & (caption_ids != NOWHERE)
    if not present.any():
        raise InputError(f"{path}: none of its {len(table)} rows is of images and captions that are there")
    return Graded(image_ids[present], caption_ids[present], grades[present], params.correct_above)


def measure_judgements(
    graded: Graded,
    options: EvaluateParams,
    is_comparable: bool,
    choices: dict[str, Tuned],
    folds: Sequence[Split],
    trials: dict[str, list[Trial]],
) -> tuple[dict, dict[str, pa.Table]]:
    """The figures for the metrics document, and the table of ``JUDGED``. A criterion with a matching
    has no ranking and gets none.

    Under ``folds`` a query is ranked among the items of its fold. Raises InputError when judgements
    name no ranked item."""
    figures: dict = {}
    tables: list[pa.Table] = []
    for direction in DIRECTIONS:
        criterion = choices[direction].criterion
        if criterion.matching:
            continue
        ranked = [
            Fold(number, split, trial.under(criterion))
            for number, (split, trial) in enumerate(zip(folds, trials[direction], strict=True))
        ]
        judged, table = _judged_figures(options, is_comparable, graded, direction, ranked)
        figures[direction] = rounded(judged)
        tables.append(table)
    if not tables:
        return {}, {}
    about = {"file": options.judgements, "correct_above": options.correct_above}
    return {"judged": about | figures}, {JUDGED: pa.concat_tables(tables)}


class Fold(NamedTuple):
    """scores: of one direction under the criterion."""

    number: int
    split: Split
    scores: Scores


def _judged_figures(
    options: EvaluateParams, is_comparable: bool, judgements: Graded, direction: str, folds: Sequence[Fold]
) -> tuple[dict, pa.Table]:
    depths = outcomes.Depths.including(options.recall, options.ndcg)
    parts, agreed = [], []
    for fold, split, scores in folds:
        queries, items = split.sides(direction)
        cells = judgements.cells(direction, queries, items)
        rows, columns, cell_scores = outcomes.rank_graded(scores, cells, judgements.above, options.ties, depths)
        if len(rows):
            parts.append(_table(direction, fold, queries[rows], columns))
        # Does the caption of the pair describe another image?
        images, captions = (cells.rows, cells.columns)[:: 1 if direction == "image_to_text" else -1]
        agreed.append((cell_scores, cells.grades, split.image_ids[images] != split.caption_images[captions]))
    if not parts:
        raise InputError(
            f"evaluate.judgements {options.judgements}: no pair with a grade above {judgements.above:g} is among the {direction} "
            f"queries and items that are ranked; {len(judgements.grades)} judgements were read"
        )
    pair_scores, grades, foreign = (np.concatenate(values) for values in zip(*agreed, strict=True))
    table = pa.concat_tables(parts)
    figures: dict = {
        "queries": len(table),
        **outcomes.means({name: table[name].to_numpy() for name in table.column_names}),
    }
    # Over all judgements, and over those of captions that describe another picture.
    for name, mask in (("kendall", np.full(len(grades), True)), ("kendall_foreign", foreign)):
        agreement = kendall(pair_scores[mask], grades[mask]) if is_comparable else {}
        figures[name] = {"judgements": int(mask.sum()), **agreement}
    # Pairs of another split, of different folds, or with an image that was left out are not ranked.
    unranked = len(judgements.grades) - len(grades)
    return figures | ({"unranked": unranked} if unranked else {}), table


def _table(direction: str, fold: int, queries: np.ndarray, columns: dict[str, np.ndarray]) -> pa.Table:
    columns = {**heading(direction, fold, len(queries)), "query_id": queries, **columns}
    return pa.table({name: pa.array(values) for name, values in columns.items()})


# Names in --qrels, with the first part of the package's file names.
_COLLECTIONS = {"eccv_caption": "eccv", "cxc": "cxc"}
_FILES = {"image_to_text": "image_to_caption", "text_to_image": "caption_to_image"}


def read_qrels(source: str, book: files.Book | None = None) -> Relevance:
    """The correct items of each query. source: a collection of ``_COLLECTIONS``, or a file of
    ``text_tables.read_pairs``.

    The pairs of a file hold in both directions; a pair with a mean relevance above 0 is correct.
    book: of the files with the vectors. Raises InputError for other files, MissingResource when the
    package of a collection is not installed."""
    if source in _COLLECTIONS:
        return read_eccv(source)
    path, book = Path(source), book or files.Book()
    table = read_pairs(path, "relevance")
    images, captions = (book.numbers(key, source, pa.array(table[key], pa.string())) for key in PAIR)
    table = table if "relevance" in table else table.assign(relevance=1.0)
    relevance = numbers(path, table, "relevance")
    correct = mean_grades(images, captions, relevance) > 0
    if not correct.any():
        raise InputError(f"{path}: no pair with a relevance above 0 among {len(correct)} lines")
    return Relevance.both_ways(images[correct], captions[correct])


def read_eccv(name: str) -> Relevance:
    """``eccv_caption``: Chun et al., ECCV Caption, ECCV 2022: 1,261 images and 1,332 captions,
    judged by machines and people; ``cxc``: Parekh et al., Crisscrossed Captions, EACL 2021, its
    positive pairs.

    Ids are COCO's image ids and annotation ids. The files are read without an import of the
    package, which prints warnings. Raises MissingResource when it is not installed."""
    package = importlib.util.find_spec("eccv_caption")
    if package is None or package.origin is None:
        raise missing_package(f"--qrels {name}", "eccv_caption")
    data = Path(package.origin).parent / "data"
    return Relevance(
        {direction: _pairs(data / f"{_COLLECTIONS[name]}_{file}.json") for direction, file in _FILES.items()}
    )


def _pairs(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """(query, item) ids of a JSON: query ids as text, lists of ids of correct items."""
    correct = read_json(path)
    queries = np.array(list(correct), dtype=np.int64)
    counts = np.fromiter(map(len, correct.values()), np.int64, len(correct))
    items = np.fromiter((item for ids in correct.values() for item in ids), np.int64, int(counts.sum()))
    return np.repeat(queries, counts), items
