"""The figures of compositional sets on the terminal."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from vse_pipe.artifacts.names import KEYS
from vse_pipe.core import memory
from vse_pipe.core.console import document, line, ruled, stdout
from vse_pipe.core.devices import resolve_device
from vse_pipe.core.errors import InputError
from vse_pipe.evaluate import ensemble, judgements, stage
from vse_pipe.evaluate.external import inputs as external
from vse_pipe.evaluate.external.inputs import InputFiles
from vse_pipe.evaluate.judgements import NOWHERE, Names, of_dataset
from vse_pipe.evaluate.measure import Inputs
from vse_pipe.project import paths
from vse_pipe.project.params.schema import EvaluateParams
from vse_pipe.project.params.typed import Params
from vse_pipe.ranking import cascade
from vse_pipe.ranking.metrics import compositional
from vse_pipe.ranking.metrics.recall import places


def show(figures: dict, as_json: bool) -> None:
    """Percentages are 0 to 100."""
    if as_json:
        document(figures)
        return
    scores = list(figures["chance"])
    table = ruled()
    table.add_column("category")
    for name in ("sets", *scores):
        table.add_column(name, justify="right", no_wrap=True)
    rows = {"all": figures, **figures.get("categories", {})}
    for name, of in rows.items():
        table.add_row(name, str(of["sets"]), *(_with_ends(of, score) for score in scores))
    table.add_row("chance", "", *(f"{figures['chance'][score]:.1f}" for score in scores))
    stdout.print(table)
    line(f"{figures['file']}: share of sets in percent, in brackets the 95% interval; an equal score is no preference")


def _with_ends(figures: dict, score: str) -> str:
    low, high = figures["intervals"][score]
    return f"{figures[score]:.1f} [{low:.1f}, {high:.1f}]"


_TWO_BY_TWO = ("image_0", "caption_0", "image_1", "caption_1")
_TRUE_OR_FALSE = ("image_id", "caption_id", "negative_id")
_CATEGORY = "category"
_INNER_PRODUCTS = ("cosine", "dot")
_DIGITS = 6


def compose_run(params: Params, run: str, sets: Path, device: str = "auto") -> dict:
    """The figures of a run or an ensemble on images and captions of the split that ``evaluate.split`` names. Raises InputError
    for a file that is not of sets, or names what is not embedded, IntegrityError for
    embeddings of another model or of other data than there are now."""
    where = resolve_device(device)
    own = params.evaluate.model_copy(update={"bank": "test"})  # nothing is corrected, so no bank need be there
    embedded = ensemble.embedded(params, run, where)
    given = stage.read_inputs(embedded, run, own, where)
    names = of_dataset(paths.prepared(params.dataset(run)), embedded.origin(own.split))
    return _figures(sets, given, names, params.evaluate)


def compose_files(files: InputFiles, params: EvaluateParams, sets: Path, device: str = "auto") -> dict:
    """The same of vectors in files; which caption is of which image need not be known."""
    given = external.read(files, params, resolve_device(device), paired=False)
    seen, read = zip(KEYS, (given.ranked.image_ids, given.ranked.caption_ids), strict=True)
    return _figures(sets, given, (Names.of_key(*seen, given.names), Names.of_key(*read, given.names)), params)


def _figures(path: Path, given: Inputs, names: tuple[Names, Names], params: EvaluateParams) -> dict:
    with memory.limit(params.memory, "evaluate.memory"):
        table = _read(path)
    ids = given.ranked.image_ids, given.ranked.caption_ids
    where = {}
    for column in table.columns.drop(_CATEGORY, errors="ignore"):
        side = 0 if column.startswith("image") else 1
        where[column] = places(ids[side], names[side].find(table[column]))
        absent = np.flatnonzero(where[column] == NOWHERE)
        if len(absent):
            raise InputError(
                f"{path}: row {absent[0] + 1}: {column} {table[column].iloc[absent[0]]} is not among the {len(ids[side])} "
                f"{('images', 'captions')[side]} that are there; {len(absent)} rows name such"
            )
    answers = _answers(given, where, params.memory)
    found: dict = {"file": str(path), **given.about, **_shares(answers)}
    if _CATEGORY in table:
        each = table[_CATEGORY].to_numpy(dtype=str)
        found["categories"] = {
            name: _shares({key: right[each == name] for key, right in answers.items()})
            for name in np.unique(each).tolist()
        }
    return found


def _read(path: Path) -> pd.DataFrame:
    """A file of either kind, which its columns tell."""
    found = judgements.read(path, [], [*_TWO_BY_TWO, *_TRUE_OR_FALSE, _CATEGORY])
    for columns in (_TWO_BY_TWO, _TRUE_OR_FALSE):
        if set(columns) <= set(found.columns):
            return found[[name for name in (*columns, _CATEGORY) if name in found.columns]]
    raise InputError(f"{path}: expected a header with {', '.join(_TWO_BY_TWO)}, or with {', '.join(_TRUE_OR_FALSE)}")


def _answers(given: Inputs, where: dict[str, np.ndarray], memory: int) -> compositional.Answers:
    inner = given.about["similarity"] in _INNER_PRODUCTS

    def scored(images: Sequence[str], captions: Sequence[str]) -> np.ndarray:
        """A row a set; the columns to compare one by one."""
        rows, columns = (np.stack([where[name] for name in of]).ravel() for of in (images, captions))
        return cascade.scores(given.ranked, given.similarity, inner, rows, columns, memory).reshape(len(images), -1).T

    if "negative_id" in where:
        found = scored(["image_id"] * 2, ["caption_id", "negative_id"])
        return compositional.true_or_false(found[:, 0], found[:, 1])
    four = [(f"image_{image}", f"caption_{caption}") for image in (0, 1) for caption in (0, 1)]
    found = scored([image for image, _ in four], [caption for _, caption in four])
    return compositional.two_by_two(found.reshape(-1, 2, 2))


def _shares(answers: compositional.Answers) -> dict:
    """In percent, with Wilson's 95% intervals over sets."""
    from scipy.stats import binomtest

    found: dict = {"sets": len(next(iter(answers.values()))), "intervals": {}, "chance": {}}
    for name, right in answers.items():
        found[name] = round(100.0 * float(right.mean()), _DIGITS)
        ends = binomtest(int(right.sum()), len(right)).proportion_ci(method="wilson")
        found["intervals"][name] = [round(100.0 * end, _DIGITS) for end in (ends.low, ends.high)]
        found["chance"][name] = round(compositional.CHANCE[name], _DIGITS)
    return found
