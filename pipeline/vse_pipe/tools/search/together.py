"""Several networks asked as one, and what a run or an ensemble consists of."""

from typing import TYPE_CHECKING, Any

from vse_pipe.artifacts import current, embeddings, evaluation, joins, model_files
from vse_pipe.core.errors import InputError, MissingResource, UsageError
from vse_pipe.project import paths
from vse_pipe.project.params.ensemble_node import TUNED
from vse_pipe.project.params.typed import Params
from vse_pipe.project.stages import dvc_stage
from vse_pipe.tools.search.gallery import Gallery, Ids
from vse_pipe.tools.search.network import Asked, Network

if TYPE_CHECKING:
    import torch

    from vse_pipe.ranking.engine.fragments import Several
    from vse_pipe.ranking.engine.scores import Similarity


class Together:
    """Networks whose scores are averaged: an ensemble, or the two networks of a run. weights: of each, None for the plain
    mean. Raises InputError unless they embedded the same images and captions."""

    def __init__(self, parts: list["Network | Together"], weights: tuple[float, ...] | None = None) -> None:
        self.parts, self.weights = parts, weights
        self.ids: Ids = parts[0].ids
        for part in parts[1:]:
            for key, values in vars(part.ids).items():
                ours = getattr(self.ids, key)
                if len(ours) != len(values) or (ours != values).any():
                    raise InputError(
                        f"{part.galleries[0].folder}: other {key.replace('_', ' ')} than {self.galleries[0].folder}; "
                        "embed the runs again"
                    )

    def of(self, split: str) -> "Together":
        return Together([part.of(split) for part in self.parts], self.weights)

    @property
    def galleries(self) -> list[Gallery]:
        return [gallery for part in self.parts for gallery in part.galleries]

    def images(self) -> "Several":
        return self._several([part.images() for part in self.parts])

    def captions(self) -> "Several":
        return self._several([part.captions() for part in self.parts])

    def similarity(self) -> "Similarity":
        from vse_pipe.ranking.engine.fragments import MeanScore

        return MeanScore([part.similarity() for part in self.parts])

    def image(self, image_id: int) -> Asked:
        return self._joined([part.image(image_id) for part in self.parts])

    def sentence(self, text: str) -> Asked:
        return self._joined([part.sentence(text) for part in self.parts])

    def photo(self, content: bytes, name: str) -> Asked:
        return self._joined([part.photo(content, name) for part in self.parts])

    def _joined(self, asked: list[Asked]) -> Asked:
        unknown = tuple(dict.fromkeys(word for one in asked for word in one.unknown))
        notes = tuple(dict.fromkeys(note for one in asked for note in one.notes))
        return Asked(self._several([one.side for one in asked]), unknown, notes)

    def _several(self, parts: list) -> "Several":
        from vse_pipe.ranking.engine.fragments import Several

        return Several(tuple(parts), self.weights)


def open_run(
    params: Params, run: str, split: str, device: "torch.device | str", light: bool = False
) -> Network | Together:
    """A run of one network or two, or an ensemble of runs. device, light: as ``Network`` takes them; several are never light."""
    if run in params.ensembles:
        weights = _weights(params, run)
        return Together([open_run(params, one, split, device) for one in params.ensembles[run].members], weights)
    folder, trained = paths.embedded(run), paths.trained(params.trained(run))
    mend = joins.mend(dvc_stage(params, "embed", run), f"vse-pipe embed --run {run}")
    beside = paths.prepared(params.dataset(run)), mend
    gallery = Gallery.open(folder, run, split, *beside)
    wanted = gallery.about.get("peer_sha256")
    first = Network(params, gallery, trained, device, light and wanted is None)
    if wanted is None:
        return first
    peer = Gallery.open(folder / embeddings.PEER, run, split, *beside)
    if peer.about.get("model_sha256") != wanted:
        raise InputError(
            f"{peer.folder}: another network than {embeddings.IMAGES} beside it names; embed the run again"
        )
    return Together([first, Network(params, peer, trained / model_files.PEER, device)])


def computing(device: str) -> dict[str, Any]:
    """What ``open_run`` is told: the device, and whether numpy may take its place. A GPU is only asked by name for what is quicker
    computed than copied to it. Raises UsageError for a device that is not there."""
    if device in ("auto", "cpu"):
        return {"device": device, "light": True}
    from vse_pipe.core.device import resolve

    return {"device": resolve(device)}


def _weights(params: Params, run: str) -> tuple[float, ...] | None:
    """Those of its evaluation where they are chosen on val. Raises UsageError for an ensemble whose score of an item depends on
    the others, MissingResource where no evaluation has chosen the weights yet."""
    node = params.ensembles[run]
    if node.cascade:
        raise UsageError(
            f"ensemble '{run}' is a cascade, which needs an evaluation; search '{node.members[0]}' instead"
        )
    if node.fusion != "mean":
        raise UsageError(
            f"ensemble '{run}' is a fusion by {node.fusion}, which needs an evaluation; search works for the mean"
        )
    if node.weights != TUNED:
        return None if node.pair else node.shares
    for inference in params.grid.inferences:
        folder = paths.evaluated(run, inference)
        if (folder / evaluation.METRICS).is_file():
            told = evaluation.read_metrics(folder).get("ensemble", {})
            if node.tells(told):
                current.require(params, run, [inference])
                return tuple(told["weights"])
    raise MissingResource(
        f"{paths.evaluations(run)}: no evaluation has chosen the weights of the runs of '{run}' yet; run `vse-pipe evaluate --run {run}`"
    )
