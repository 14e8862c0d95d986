"""A sentence as the input of a run's text encoder, treated as the run's own captions were."""

import string
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pipeline.artifacts import texts
from pipeline.artifacts.model_files import ModelFiles
from pipeline.core.errors import InputError, IntegrityError, MissingResource
from pipeline.core.files import read_json, sha256
from pipeline.extract.text_engine.method import State
from pipeline.project import paths
from pipeline.project.registry import TEXT_FEATURES
from pipeline.project.traits import TextFeatureTraits

_LONGEST = 100_000
# Unknown words in a message, and the characters of one.
_SHOWN, _WIDEST = 10, 40
_MARKS = set(string.punctuation)


@dataclass(frozen=True)
class Read:
    """inputs: what the text encoder takes, of one caption; unknown: words it has no place for; notes: what was left out."""

    inputs: tuple[Tensor, ...]
    unknown: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Reader:
    """The text features of a run, fitted: method, its options and what it learnt."""

    name: str
    method: ModuleType
    traits: TextFeatureTraits
    options: Any
    state: State

    @classmethod
    def open(cls, run: str, files: ModelFiles) -> "Reader":
        """Raises MissingResource where the text features are not there, IntegrityError where they are not those that the
        run was trained on."""
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
        options = method.Params.model_validate(meta["options"])
        if meta["kind"] == "tokens":
            return cls(name, method, traits, options, State(words=files.words))
        if meta["kind"] == "fragments":
            return cls(name, method, traits, options, State())
        return cls(name, method, traits, options, learnt(folder, meta))

    def read(self, sentence: str) -> Read:
        """Raises InputError for a sentence without a word, too long to be one, or with no word that the run knows."""
        if not sentence.strip():
            raise InputError("the sentence is empty; write what to look for")
        if len(sentence) > _LONGEST:
            raise InputError(f"a sentence of {len(sentence)} characters; the longest that is read has {_LONGEST}")
        unknown = self._unknown(sentence)
        found = self.method.transform([sentence], self.state, self.options)
        if self.traits.gives == "vectors":
            return Read((torch.from_numpy(np.asarray(found, np.float32)),), unknown, ())
        if self.traits.gives == "fragments":
            rows, lengths = found
            return Read((torch.from_numpy(rows)[None], torch.from_numpy(lengths)), unknown, ())
        tokens, cut = found
        ids, lengths = tokens.padded(np.zeros(1, np.int64))
        notes = (f"only the first {self.options.max_words} words are read",) if cut else ()
        return Read((torch.from_numpy(ids), torch.from_numpy(lengths)), unknown, notes)

    def _unknown(self, sentence: str) -> tuple[str, ...]:
        """Words that the vocabulary does not hold, each once, marks left out. Raises InputError where it holds none."""
        if not self.traits.terms:
            return ()
        vocabulary = set(self.state.words)
        words = dict.fromkeys(self.method.terms(sentence, self.options))
        unknown = tuple(word for word in words if word not in vocabulary and not set(word) <= _MARKS)
        if not words.keys() & vocabulary:
            named = f": {', '.join(map(shortened, unknown[:_SHOWN]))}" if unknown else ""
            raise InputError(f"no word of the sentence is in the vocabulary of texts '{self.name}'{named}")
        return unknown


def shortened(word: str) -> str:
    return word if len(word) <= _WIDEST else f"{word[:_WIDEST]}..."


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
