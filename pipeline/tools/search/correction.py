"""What a criterion takes off the score of each item, from a bank of queries: computed once, then kept in data/search/."""

import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import torch
from jaxtyping import Float32, Float64
from torch import Tensor

from pipeline.artifacts import embeddings, evaluation
from pipeline.core.console import say
from pipeline.core.errors import InputError, MissingResource, UsageError
from pipeline.evaluate.engine.measure import is_open
from pipeline.evaluate.stage import warn_of_residual
from pipeline.project import code, paths
from pipeline.project.params.typed import Params
from pipeline.project.registry import INFERENCES
from pipeline.ranking.engine import bank_source, criteria
from pipeline.ranking.engine.bank_source import BankSource
from pipeline.ranking.engine.criteria import PLAIN, Criterion
from pipeline.ranking.engine.embedded import Embedded
from pipeline.ranking.engine.scores import Scores
from pipeline.ranking.engine.split import Split
from pipeline.tools.search import stored
from pipeline.tools.search.gallery import SPLITS
from pipeline.tools.search.network import Network
from pipeline.tools.search.together import Together


@dataclass(frozen=True)
class Correction:
    """The score ``scale * s - bias``; bias: of each item, None for zeros. about: the bank, when and how long it was computed
    and whether it was kept from an earlier call; empty where there is nothing to compute."""

    scale: float
    bias: Float64[Tensor, " items"] | None
    about: dict

    def apply(self, scores: Float32[Tensor, " items"]) -> Float32[Tensor, " items"]:
        """In the precision of the scores, as the evaluation has it."""
        if self.bias is None:
            return scores
        return torch.add(-self.bias.to(scores), scores, alpha=self.scale)


def criterion_of(params: Params, inference: str) -> Criterion:
    """Raises UsageError for one that does not exist, or that cannot answer one query by itself."""
    found = criteria.parse(inference, params.inference)
    able = [name for name in INFERENCES.names() if INFERENCES.traits(name).item_bias]
    if found.matching:
        raise UsageError(
            f"{inference} matches all queries of a set with the items at once and cannot answer one by itself; search "
            f"with {', '.join(able)}"
        )
    if found.rescoring.name not in able:
        raise UsageError(
            f"{inference} is more than one number an item and is not searched with; search with {', '.join(able)}"
        )
    return found


def correction_of(
    params: Params, run: str, criterion: Criterion, network: Network | Together, direction: str
) -> Correction:
    """Of the items of ``network``'s split in one direction; the bank is that of ``evaluate.bank``, where ``test`` means the
    queries of the split that is searched.

    From data/search/<run>/ where it was computed from the same embeddings, bank, criterion and parameters; computed and
    kept there otherwise. Raises MissingResource under ``evaluate.tune`` where no evaluation has chosen the parameters yet,
    and what banks raise.
    """
    if criterion.name == PLAIN:
        return Correction(1.0, None, {})
    criterion = _with_tuned(params, run, criterion, direction)
    split = network.galleries[0].split
    bank = split if params.evaluate.bank in (bank_source.OWN, split) else params.evaluate.bank
    moved = params.transfers.get(run)
    if moved is not None and moved.bank != moved.dataset and bank in SPLITS and bank != split:
        raise UsageError(
            f"the bank of '{run}' is the {bank} split of {moved.bank}, which is not searched; -S evaluate.bank=test takes the "
            "queries of the split that is searched"
        )
    files = [path for gallery in network.galleries for path in gallery.files]
    if bank not in SPLITS:
        files += [Path(bank) / name for name in (embeddings.IMAGES, embeddings.CAPTIONS)]
    identity = {
        "criterion": criterion.name,
        "parameters": criterion.rescoring.params.model_dump(mode="json"),
        "direction": direction,
        "split": split,
        "bank": bank,
        "weights": network.weights if isinstance(network, Together) else None,
        "code": code.digest(code.closure([*INFERENCES.modules(criterion.rescoring.name), bank_source.__name__])),
    }
    path = paths.searched(run) / f"{criterion.name}.{split}.{direction}.safetensors"
    found = stored.read(path, identity, files)
    if found is not None:
        return Correction(found.about["scale"], found.tensors["bias"], {**found.about, "kept": True})
    made = _computed(params, criterion, network, direction, bank)
    stored.write(path, made, identity, files)
    return Correction(made.about["scale"], made.tensors["bias"], {**made.about, "kept": False})


def _with_tuned(params: Params, run: str, criterion: Criterion, direction: str) -> Criterion:
    """Under ``evaluate.tune``, with the parameters that the evaluation of this direction chose."""
    if not is_open(criterion, params.evaluate):
        return criterion
    folder = paths.evaluated(run, criterion.name)
    if not (folder / evaluation.METRICS).is_file():
        raise MissingResource(
            f"{folder / evaluation.METRICS} does not exist: evaluate.tune is set and no evaluation has chosen the parameters "
            f"of {criterion.name} yet; run `vse-pipe evaluate --run {run} --inference {criterion.name}`"
        )
    chosen = evaluation.read_metrics(folder)["parameters"][direction]
    part = criterion.rescoring
    return replace(criterion, rescoring=replace(part, params=part.params.model_copy(update=chosen)))


def _computed(
    params: Params, criterion: Criterion, network: Network | Together, direction: str, bank: str
) -> stored.Stored:
    started = time.monotonic()
    memory, similarity, split = params.evaluate.memory, network.similarity(), _split(network)
    source = BankSource(bank, _other(network, bank))
    scores = Scores.of(split.images, split.captions, similarity, memory=memory)
    if direction == "text_to_image":
        scores = scores.transposed()
    queries = source.bank(split, scores, direction, similarity, memory)
    rows, columns = queries.queries.shape
    if not rows:
        raise InputError(
            f"{criterion.name} corrects by queries and split '{bank}' has no captions; name a folder of embeddings by the same model "
            f"that has some: -S evaluate.bank={paths.embedded(params.trained(network.galleries[0].run))}"
        )
    say(f"{criterion.name}: computing the correction of {columns:,} items by {rows:,} queries of {bank}, once")
    found = criterion.item_bias(queries)
    assert found is not None
    warn_of_residual(criterion, direction, found.notes)
    about = {
        "bank": bank,
        "queries": rows,
        "items": columns,
        "scale": found.scale,
        "computed": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(time.monotonic() - started, 3),
        "notes": dict(found.notes),
    }
    return stored.Stored({"bias": found.bias.double().cpu()}, about)


def _split(network: Network | Together) -> Split:
    ids = network.ids
    return Split(ids.image_ids, ids.caption_ids, ids.caption_images, network.images(), network.captions())


def _other(network: Network | Together, bank: str) -> Split | None:
    """The bank's own images and captions; None where they are those that are searched. Raises InputError for a folder of
    another model's, or beside an ensemble."""
    gallery = network.galleries[0]
    if bank == gallery.split:
        return None
    if bank in SPLITS:
        return _split(network.of(bank))
    if isinstance(network, Together):
        raise InputError("several networks take their bank from their own runs: evaluate.bank test, train or val")
    other = Embedded.read(Path(bank))
    Embedded.read(gallery.folder, gallery.run).must_match(other)
    return other.whole(network.device)
