"""Embeddings of a run, read and checked: vectors, or fragments and the weights that compare them."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from pydantic import ValidationError
from safetensors import SafetensorError
from torch import Tensor

from vse_pipe.artifacts import embeddings, joins
from vse_pipe.artifacts.embeddings import FragmentRows, FragmentSide, Side
from vse_pipe.artifacts.images import PROPOSAL
from vse_pipe.core.errors import InputError, IntegrityError
from vse_pipe.core.files import require, sha256
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Member, Params
from vse_pipe.project.registry import SIMILARITIES
from vse_pipe.project.stages import dvc_stage
from vse_pipe.ranking.fragments import OfFragments, Sides, Words, build_similarity
from vse_pipe.ranking.scores import Similarity
from vse_pipe.ranking.split import Split

_OF_THE_FILE = {"artefact", "version", "ARROW:schema"}


@dataclass(frozen=True)
class Embedded:
    """data/embed/<run>/, or any folder with the same two files.

    prepared: the data set of the ids, None for vectors without one; mend: see ``joins.Origin``."""

    folder: Path
    images: Side | FragmentSide
    captions: Side | FragmentSide
    prepared: Path | None = None
    mend: str = ""

    @classmethod
    def of_run(cls, params: Params, run: str, place: str = "") -> "Embedded":
        """data/embed/<run>/; its splits are checked against the data set on use. place: of a second network.

        Raises as ``read``; IntegrityError for embeddings of another model than data/train/ has."""
        trained, folder = params.trained(run), paths.embedded(run)
        mend = joins.repair_advice(dvc_stage(params, "embed", run), f"vse-pipe embed --run {run}")
        embedded = replace(cls.read(folder / place, run), prepared=paths.prepared(params.dataset(run)), mend=mend)
        if not place:
            joins.require_model(
                folder, embedded.images.about.get("model_sha256", ""), paths.trained(trained), trained, mend
            )
        return embedded

    @classmethod
    def read(cls, folder: Path, run: str | None = None) -> "Embedded":
        """run: the run of the embeddings, None for any. Raises InputError when a file is missing or malformed, or when
        the two do not belong together, IntegrityError for another run."""
        command = f"vse-pipe embed --run {run}" if run else "vse-pipe embed"
        images = _side(folder / embeddings.IMAGES, command)
        captions = _side(folder / embeddings.CAPTIONS, command)
        for key in sorted({*images.about, *captions.about} - _OF_THE_FILE):
            ours, theirs = images.about.get(key), captions.about.get(key)
            if ours != theirs:
                raise InputError(
                    f"{folder}: images.parquet has {key} {ours!r} and captions.parquet {theirs!r}; embed both again"
                )
        if run is not None and images.about.get("run") != run:
            raise IntegrityError(
                f"{folder}: embeddings of run {images.about.get('run')!r}, expected {run!r}; embed it again"
            )
        if type(images) is not type(captions):
            raise InputError(f"{folder}: one file holds vectors, the other fragments; embed both again")
        if isinstance(images, Side) and isinstance(captions, Side):
            widths = images.vectors.shape[1], captions.vectors.shape[1]
            if widths[0] != widths[1]:
                raise InputError(f"{folder}: image vectors have {widths[0]} values and caption vectors {widths[1]}")
        return cls(folder, images, captions)

    @property
    def peer_sha256(self) -> str | None:
        """Digest of the second network of the run, None without one."""
        return self.images.about.get("peer_sha256")

    @property
    def compared_by(self) -> str:
        return self.images.about.get("similarity", "")

    def transfer(self, split: str) -> dict[str, object]:
        """``run``, ``trained_on`` and ``dataset`` of a run on a data set that it was not trained on; ``unknown_words``
        is the share of the split's words outside the run's vocabulary, where it has one. Else empty."""
        about = json.loads(self.images.about.get(embeddings.TRANSFER, "{}"))
        share = about.pop("unknown_words", {}).get(split)
        return about if share is None else {**about, "unknown_words": share}

    def origin(self, *splits: str) -> joins.Origin:
        return embeddings.origin(self.folder, self.images.about, splits, self.mend)

    def _compare(self, splits: Iterable[str]) -> None:
        """Raises IntegrityError where the vectors were made from other images or captions than the data set now has."""
        if self.prepared is not None:
            joins.require(self.prepared, self.origin(*splits))

    def left_out(self, split: str) -> dict[str, int]:
        """See ``embeddings.left_out``."""
        return embeddings.left_out(self.images.about, split, self.folder / embeddings.IMAGES)

    def data(self, split: str) -> str | None:
        """Digest of the split's content; None where the file has none."""
        digest = embeddings.footer_value(self.images.about, embeddings.DATA, split, self.folder / embeddings.IMAGES)
        return None if digest is None else str(digest)

    def split(self, name: str, device: torch.device) -> Split:
        """Raises InputError when the split is empty, or when an image or caption has no counterpart (unless there are
        no captions at all); IntegrityError as ``has``."""
        if not self.has(name):
            raise InputError(f"{self.folder / embeddings.IMAGES}: no image of split '{name}'{self._advice(name)}")
        images, captions = self.images.split(name), self.captions.split(name)
        for file, side, opposite in [(embeddings.IMAGES, images, captions), (embeddings.CAPTIONS, captions, images)]:
            lonely = side.image_ids[~np.isin(side.image_ids, opposite.image_ids)]
            if len(lonely) and len(self.captions.ids):
                raise InputError(
                    f"{self.folder / file}: {len(lonely)} rows of split '{name}' have no counterpart in the other "
                    f"file, the first is image_id {lonely[0]}; prepare and embed the data set again"
                )
        sides = self._regions(images, device), _words(captions, device)
        return Split(images.ids, captions.ids, captions.image_ids, *sides)

    def has(self, name: str) -> bool:
        """Whether the split has an image. Raises IntegrityError where the data set now has another such split."""
        self._compare([name])
        return bool((self.images.splits == name).any())

    def all_splits(self, device: torch.device) -> Split:
        """All splits as one, without proposed boxes. Raises InputError for fragments, which are read by split."""
        if isinstance(self.images, FragmentSide) or isinstance(self.captions, FragmentSide):
            raise InputError(f"{self.folder}: a bank of another folder must be one of vectors, not of fragments")
        self._compare(sorted(set(self.images.splits)))
        rows = self.images.splits != PROPOSAL
        images, captions = (
            torch.tensor(vectors, device=device) for vectors in (self.images.vectors[rows], self.captions.vectors)
        )
        return Split(self.images.ids[rows], self.captions.ids, self.captions.image_ids, images, captions)

    def must_match(self, embedded: "Embedded") -> None:
        """Raises InputError unless both come from the same model and have the same similarity."""
        for key in ("model_sha256", "similarity", "similarity_params", "normalised"):
            ours, theirs = self.images.about.get(key), embedded.images.about.get(key)
            if ours != theirs:
                raise InputError(
                    f"{embedded.folder}: {key} is {theirs!r}, that of {self.folder} is {ours!r}; embed with the same model"
                )

    def similarity(self, device: torch.device | None = None) -> Similarity:
        """The function of (images, captions) named in the footer, larger is closer; its weights on ``device``.

        Raises as ``member``, IntegrityError when its weights are damaged."""
        member = self.member()
        module, traits = SIMILARITIES.load(member.name), SIMILARITIES.traits(member.name)
        if not traits.fragments:
            return partial(module.score, params=member.params)
        if not traits.learns:
            return OfFragments(partial(module.score, params=member.params), partial(module.pairs, params=member.params))
        return self._learned(member, device or torch.device("cpu"))

    def member(self) -> Member:
        """The similarity named in the footer. Raises InputError for an unknown one, for options that do not fit it, and
        for one that does not compare what the files hold."""
        where, about = self.folder / embeddings.IMAGES, self.images.about
        name = about.get("similarity", "")
        if name not in SIMILARITIES.names():
            names = ", ".join(SIMILARITIES.names())
            raise InputError(f"{where}: footer names the similarity '{name}'; known: {names}; embed the run again")
        if SIMILARITIES.traits(name).fragments != isinstance(self.images, FragmentSide):
            kind = "fragments" if isinstance(self.images, FragmentSide) else "vectors"
            raise InputError(
                f"{where}: footer names the similarity '{name}', which does not compare {kind}; embed the run again"
            )
        try:
            values = json.loads(about.get("similarity_params", "{}"))
            return Member(name, SIMILARITIES.options(name).model_validate(values))
        except (json.JSONDecodeError, ValidationError) as error:
            reason = str(error).splitlines()[0]
            raise InputError(f"{where}: similarity_params in the footer do not fit '{name}' ({reason})") from error

    def _learned(self, member: Member, device: torch.device) -> Callable:
        about, path = self.images.about, self.folder / embeddings.WEIGHTS
        require(path, f"vse-pipe embed --run {about.get('run')}")
        if sha256(path) != about.get("weights_sha256"):
            raise IntegrityError(f"{path}: content does not match the digest in images.parquet; embed the run again")
        from safetensors.torch import load_file

        try:
            model = build_similarity(member, int(about["dim"]), int(about["regions"]), torch.Generator())
            assert model.network is not None
            model.network.load_state_dict(load_file(path))
        except (SafetensorError, KeyError, ValueError, RuntimeError) as error:
            reason = " ".join(str(error).split())
            raise IntegrityError(f"{path}: does not fit '{member.name}' ({reason}); embed the run again") from error
        model = model.eval().to(device)

        def score(images: Tensor, texts: Words) -> Tensor:
            with torch.inference_mode():
                return model(images, texts)

        pairs = partial(SIMILARITIES.load(member.name).pairs, params=member.params, network=model.network)
        return OfFragments(score, pairs)

    def _regions(self, part: Side | FragmentRows, device: torch.device) -> Sides:
        if isinstance(part, Side):
            return torch.from_numpy(part.vectors).to(device)
        regions = self.images.about.get("regions", "")
        wrong = np.flatnonzero(part.lengths.astype(str) != regions)
        if len(wrong):
            raise InputError(
                f"{self.folder / embeddings.IMAGES}: image_id {part.ids[wrong[0]]} has {part.lengths[wrong[0]]} regions, the footer says {regions!r}; embed the run again"
            )
        return torch.from_numpy(part.vectors).to(device).unflatten(0, (-1, int(regions)))

    def _advice(self, split: str) -> str:
        splits = f", it holds {', '.join(sorted(set(self.images.splits)))}"
        if isinstance(self.images, FragmentSide):
            return f"{splits}; name '{split}' in embed.splits and embed the run again"
        return f"{splits}; the data set has none, or embed.splits leaves it out"


def _side(path: Path, command: str) -> Side | FragmentSide:
    return embeddings.read_fragments(path) if embeddings.is_fragments(path, command) else embeddings.read(path, command)


def _words(part: Side | FragmentRows, device: torch.device) -> Sides:
    vectors = torch.from_numpy(part.vectors).to(device)
    return vectors if isinstance(part, Side) else Words(vectors, torch.from_numpy(part.lengths))
