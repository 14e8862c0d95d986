"""What an entry of params.yaml ranks: the embeddings of a run, or those of the runs of an ensemble as one model."""

import torch

from vse_pipe.artifacts import embeddings
from vse_pipe.core.console import warn
from vse_pipe.core.errors import InputError
from vse_pipe.evaluate.engine.ensemble import Ensemble, of_run
from vse_pipe.evaluate.engine.weights import tuned
from vse_pipe.project import paths
from vse_pipe.project.params.schema import TUNED
from vse_pipe.project.params.typed import Params
from vse_pipe.ranking.embedded import Embedded

_DIGITS = 6


def embedded(params: Params, name: str, device: torch.device) -> Embedded | Ensemble:
    """Weights that are to be chosen are chosen here. Raises InputError as ``Embedded.read`` does, and where there is no
    split val to choose them on; IntegrityError for embeddings of another model than there is now."""
    node = params.ensembles.get(name)
    if node is None:
        return of_run(params, name)
    parts = tuple(of_run(params, one) for one in node.members)
    if node.pair:
        return Ensemble(parts)
    if node.cascade:
        return Ensemble(
            parts, cascade=node.cascade, told={"ensemble": {"runs": list(node.members), "cascade": node.cascade}}
        )
    shares = _chosen(params, name, parts, device) if node.weights == TUNED else node.shares
    told: dict[str, object] = {
        "runs": list(node.members),
        "weights": [round(share, _DIGITS) for share in shares],
        "weights_from": "val" if node.weights == TUNED else "params.yaml",
        "fusion": node.fusion,
    }
    # A run that does not count need not be scored.
    kept = [place for place, share in enumerate(shares) if share]
    counted = tuple(parts[place] for place in kept), tuple(shares[place] for place in kept)
    return Ensemble(*counted, node.fusion, told={"ensemble": told})


def lender(
    params: Params, name: str, ranked: Embedded | Ensemble, bank: str, device: torch.device
) -> Embedded | Ensemble | None:
    """The run whose own data set is the bank of a transfer, since its entry says so or the ranked data set lacks that split; else None.

    ranked: the embeddings of the transfer; bank: ``evaluate.bank``.
    """
    node = params.transfers.get(name)
    if node is None or bank not in ("train", "val"):
        return None
    if node.bank != node.dataset:
        return embedded(params, node.run, device)
    if ranked.has(bank):
        return None
    home = at_home(params, name, device)
    if home is None or not home.has(bank):
        return None
    warn(
        f"evaluate {name}: {node.dataset} has no split {bank}; the query bank is {bank} of {params.runs[node.run].dataset}"
    )
    return home


def at_home(params: Params, name: str, device: torch.device) -> Embedded | Ensemble | None:
    """The run of a transfer on the data set that it was trained on; None of what is no transfer, and where that is not embedded."""
    node = params.transfers.get(name)
    if node is None or not (paths.embedded(node.run) / embeddings.IMAGES).is_file():
        return None
    return embedded(params, node.run, device)


def _chosen(params: Params, name: str, parts: tuple, device: torch.device) -> tuple[float, ...]:
    if params.evaluate.split == "val":
        raise InputError(
            f"ensembles.{name}.weights are chosen on val, which evaluate.split ranks; give them, or rank test"
        )
    return tuned(Ensemble(parts, fusion=params.ensembles[name].fusion), params.evaluate, device)
