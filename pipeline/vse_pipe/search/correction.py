"""Correction of scores by a bank of queries, and calibration to the probability of a match.

Both are cached in data/search/<run>/ until embeddings, bank, criterion, parameters or code change.
The folder can be removed at any time.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Float32, Float64
from safetensors import SafetensorError, safe_open

from vse_pipe.artifacts import embeddings, evaluation, identity
from vse_pipe.core.console import say, warn
from vse_pipe.core.errors import InputError, MissingResource, PipelineError, UsageError
from vse_pipe.core.files import save_tensors
from vse_pipe.evaluate.stage import warn_of_residual
from vse_pipe.project import code, paths
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import INFERENCES
from vse_pipe.ranking import calibration, criteria
from vse_pipe.ranking.calibration import METHOD, fitted
from vse_pipe.ranking.criteria import PLAIN, Criterion
from vse_pipe.ranking.scores import Scores
from vse_pipe.ranking.split import BankSource, Split
from vse_pipe.ranking.vectors import Vectors
from vse_pipe.search.gallery import SPLITS
from vse_pipe.search.network import Network, open_run
from vse_pipe.search.query import TO_IMAGES

_VAL, _VALUES, _ABOUT = "val", "values", "about"
# Criteria with scores that depend on the number of queries in the bank.
_SUMS = ("is", "dual_is")


@dataclass(frozen=True)
class Correction:
    """The score ``scale * s - bias``; bias: of each item, None for zeros; about: bank, date,
    seconds, and whether it comes from the cache; empty without a correction."""

    scale: float
    bias: Float64[np.ndarray, " items"] | None
    about: dict

    def apply(self, scores: Float32[np.ndarray, " items"]) -> Float32[np.ndarray, " items"]:
        """Corrected scores in the precision of ``scores``, as in the evaluation."""
        if self.bias is None:
            return scores
        return scores.dtype.type(self.scale) * scores - self.bias.astype(scores.dtype)


@dataclass(frozen=True)
class Calibration:
    """about: method, candidates, run and split of the queries, their number, pairs and base_rate,
    date, seconds, and whether it comes from the cache."""

    knots: Float[np.ndarray, "2 knots"]
    about: dict

    def __call__(self, scores: Float[np.ndarray, " items"]) -> Float[np.ndarray, " items"]:
        return np.interp(scores, *self.knots)


def criterion_of(params: Params, inference: str) -> Criterion:
    """The criterion. Raises UsageError for an unknown one, and one that needs many queries."""
    criterion = criteria.parse(inference, params.inference)
    able = ", ".join(name for name in INFERENCES.names() if INFERENCES.traits(name).item_bias)
    if criterion.matching:
        raise UsageError(
            f"{inference} matches all queries of a set with the items at once and cannot answer one by itself; search with {able}"
        )
    if not criterion.rescoring.traits.item_bias:
        raise UsageError(f"{inference} is more than one number an item and is not searched with; search with {able}")
    return criterion


def correction_of(params: Params, run: str, criterion: Criterion, network: Network, direction: str) -> Correction:
    """The correction of the items of ``network``'s split in one direction by ``evaluate.bank``;
    ``test`` means the searched split.

    Raises MissingResource under ``evaluate.tune`` if no evaluation has chosen the parameters, and
    as banks do.
    """
    if criterion.name == PLAIN:
        return Correction(1.0, None, {})
    criterion = _with_tuned(params, run, criterion, direction)
    split = network.galleries[0].split
    bank = split if params.evaluate.bank in ("test", split) else params.evaluate.bank
    transfer = params.transfers.get(run)
    if transfer is not None and transfer.bank != transfer.dataset and bank in SPLITS and bank != split:
        raise UsageError(
            f"the bank of '{run}' is the {bank} split of {transfer.bank}, which is not searched; -S evaluate.bank=test takes the queries of the split that is searched"
        )
    made = network.made | ({} if bank in SPLITS else {bank: {"vectors": embeddings.digest(Path(bank))}})
    made_from = {
        "criterion": criterion.name,
        "parameters": criterion.rescoring.params.model_dump(mode="json"),
        "direction": direction,
        "split": split,
        "bank": bank,
        "weights": network.weights,
        "made": made,
        "code": code.digest(code.closure([INFERENCES.module(criterion.name), BankSource.__module__])),
    }
    path = paths.searched(run) / f"{criterion.name}.{split}.{direction}.safetensors"
    bias, about = _cached(path, made_from, lambda: _bias(params, criterion, network, direction, bank))
    return Correction(about["scale"], bias, about)


def calibration_of(
    params: Params, run: str, criterion: Criterion, network: Network, correction: Correction, direction: str
) -> Calibration:
    """The calibration of one direction (isotonic regression).

    It is fitted on val of the searched data, or on val of the run for a transfer to data without
    val. correction: of the searched split. Warns if the two corrections are sums over different
    numbers of queries. Raises InputError without embedded captions of val, UsageError if val would
    correct itself, and as ``correction_of``.
    """
    if params.evaluate.bank == _VAL and criterion.name != PLAIN:
        raise UsageError(
            f"a probability is learnt on val, and evaluate.bank=val would correct those queries by themselves: no probability under "
            f"{criterion.name}, or -S evaluate.bank=test or train"
        )
    val_run, val = _calibration_split(params, run, network)
    val_correction = correction_of(params, val_run, criterion, val, direction)
    counts = [fit.about.get("queries") for fit in (correction, val_correction)]
    if criterion.name in _SUMS and counts[0] != counts[1]:
        warn(
            f"{criterion.name} sums over the queries of its bank, {counts[0]:,} for what is searched and {counts[1]:,} where "
            "probabilities are learnt, and scores with them: probabilities are off; evaluate.bank=train has one bank for both"
        )
    made_from = {
        "method": METHOD,
        "criterion": criterion.name,
        "parameters": criterion.rescoring.params.model_dump(mode="json"),
        "correction": {key: value for key, value in val_correction.about.items() if key != "kept"},
        "weights": network.weights,
        "made": val.made,
        "code": code.digest(code.closure([calibration.__name__])),
    }
    path = paths.searched(run) / f"{criterion.name}.{METHOD}.{direction}.safetensors"
    knots, about = _cached(path, made_from, lambda: _knots(params, val_run, val, val_correction, direction))
    return Calibration(knots, about)


def _with_tuned(params: Params, run: str, criterion: Criterion, direction: str) -> Criterion:
    """The criterion; under ``evaluate.tune`` with the parameters chosen for this direction."""
    if not criterion.open_parameters(params.evaluate.tune):
        return criterion
    folder = paths.evaluated(run, criterion.name)
    if reason := evaluation.read_unmeasured(paths.evaluations(run)).get(criterion.name):
        raise InputError(f"evaluate.tune is set and nothing can choose the parameters of {criterion.name}: {reason}")
    if not (folder / evaluation.METRICS).is_file():
        raise MissingResource(
            f"{folder / evaluation.METRICS} does not exist: evaluate.tune is set and no evaluation has chosen the parameters "
            f"of {criterion.name} yet; run `vse-pipe evaluate --run {run} --inference {criterion.name}`"
        )
    identity.require_current(paths.evaluations(run))
    options = criterion.rescoring.params.model_copy(update=evaluation.read_metrics(folder)["parameters"][direction])
    return criteria.parse(criterion.name, {criterion.name: options})


def _bias(params: Params, criterion: Criterion, network: Network, direction: str, bank: str) -> tuple[np.ndarray, dict]:
    """(bias of each item, facts about it). Raises as banks do."""
    memory, similarity, split = params.evaluate.memory, network.similarity(), _split_of(network)
    scores = Scores.from_sides(split.images, split.captions, similarity, memory=memory)
    if direction == TO_IMAGES:
        scores = scores.transposed()
    queries = BankSource(bank, _bank_split(network, bank)).bank(split, scores, direction, similarity, memory)
    rows, columns = queries.queries.shape
    if not rows:
        folder = paths.embedded(params.trained(network.galleries[0].run))
        raise InputError(
            f"{criterion.name} corrects by queries, and split '{bank}' has no captions; name a folder of embeddings by the same "
            f"model that has some, such as -S evaluate.bank={folder}"
        )
    say(f"{criterion.name}: computing the correction of {columns:,} items by {rows:,} queries of {bank}, once")
    bias = criterion.item_bias(queries)
    assert bias is not None
    warn_of_residual(criterion, direction, bias.notes)
    about = {"bank": bank, "queries": rows, "items": columns, "scale": bias.scale, "notes": dict(bias.notes)}
    return bias.bias.double().cpu().numpy(), about


def _knots(params: Params, run: str, val: Network, correction: Correction, direction: str) -> tuple[np.ndarray, dict]:
    split = _split_of(val)
    scores = Scores.from_sides(split.images, split.captions, val.similarity(), memory=params.evaluate.memory)
    scores = scores.transposed() if direction == TO_IMAGES else scores
    if correction.bias is not None:
        bias, scale = torch.from_numpy(correction.bias), correction.scale
        scores = scores.mapped(lambda strip, rows: scale * strip - bias.to(strip))
    candidates = calibration.candidates([(scores, split.truth(direction))])
    say(f"probability of a match: {METHOD} on {len(candidates.scores):,} pairs of {_VAL}, fitted once")
    about = {"method": METHOD, "run": run, "split": _VAL, "candidates": calibration.CANDIDATES, **candidates.about}
    return fitted(candidates.scores, candidates.matched), about


def _split_of(network: Network) -> Split:
    ids = network.ids
    return Split(ids.image_ids, ids.caption_ids, ids.caption_images, network.images(), network.captions())


def _bank_split(network: Network, bank: str) -> Split | None:
    """Images and captions of the bank; None if they are the searched ones. Raises InputError for
    embeddings of another model, and for a folder together with an ensemble."""
    gallery = network.galleries[0]
    if bank == gallery.split:
        return None
    if bank in SPLITS:
        return _split_of(network.on_split(bank))
    if len(network.galleries) > 1:
        raise InputError("several networks take their bank from their own runs: evaluate.bank test, train or val")
    embedded = Vectors.of_folder(Path(bank))
    Vectors.of_folder(gallery.folder).must_match(embedded)
    return embedded.all_splits(network.device)


def _calibration_split(params: Params, run: str, network: Network) -> tuple[str, Network]:
    """(run, network) of val: the run or transfer that embedded it, and its network."""
    trained = params.trained(run)
    try:
        return run, network.on_split(_VAL)
    except InputError as error:
        if run == trained:
            raise InputError(f"a probability of a match is learnt from val: {error}") from error
    try:
        return trained, open_run(params, trained, _VAL, network.device)
    except (InputError, MissingResource) as error:
        raise type(error)(
            f"a probability of a match is learnt from val, of '{trained}' where '{run}' has none: {error}"
        ) from error


def _cached(path: Path, made_from: dict, compute: Callable[[], tuple[np.ndarray, dict]]) -> tuple[np.ndarray, dict]:
    """The array and the facts of ``compute``, read from ``path`` if that was made from the same.

    A damaged or unwritable file causes a warning and a new computation. The facts gain
    ``computed``, ``seconds`` and ``kept``. made_from: values for JSON, with the digests of all
    inputs.
    """
    made_from = json.loads(json.dumps(made_from))
    if path.is_file():
        try:
            with safe_open(path, framework="numpy") as file:
                content = json.loads(file.metadata()[_ABOUT])
                if content["made_from"] == made_from:
                    return file.get_tensor(_VALUES), {**content[_ABOUT], "kept": True}
        except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
            warn(f"{path}: damaged ({' '.join(str(error).split())}); it is made again")
    started = time.monotonic()
    values, about = compute()
    about["computed"] = datetime.now(UTC).isoformat(timespec="seconds")
    about["seconds"] = round(time.monotonic() - started, 3)
    content = json.dumps({_ABOUT: about, "made_from": made_from}, sort_keys=True)
    try:
        save_tensors(path, {_VALUES: values}, {_ABOUT: content})
    except (OSError, PipelineError) as error:
        warn(f"{path} cannot be kept and the next search makes it again: {error}")
    return values, {**about, "kept": False}
