"""What a criterion takes off the score of each item, from a bank of queries: computed once, then kept in data/search/."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32, Float64, Int64

from vse_pipe.artifacts import current, embeddings, evaluation
from vse_pipe.core.errors import InputError, MissingResource, UsageError
from vse_pipe.project import code, paths
from vse_pipe.project.params import criteria as grammar
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import INFERENCES
from vse_pipe.tools.search import stored
from vse_pipe.tools.search.gallery import SPLITS
from vse_pipe.tools.search.network import Network
from vse_pipe.tools.search.together import Together

PLAIN = "nns"
_BANKS = "vse_pipe.ranking.engine.bank_source"


@dataclass(frozen=True)
class Rescoring:
    """A criterion that is one number an item, by name, with its parameters; nothing of it is imported that needs torch."""

    name: str
    params: Any


@dataclass(frozen=True)
class Correction:
    """The score ``scale * s - bias``; bias: of each item, None for zeros. about: the bank, when and how long it was computed
    and whether it was kept from an earlier call; empty where there is nothing to compute."""

    scale: float
    bias: Float64[np.ndarray, " items"] | None
    about: dict

    def apply(self, scores: Float32[np.ndarray, "*queries items"]) -> Float32[np.ndarray, "*queries items"]:
        """In the precision of the scores, as the evaluation has it."""
        if self.bias is None:
            return scores
        return scores.dtype.type(self.scale) * scores - self.bias.astype(scores.dtype)

    def at(self, places: Int64[np.ndarray, " places"]) -> "Correction":
        """Of some items alone."""
        return self if self.bias is None else replace(self, bias=self.bias[places])


def criterion_of(params: Params, inference: str) -> Rescoring:
    """Raises UsageError for one that does not exist, or that cannot answer one query by itself."""
    objection = grammar.objection(inference)
    if objection:
        raise UsageError(objection)
    if grammar.matches(inference):
        raise UsageError(
            f"{inference} matches all queries of a set with the items at once and cannot answer one by itself; search "
            f"with {_able()}"
        )
    if not INFERENCES.traits(inference).item_bias:
        raise UsageError(f"{inference} is more than one number an item and is not searched with; search with {_able()}")
    return Rescoring(inference, params.inference.get(inference) or INFERENCES.options(inference)())


def _able() -> str:
    return ", ".join(name for name in INFERENCES.names() if INFERENCES.traits(name).item_bias)


def correction_of(
    params: Params, run: str, criterion: Rescoring, network: Network | Together, direction: str
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
    bank = split if params.evaluate.bank in ("test", split) else params.evaluate.bank
    moved = params.transfers.get(run)
    if moved is not None and moved.bank != moved.dataset and bank in SPLITS and bank != split:
        raise UsageError(
            f"the bank of '{run}' is the {bank} split of {moved.bank}, which is not searched; -S evaluate.bank=test takes the "
            "queries of the split that is searched"
        )
    files = files_of(network)
    if bank not in SPLITS:
        files |= stored.stamped(Path(bank) / name for name in (embeddings.IMAGES, embeddings.CAPTIONS))
    identity = {
        "criterion": criterion.name,
        "parameters": criterion.params.model_dump(mode="json"),
        "direction": direction,
        "split": split,
        "bank": bank,
        "weights": network.weights if isinstance(network, Together) else None,
        "code": code.digest(code.closure([INFERENCES.module(criterion.name), _BANKS])),
    }
    path = paths.searched(run) / f"{criterion.name}.{split}.{direction}.safetensors"
    found = stored.read(path, identity, files)
    if found is not None:
        return Correction(found.about["scale"], found.tensors["bias"], {**found.about, "kept": True})
    from vse_pipe.tools.search.computed import computed

    made = computed(params, criterion.name, criterion.params, network, direction, bank)
    stored.write(path, made, identity, files)
    return Correction(made.about["scale"], made.tensors["bias"], {**made.about, "kept": False})


def files_of(network: Network | Together) -> stored.Stamps:
    """Those of all its galleries."""
    return {path: stamp for gallery in network.galleries for path, stamp in gallery.files.items()}


def _with_tuned(params: Params, run: str, criterion: Rescoring, direction: str) -> Rescoring:
    """Under ``evaluate.tune``, with the parameters that the evaluation of this direction chose."""
    if not params.evaluate.tune:
        return criterion
    from vse_pipe.evaluate.engine.measure import open_parameters
    from vse_pipe.ranking.engine.criteria import parse

    if not open_parameters(parse(criterion.name, params.inference), params.evaluate):
        return criterion
    folder = paths.evaluated(run, criterion.name)
    if why := evaluation.read_unmeasured(paths.evaluations(run)).get(criterion.name):
        raise InputError(f"evaluate.tune is set and nothing can choose the parameters of {criterion.name}: {why}")
    if not (folder / evaluation.METRICS).is_file():
        raise MissingResource(
            f"{folder / evaluation.METRICS} does not exist: evaluate.tune is set and no evaluation has chosen the parameters "
            f"of {criterion.name} yet; run `vse-pipe evaluate --run {run} --inference {criterion.name}`"
        )
    current.require(params, run, [criterion.name])
    chosen = evaluation.read_metrics(folder)["parameters"][direction]
    return Rescoring(criterion.name, criterion.params.model_copy(update=chosen))
