"""The text features that a run was trained on, as what treats further sentences alike."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from string import punctuation
from types import ModuleType
from typing import Any, cast

import numpy as np

from vse_pipe.artifacts import texts
from vse_pipe.artifacts.model_files import ModelFiles
from vse_pipe.core.errors import IntegrityError, MissingResource
from vse_pipe.core.files import read_json, sha256
from vse_pipe.extract import text_stage
from vse_pipe.extract.params import TextParams
from vse_pipe.extract.text_methods import State
from vse_pipe.extract.texts.options import EncoderParams
from vse_pipe.project import paths
from vse_pipe.project.registry import TEXT_FEATURES, TextFeatureTraits

_MARKS = set(punctuation)


@dataclass(frozen=True)
class Fitted:
    """name: under texts; method, its options and what it learnt; meta: of the folder in data/extract/."""

    name: str
    method: ModuleType
    traits: TextFeatureTraits
    options: Any
    state: State
    meta: dict

    def unknown(self, counted: Counter[str]) -> Counter[str]:
        """Of these words those that the vocabulary does not hold, marks left out."""
        vocabulary = set(self.state.words)
        return Counter({word: n for word, n in counted.items() if word not in vocabulary and not is_mark(word)})

    def unknown_share(self, sentences: Iterable[str]) -> float | None:
        """Of all words of the sentences, each occurrence counted and marks left out. None of a method without words of its
        own, and where there is no word."""
        if not self.traits.terms:
            return None
        counted = Counter(chain.from_iterable(self.method.terms(one, self.options) for one in sentences))
        words = sum(n for word, n in counted.items() if not is_mark(word))
        return self.unknown(counted).total() / words if words else None

    def treated(self, folder: Path, ids: np.ndarray, sentences: Iterable[str]) -> texts.Texts:
        """Further sentences as the run's own captions were treated, written to ``folder``: vectors may be larger than memory. ids: int64,
        one a sentence."""
        about = {"method": self.meta["method"]}
        text_stage.write(folder, ids, sentences, self.method, self.options, self.state, about)
        return texts.read(folder, verify=False)


def is_mark(word: str) -> bool:
    """Punctuation and nothing else."""
    return set(word) <= _MARKS


def fitted(run: str, files: ModelFiles) -> Fitted:
    """Raises MissingResource where the text features are not there, IntegrityError where they are not those that the run was
    trained on."""
    name = files.config["texts"]
    folder = paths.extracted(files.config["dataset"], name)
    if not (folder / texts.META).is_file():
        raise MissingResource(
            f"{folder / texts.META} does not exist: run '{run}' reads a sentence as its text features were made; make "
            f"them with `vse-pipe extract --texts {name}`"
        )
    meta = read_json(folder / texts.META)
    if texts.digest(meta) != files.config.get("texts_sha256"):
        raise IntegrityError(
            f"run {run} was trained on other texts than data/extract now holds; run `vse-pipe train --run {run}` again"
        )
    method, traits = TEXT_FEATURES.load(meta["method"]), TEXT_FEATURES.traits(meta["method"])
    options = cast(TextParams, TEXT_FEATURES.options(meta["method"]).model_validate(meta["options"]))
    require_encoder(options, meta, str(folder))
    kinds = {"tokens": lambda: State(words=files.words), "fragments": State}
    state = kinds.get(meta["kind"], lambda: learnt(folder, meta))()
    return Fitted(name, method, traits, options, state, meta)


def require_encoder(options: TextParams, meta: dict, where: str) -> None:
    """Raises IntegrityError where a sentence is read by a pre-trained encoder and the files of this are others than those that
    ``meta`` was written with; word vectors are part of what was learnt."""
    encoders = [
        one for one in (options, *(part.params for part in options.further())) if isinstance(one, EncoderParams)
    ]
    told = meta.get("files_sha256")
    if not encoders or told is None:
        return
    now = {sha256(path) if path.is_file() else "" for one in encoders for path in one.files()}
    if len(options.files()) != len(told) or not now <= set(told):
        names = ", ".join(one.model for one in encoders)
        raise IntegrityError(
            f"{where}: made with other files of sentence encoder {names} than there are now; put those back"
        )


def learnt(folder: Path, meta: dict) -> State:
    """Of kind vectors: vocabulary and what was learnt, both against their digests."""
    from safetensors.numpy import load_file

    for name in (texts.VOCABULARY, texts.STATE):
        path = folder / name
        if not path.is_file():
            raise MissingResource(f"{path} does not exist; make it with `vse-pipe extract --texts {folder.name}`")
        if sha256(path) != meta["sha256"].get(name):
            raise IntegrityError(f"{path}: content does not match the digest in {texts.META}; extract it again")
    return State(read_json(folder / texts.VOCABULARY, list), load_file(folder / texts.STATE))
