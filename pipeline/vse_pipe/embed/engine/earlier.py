"""Vectors of images that need not be computed: those of the same pictures, by the same model from features made alike."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow as pa
from torch import Tensor

from vse_pipe.artifacts import embeddings, features, joins, model_files
from vse_pipe.artifacts.embeddings import StoredVectors
from vse_pipe.artifacts.features import Features
from vse_pipe.core.console import warn
from vse_pipe.core.errors import InputError, IntegrityError
from vse_pipe.project import code
from vse_pipe.project.params.typed import Params
from vse_pipe.project.stages import declarations

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
            stored = StoredVectors.of(self.folder / embeddings.IMAGES)
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
        "features": features.made(features.about(source.meta)),
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
