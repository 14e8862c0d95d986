"""Correction of scores by a bank of queries."""

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float32, Float64

from vse_pipe.artifacts import evaluation, identity
from vse_pipe.core.errors import InputError, MissingResource, UsageError
from vse_pipe.evaluate.stage import warn_of_residuals
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.ranking import criteria
from vse_pipe.ranking.criteria import PLAIN, Criterion
from vse_pipe.ranking.split import BankSource, Split
from vse_pipe.ranking.vectors import Vectors
from vse_pipe.search.network import SPLITS, Network
from vse_pipe.search.query import TO_IMAGES


@dataclass(frozen=True)
class Correction:
    """The score ``scale * s - bias``; bias: of each item, None for zeros; about: bank and
    seconds; empty without a correction."""

    scale: float
    bias: Float64[np.ndarray, " items"] | None
    about: dict

    def apply(self, scores: Float32[np.ndarray, " items"]) -> Float32[np.ndarray, " items"]:
        """Corrected scores in the precision of ``scores``, as in the evaluation."""
        if self.bias is None:
            return scores
        return scores.dtype.type(self.scale) * scores - self.bias.astype(scores.dtype)


def correction_of(params: Params, run: str, criterion: Criterion, network: Network, direction: str) -> Correction:
    """The correction of the items of ``network``'s split in one direction by ``evaluate.bank``;
    ``test`` means the searched split.

    Raises MissingResource under ``evaluate.tune`` if no evaluation has chosen the parameters, and
    as banks do.
    """
    if criterion.name == PLAIN:
        return Correction(1.0, None, {})
    criterion = _with_tuned(params, run, criterion, direction)
    split = network.split
    bank = split if params.evaluate.bank in ("test", split) else params.evaluate.bank
    transfer = params.transfers.get(run)
    if transfer is not None and transfer.bank not in (None, transfer.dataset) and bank in SPLITS and bank != split:
        raise UsageError(
            f"the bank of '{run}' is the {bank} split of {transfer.bank}, which is not searched; -S evaluate.bank=test takes the queries of the split that is searched"
        )
    return _corrected(params, criterion, network, direction, bank)


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


def _corrected(params: Params, criterion: Criterion, network: Network, direction: str, bank: str) -> Correction:
    """Raises as banks do."""
    started = time.monotonic()
    memory, similarity, split = params.evaluate.memory, network.similarity, network.items
    scores = split.scores(similarity, memory)
    if direction == TO_IMAGES:
        scores = scores.transposed()
    queries = BankSource(bank, _bank_split(network, bank)).bank(split, scores, direction, similarity, memory)
    rows, columns = queries.queries.shape
    if not rows:
        folder = paths.embedded(params.trained(network.runs[0]))
        raise InputError(
            f"{criterion.name} corrects by queries, and split '{bank}' has no captions; name a folder of embeddings by the same "
            f"model that has some, such as -S evaluate.bank={folder}"
        )
    bias = criterion.item_bias(queries)
    assert bias is not None
    warn_of_residuals(criterion, {direction: bias.notes})
    about = {"bank": bank, "queries": rows, "items": columns, "scale": bias.scale, "notes": dict(bias.notes)}
    about["seconds"] = round(time.monotonic() - started, 3)
    return Correction(bias.scale, bias.bias.double().cpu().numpy(), about)


def _bank_split(network: Network, bank: str) -> Split | None:
    """Images and captions of the bank; None if they are the searched ones. Raises InputError for
    embeddings of another model, and for a folder together with an ensemble."""
    if bank == network.split:
        return None
    if bank in SPLITS:
        return network.on_split(bank).items
    if len(network.parts) > 1:
        raise InputError("several networks take their bank from their own runs: evaluate.bank test, train or val")
    embedded = Vectors.of_folder(Path(bank))
    network.parts[0].must_match(embedded)
    return embedded.all_splits(network.device)
