"""Whether features of two data sets were made alike: by the same weights, transform, options and precision."""

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

from vse_pipe.artifacts import embeddings, features, joins, model_files, texts
from vse_pipe.artifacts.embeddings import StoredVectors
from vse_pipe.artifacts.features import WRITTEN, Features
from vse_pipe.artifacts.model_files import ModelFiles
from vse_pipe.core.console import warn
from vse_pipe.core.errors import InputError, IntegrityError, MissingResource
from vse_pipe.core.files import read_json, sha256
from vse_pipe.extract import text_stage
from vse_pipe.extract.params import TextParams
from vse_pipe.extract.text_methods import State
from vse_pipe.extract.texts.options import EncoderParams
from vse_pipe.project import code, paths
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import TEXT_FEATURES, TextFeatureTraits
from vse_pipe.project.stages import declarations

# What features of another data set have of their own. Code, libraries and devices change a last bit.
_OWN = {*WRITTEN, "dataset", "images_sha256", "code_sha256", "libraries", "device", "files"}
# Options: where the features of a data set lie that somebody else computed, and what changes a last bit as well.
_OWN_OPTIONS = {"tsv", "batch_size"}


def changed(ours: dict, theirs: dict) -> list[str]:
    """The keys of two meta.json whose values say that they were not made alike."""
    one, other = map(_about, (ours, theirs))
    return sorted(key for key in {*one, *other} if one.get(key) != other.get(key))


def identity(value: object) -> object:
    """Of weights the content, not where it came from."""
    if isinstance(value, dict) and ("sha256" in value or "seed" in value):
        return value.get("sha256"), value.get("seed")
    return value


def _about(meta: dict) -> dict:
    found = {key: identity(value) for key, value in meta.items() if key not in _OWN}
    options = {key: value for key, value in meta.get("params", {}).items() if key not in _OWN_OPTIONS}
    return found | {"params": options, "the shape of a row": list(meta.get("shape", ()))[1:]}


_TRAINED_ON = ("features_sha256", "texts_sha256", "pairs_sha256")


@dataclass(frozen=True)
class EarlierVectors:
    """folder: where an earlier call's vectors lie; made: one digest of all that decides a vector beside its picture; model: the
    digest that the vectors' own file must name, for the two files may come from two calls."""

    folder: Path
    made: str
    model: str

    def known(self, wanted: pa.Array) -> "Known":
        """Of ``wanted`` contents. What is damaged counts for nothing."""
        nothing = Known(np.full(len(wanted), -1), None)
        if not (self.folder / joins.NAME).is_file():
            return nothing
        try:
            known, made = joins.read(self.folder)
            if made != self.made:
                return nothing
            stored = StoredVectors.open(self.folder / embeddings.IMAGES)
        except (InputError, IntegrityError) as error:
            warn(f"{error}; doing so now")
            return nothing
        if len(known) != stored.count or stored.model != self.model:
            return nothing
        return Known(joins.places(wanted, [known]).fill_null(-1).to_numpy().astype(np.int64), stored)


@dataclass
class Known:
    """rows: int64 (n,), of each content that is wanted the row of ``stored``, -1 where it is not there."""

    rows: np.ndarray
    stored: StoredVectors | None

    @property
    def count(self) -> int:
        return int((self.rows >= 0).sum())

    def completed(self, part: slice, encode: Callable[[np.ndarray], Tensor]) -> np.ndarray:
        """(rows, D) float32, of the contents in ``part``. encode: of the places of those that are not there, their vectors. Of a
        file that turns out to be damaged nothing more is there."""
        there = np.flatnonzero(self.rows[part] >= 0)
        if self.stored is None or not len(there):
            return encode(np.arange(part.start, part.stop)).numpy()
        try:
            taken = self.stored.take(self.rows[part][there])
        except (InputError, IntegrityError) as error:
            warn(f"{error}; doing so now")
            self.stored = None
            return self.completed(part, encode)
        missing = np.flatnonzero(self.rows[part] < 0)
        if not len(missing):
            return taken
        found = np.empty((part.stop - part.start, taken.shape[1]), np.float32)
        found[there], found[missing] = taken, encode(missing + part.start).numpy()
        return found


def made(params: Params, run: str, model: model_files.ModelFiles, source: Features, device: str) -> str:
    """As ``EarlierVectors`` has it. run: or a transfer; source: what the vectors are computed from; device: its kind."""
    declared = declarations()["embed"]
    # What the weights were trained on decides nothing beside them: of a pair it is the collection itself.
    config = {key: value for key, value in model.config.items() if key not in _TRAINED_ON}
    about = {
        "model": [model.digest, config],
        "features": features.row_digest(features.about(source.meta)),
        "code": code.digest(code.needed(declared, declared.members(params, params.trained(run)))),
        "libraries": {name: version(name) for name in ("numpy", "torch")},
        "device": device,
    }
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()


def contents_of(source: Features, image_ids: np.ndarray) -> pa.Array:
    """What these images show, null where nobody knows; a damaged file knows nothing. Raises InputError for images without
    features."""
    unknown = pa.nulls(len(image_ids), pa.string())
    if source.folder is None or not (source.folder / joins.NAME).is_file():
        return unknown
    try:
        known, _ = joins.read(source.folder)
        if len(known) != len(source.array):
            raise InputError(f"{source.folder / joins.NAME}: {len(known)} rows, of {len(source.array)} features")
    except (InputError, IntegrityError) as error:
        warn(f"{error}; all vectors are computed")
        return unknown
    return known.take(pa.array(source.rows_of(image_ids))).combine_chunks()


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
