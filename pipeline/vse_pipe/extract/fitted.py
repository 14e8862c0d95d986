"""The text features of a run for further sentences."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from string import punctuation
from types import ModuleType
from typing import Any, cast

import numpy as np

from vse_pipe.artifacts import texts
from vse_pipe.core.errors import IntegrityError
from vse_pipe.core.files import read_json, require_digests, sha256
from vse_pipe.core.text import Tokens
from vse_pipe.extract import text_stage
from vse_pipe.extract.text_methods import State
from vse_pipe.extract.texts.options import EncoderParams, TextParams
from vse_pipe.project.registry import TEXT_FEATURES, TextFeatureTraits

_MARKS = set(punctuation)


@dataclass(frozen=True)
class Fitted:
    """The text features of a run. name: under texts; state: what the method has learnt; meta: of
    the folder in data/extract/."""

    name: str
    method: ModuleType
    traits: TextFeatureTraits
    options: Any
    state: State
    meta: dict

    @classmethod
    def of_folder(cls, folder: Path, meta: dict, options: dict, words: list[str]) -> "Fitted":
        """meta: meta.json of ``folder``; options: those in it, with the paths to use; words: of the
        model. Raises InputError for missing files, IntegrityError for other ones."""
        from safetensors.numpy import load_file

        params = cast(TextParams, TEXT_FEATURES.options(meta["method"]).model_validate(options))
        require_encoder(params, meta, str(folder))
        state = State(words=words if meta["kind"] == "tokens" else [])
        if meta["kind"] == "vectors":
            require_digests(folder, texts.META, meta["sha256"], (texts.VOCABULARY, texts.STATE))
            state = State(read_json(folder / texts.VOCABULARY, list), load_file(folder / texts.STATE))
        method, traits = TEXT_FEATURES.load(meta["method"]), TEXT_FEATURES.traits(meta["method"])
        return cls(folder.name, method, traits, params, state, meta)

    def unknown_share(self, sentences: Iterable[str]) -> float | None:
        """The share of unknown words among all words of the sentences. None for a method without
        words, and for sentences without a word."""
        vocabulary = set(self.state.words)
        unknown = np.fromiter((word not in vocabulary for text in sentences for word in self.words(text)), bool)
        return float(unknown.mean()) if len(unknown) else None

    def words(self, sentence: str) -> list[str]:
        """The words that the method reads one by one, without punctuation."""
        terms = self.method.terms(sentence, self.options) if self.traits.terms else []
        return [word for word in terms if not set(word) <= _MARKS]

    def treated(self, folder: Path, ids: np.ndarray, sentences: Iterable[str]) -> texts.Texts:
        """Further sentences, treated as the run's own captions were. They are written to
        ``folder``, because vectors may be larger than memory. ids: int64, one for each sentence."""
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


def require_encoder(options: TextParams, meta: dict, where: str) -> None:
    """Raises IntegrityError if a pre-trained sentence encoder has other files than those that
    ``meta`` was written with. Word vectors are no such files: they are part of what was learnt."""
    methods = (options, *(part.params for part in options.further()))
    encoders = [method for method in methods if isinstance(method, EncoderParams)]
    present = {sha256(path) if path.is_file() else "" for encoder in encoders for path in encoder.files()}
    if encoders and (len(options.files()) != len(meta["files_sha256"]) or not present <= set(meta["files_sha256"])):
        names = ", ".join(encoder.model for encoder in encoders)
        raise IntegrityError(f"{where}: made with other files of sentence encoder {names}; put those back")
