"""Several networks asked as one, and what a run or an ensemble consists of."""

import torch

from pipeline.artifacts import embeddings, model_files
from pipeline.core.errors import InputError
from pipeline.project import paths
from pipeline.project.params.typed import Params
from pipeline.ranking.engine.fragments import MeanScore, Several, Sides
from pipeline.ranking.engine.scores import Similarity
from pipeline.tools.search.gallery import Gallery, Ids
from pipeline.tools.search.network import Asked, Network


class Together:
    """Networks whose scores are averaged: an ensemble, or the two networks of a run. Raises InputError unless they
    embedded the same images and captions."""

    def __init__(self, parts: list["Network | Together"]) -> None:
        self.parts = parts
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
        return Together([part.of(split) for part in self.parts])

    @property
    def galleries(self) -> list[Gallery]:
        return [gallery for part in self.parts for gallery in part.galleries]

    def images(self) -> Sides:
        return Several(tuple(part.images() for part in self.parts))

    def captions(self) -> Sides:
        return Several(tuple(part.captions() for part in self.parts))

    def similarity(self) -> Similarity:
        return MeanScore([part.similarity() for part in self.parts])

    def image(self, image_id: int) -> Asked:
        return _joined([part.image(image_id) for part in self.parts])

    def sentence(self, text: str) -> Asked:
        return _joined([part.sentence(text) for part in self.parts])

    def photo(self, content: bytes, name: str) -> Asked:
        return _joined([part.photo(content, name) for part in self.parts])


def open_run(params: Params, run: str, split: str, device: torch.device) -> Network | Together:
    """A run of one network or two, or an ensemble of runs."""
    if run in params.ensembles:
        node = params.ensembles[run]
        return Together([open_run(params, one, split, device) for one in (node.first, node.second)])
    folder, trained = paths.embedded(run), paths.trained(run)
    first = Network(params, Gallery.open(folder, run, split), trained, device)
    wanted = first.gallery.about.get("peer_sha256")
    if wanted is None:
        return first
    peer = Gallery.open(folder / embeddings.PEER, run, split)
    if peer.about.get("model_sha256") != wanted:
        raise InputError(
            f"{peer.folder}: another network than {embeddings.IMAGES} beside it names; embed the run again"
        )
    return Together([first, Network(params, peer, trained / model_files.PEER, device)])


def _joined(asked: list[Asked]) -> Asked:
    unknown = tuple(dict.fromkeys(word for one in asked for word in one.unknown))
    notes = tuple(dict.fromkeys(note for one in asked for note in one.notes))
    return Asked(Several(tuple(one.side for one in asked)), unknown, notes)
