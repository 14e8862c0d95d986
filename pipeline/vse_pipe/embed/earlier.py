"""Vectors of an earlier call that are still valid, and text features of a run for further sentences."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from string import punctuation
from types import ModuleType
from typing import Any, cast

import numpy as np
import pyarrow as pa
from torch import Tensor

from vse_pipe.artifacts import embeddings, features, joins, texts
from vse_pipe.artifacts.model_files import ModelFiles
from vse_pipe.core.console import warn
from vse_pipe.core.errors import InputError, IntegrityError, MissingResource
from vse_pipe.core.files import read_json, sha256
from vse_pipe.core.text import Tokens
from vse_pipe.extract import text_stage
from vse_pipe.extract.text_methods import State
from vse_pipe.extract.texts.options import EncoderParams, TextParams
from vse_pipe.project import code, paths
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import TEXT_FEATURES, TextFeatureTraits
from vse_pipe.project.stages import declarations

# Keys of meta.json that may differ between two data sets. Code, libraries and devices change a last bit only.
_FREE = {*features.WRITTEN, "dataset", "images_sha256", "code_sha256", "libraries", "device", "files"}
# Options that may differ: the place of features that were computed elsewhere, and a size that changes a last bit only.
_FREE_OPTIONS = {"tsv", "batch_size"}
# Keys of config.json that decide nothing beside the weights.
_TRAINED_ON = ("features_sha256", "texts_sha256", "pairs_sha256")
_MARKS = set(punctuation)


def changed(ours: dict, theirs: dict) -> list[str]:
    """The keys whose values show that features were made differently. ours, theirs: content of meta.json."""
    left, right = map(_settings, (ours, theirs))
    return sorted(key for key in {*left, *right} if left.get(key) != right.get(key))


def identity(value: object) -> object:
    """``value``; for weights their digest and seed, without the place they came from."""
    if isinstance(value, dict) and ("sha256" in value or "seed" in value):
        return value.get("sha256"), value.get("seed")
    return value


def _settings(meta: dict) -> dict:
    options = {key: value for key, value in meta.get("params", {}).items() if key not in _FREE_OPTIONS}
    settings = {key: identity(value) for key, value in meta.items() if key not in _FREE}
    return settings | {"params": options, "the shape of a row": list(meta.get("shape", ()))[1:]}


@dataclass(frozen=True)
class EarlierVectors:
    """Vectors in ``folder``. digest: result of ``vectors_digest``. model: the digest that the vectors' file must name,
    because the two files of the folder may come from two calls."""

    folder: Path
    digest: str
    model: str

    def cached(self, contents: pa.Array) -> "CachedVectors":
        """The vectors of ``contents`` that exist. Damaged files count as missing."""
        nothing = CachedVectors(np.full(len(contents), -1), None)
        if not (self.folder / joins.NAME).is_file():
            return nothing
        try:
            stored_contents, digest = joins.read(self.folder)
            if digest != self.digest:
                return nothing
            stored = embeddings.StoredVectors.open(self.folder / embeddings.IMAGES)
        except (InputError, IntegrityError) as error:
            warn(f"{error}; doing so now")
            return nothing
        if len(stored_contents) != stored.count or stored.model != self.model:
            return nothing
        places = joins.places(contents, [stored_contents])
        return CachedVectors(places.fill_null(-1).to_numpy().astype(np.int64), stored)


@dataclass
class CachedVectors:
    """rows: int64 (n,), the row of each content in ``stored``, -1 for a missing one."""

    rows: np.ndarray
    stored: embeddings.StoredVectors | None

    @property
    def count(self) -> int:
        return int((self.rows >= 0).sum())

    def completed(self, part: slice, encode: Callable[[np.ndarray], Tensor]) -> np.ndarray:
        """(rows, D) float32, the vectors of the contents in ``part``. encode: returns the vectors at these places, for
        missing ones.

        When the file turns out to be damaged, all further contents count as missing."""
        present = np.flatnonzero(self.rows[part] >= 0)
        if self.stored is None or not len(present):
            return encode(np.arange(part.start, part.stop)).numpy()
        try:
            stored = self.stored.take(self.rows[part][present])
        except (InputError, IntegrityError) as error:
            warn(f"{error}; doing so now")
            self.stored = None
            return self.completed(part, encode)
        missing = np.flatnonzero(self.rows[part] < 0)
        if not len(missing):
            return stored
        vectors = np.empty((part.stop - part.start, stored.shape[1]), np.float32)
        vectors[present], vectors[missing] = stored, encode(missing + part.start).numpy()
        return vectors


def vectors_digest(params: Params, run: str, model: ModelFiles, source: features.Features, device: str) -> str:
    """A digest of everything that decides a vector beside its picture. run: a run or transfer; source: the features
    that the vectors are computed from; device: its kind."""
    declared = declarations()["embed"]
    about = {
        "model": [model.digest, {key: value for key, value in model.config.items() if key not in _TRAINED_ON}],
        "features": features.row_digest(features.about(source.meta)),
        "code": code.digest(code.needed(declared, declared.members(params, params.trained(run)))),
        "libraries": {name: version(name) for name in ("numpy", "torch")},
        "device": device,
        **({"dim": params.embed.dim} if params.embed.dim else {}),
    }
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()


def contents_of(source: features.Features, image_ids: np.ndarray) -> pa.Array:
    """The contents of these images, null where they are unknown, as in a damaged file. Raises InputError for images
    without features."""
    unknown = pa.nulls(len(image_ids), pa.string())
    if source.folder is None or not (source.folder / joins.NAME).is_file():
        return unknown
    try:
        contents, _ = joins.read(source.folder)
        if len(contents) != len(source.array):
            raise InputError(f"{source.folder / joins.NAME}: {len(contents)} rows, of {len(source.array)} features")
    except (InputError, IntegrityError) as error:
        warn(f"{error}; all vectors are computed")
        return unknown
    return contents.take(pa.array(source.rows_of(image_ids))).combine_chunks()


@dataclass(frozen=True)
class Fitted:
    """The text features of a run. name: under texts; state: what the method has learnt; meta: of the folder in
    data/extract/."""

    name: str
    method: ModuleType
    traits: TextFeatureTraits
    options: Any
    state: State
    meta: dict

    def unknown(self, counts: Counter[str]) -> Counter[str]:
        """The words that the vocabulary lacks, without punctuation. counts: by word."""
        vocabulary = set(self.state.words)
        return Counter({word: n for word, n in counts.items() if word not in vocabulary and not _is_mark(word)})

    def unknown_share(self, sentences: Iterable[str]) -> float | None:
        """The share of unknown words among all words of the sentences, without punctuation. None for a method without
        words, and for sentences without a word."""
        if not self.traits.terms:
            return None
        counts = Counter(chain.from_iterable(self.method.terms(sentence, self.options) for sentence in sentences))
        total = sum(n for word, n in counts.items() if not _is_mark(word))
        return self.unknown(counts).total() / total if total else None

    def treated(self, folder: Path, ids: np.ndarray, sentences: Iterable[str]) -> texts.Texts:
        """Further sentences, treated as the run's own captions were. They are written to ``folder``, because vectors
        may be larger than memory. ids: int64, one for each sentence."""
        about = {"method": self.meta["method"]}
        text_stage.write(folder, ids, sentences, self.method, self.options, self.state, about)
        return texts.read(folder, verify=False)

    def transformed(self, sentences: list[str]) -> texts.Texts:
        """As ``treated``, in memory."""
        places = np.arange(len(sentences))
        output = self.method.transform(sentences, self.state, self.options)
        if self.traits.gives == "tokens":
            return texts.Texts("tokens", places, self.meta, output[0], self.state.words, None, None)
        if self.traits.gives == "fragments":
            rows, lengths = output[0].astype(self.options.store), output[1]
            fragments = Tokens(rows, lengths.cumsum() - lengths, lengths)
            return texts.Texts("fragments", places, self.meta, fragments, [], rows, None)
        array = output.astype(self.options.store)
        return texts.Texts("vectors", places, self.meta, None, self.state.words, array, places)


def _is_mark(word: str) -> bool:
    return set(word) <= _MARKS


def fitted(run: str, files: ModelFiles) -> Fitted:
    """The text features that the run was trained on. Raises MissingResource for missing files, IntegrityError for other
    ones."""
    name = files.config["texts"]
    folder = paths.extracted(files.config["dataset"], name)
    if not (folder / texts.META).is_file():
        raise MissingResource(
            f"{folder / texts.META} does not exist: run '{run}' reads a sentence as its text features were made; make them with `vse-pipe extract --texts {name}`"
        )
    meta = read_json(folder / texts.META)
    if texts.digest(meta) != files.config.get("texts_sha256"):
        raise IntegrityError(
            f"run {run} was trained on other texts than data/extract now holds; run `vse-pipe train --run {run}` again"
        )
    return described(folder, meta, meta["options"], files.words)


def described(folder: Path, meta: dict, options: dict, words: list[str]) -> Fitted:
    """The text features in ``folder``. meta: its meta.json; options: those in it, with the paths to use; words: of the
    model. Raises MissingResource for missing files, IntegrityError for other ones."""
    method, traits = TEXT_FEATURES.load(meta["method"]), TEXT_FEATURES.traits(meta["method"])
    params = cast(TextParams, TEXT_FEATURES.options(meta["method"]).model_validate(options))
    require_encoder(params, meta, str(folder))
    kinds = {"tokens": lambda: State(words=words), "fragments": State}
    return Fitted(folder.name, method, traits, params, kinds.get(meta["kind"], lambda: learnt(folder, meta))(), meta)


def require_encoder(options: TextParams, meta: dict, where: str) -> None:
    """Raises IntegrityError if a pre-trained sentence encoder has other files than those that ``meta`` was written
    with. Word vectors are no such files: they are part of what was learnt."""
    methods = (options, *(part.params for part in options.further()))
    encoders = [method for method in methods if isinstance(method, EncoderParams)]
    recorded = meta.get("files_sha256")
    if not encoders or recorded is None:
        return
    present = {sha256(path) if path.is_file() else "" for encoder in encoders for path in encoder.files()}
    if len(options.files()) != len(recorded) or not present <= set(recorded):
        names = ", ".join(encoder.model for encoder in encoders)
        raise IntegrityError(
            f"{where}: made with other files of sentence encoder {names} than there are now; put those back"
        )


def learnt(folder: Path, meta: dict) -> State:
    """Vocabulary and learnt arrays of text features of kind vectors, checked against their digests."""
    from safetensors.numpy import load_file

    for name in (texts.VOCABULARY, texts.STATE):
        path = folder / name
        if not path.is_file():
            raise MissingResource(f"{path} does not exist; make it with `vse-pipe extract --texts {folder.name}`")
        if sha256(path) != meta["sha256"].get(name):
            raise IntegrityError(f"{path}: content does not match the digest in {texts.META}; extract it again")
    return State(read_json(folder / texts.VOCABULARY, list), load_file(folder / texts.STATE))
