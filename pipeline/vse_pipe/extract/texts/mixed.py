"""Vectors of several methods side by side: tf-idf beside a sentence encoder, means of word vectors beside both."""

from itertools import accumulate, pairwise
from types import ModuleType
from typing import Annotated

import numpy as np
from jaxtyping import Float32
from pydantic import ConfigDict, Field

from vse_pipe.core.strict import Strict
from vse_pipe.extract.text_engine.method import Corpus, State
from vse_pipe.extract.text_engine.params import TextParams, VectorParams
from vse_pipe.project.params.typed import Member
from vse_pipe.project.registry import TEXT_FEATURES
from vse_pipe.project.sources import SourceFiles
from vse_pipe.project.traits import TextFeatureTraits

TRAITS = TextFeatureTraits(mixes=True)
# In the state: how many words of the vocabulary each part has.
_COUNTS = "words"


class MixedPart(Strict):
    """A method by name; further keys are its options."""

    model_config = ConfigDict(extra="allow")

    method: str
    """one that gives vectors"""
    weight: Annotated[float, Field(ge=1e-6, le=1e6)] = 1.0
    """length of its vectors in the mixture"""

    @property
    def options(self) -> TextParams:
        """As the method has them. Raises ValidationError where they do not fit."""
        return TEXT_FEATURES.options(self.method).Params.model_validate(self.model_extra)


class Params(VectorParams):
    parts: Annotated[list[MixedPart], Field(min_length=2)]
    """the methods, each a mapping of ``method``, ``weight`` (1 when left out: what its vectors of unit length are multiplied
    by) and the method's own options, of which ``store`` and ``block`` have no effect here"""

    def files(self) -> dict:
        found: dict = {}
        for part in self.parts:
            for path, digest in part.options.files().items():
                found[path] = digest or found.get(path, "")
        return found

    def reads(self) -> list[SourceFiles]:
        return list(dict.fromkeys(one for part in self.parts for one in part.options.reads()))

    def objection(self) -> str | None:
        """To one file under two digests."""
        told: dict = {}
        for own in (part.options for part in self.parts):
            for path, digest in own.files().items():
                if digest and told.setdefault(path, digest) != digest:
                    return f"{path} has two different sha256 among the parts; it is one file"
        return None

    def further(self) -> list[Member]:
        return [Member(part.method, part.options) for part in self.parts]


def fit(corpus: Corpus, params: Params, seed: int) -> State:
    """What each part learns, its arrays named after its place; the vocabulary is those of all parts, end to end."""
    states = [method.fit(corpus, part.options, seed) for method, part in _methods(params)]
    arrays = {f"{place}.{name}": array for place, one in enumerate(states) for name, array in one.arrays.items()}
    arrays[_COUNTS] = np.array([len(one.words) for one in states])
    words = [word for one in states for word in one.words]
    return State(words, arrays, {"parts": [one.about for one in states]})


def transform(texts: list[str], state: State, params: Params) -> Float32[np.ndarray, "captions dim"]:
    """The parts' vectors, each of unit length times its weight; where a part knows no word of a caption it is zero there."""
    ends = accumulate(state.arrays[_COUNTS].tolist(), initial=0)
    blocks = []
    for place, ((method, part), (start, end)) in enumerate(zip(_methods(params), pairwise(ends), strict=True)):
        own = {
            name.partition(".")[2]: array
            for name, array in state.arrays.items()
            if name.partition(".")[0] == str(place)
        }
        rows = method.transform(texts, State(state.words[start:end], own), part.options)
        lengths = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
        blocks.append((part.weight * rows / np.where(lengths > 0, lengths, 1.0)).astype(np.float32))
    return np.concatenate(blocks, axis=1)


def _methods(params: Params) -> list[tuple[ModuleType, MixedPart]]:
    return [(TEXT_FEATURES.load(part.method), part) for part in params.parts]
