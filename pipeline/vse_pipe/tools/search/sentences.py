"""A sentence as the input of a run's text encoder, treated as the run's own captions were."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from vse_pipe.artifacts.model_files import ModelFiles
from vse_pipe.core.errors import InputError
from vse_pipe.embed.engine.fitted import Fitted, fitted

_LONGEST = 100_000
# Unknown words in a message, and the characters of one.
_SHOWN, _WIDEST = 10, 40


@dataclass(frozen=True)
class Read:
    """inputs: what the text encoder takes, of one caption; unknown: words it has no place for; notes: what was left out."""

    inputs: tuple[np.ndarray, ...]
    unknown: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Reader:
    """The text features of a run, fitted."""

    by: Fitted

    @classmethod
    def open(cls, run: str, files: ModelFiles) -> "Reader":
        """Raises as ``fitted``."""
        return cls(fitted(run, files))

    def read(self, sentence: str) -> Read:
        """Raises InputError for a sentence without a word, too long to be one, or with no word that the run knows."""
        if not sentence.strip():
            raise InputError("the sentence is empty; write what to look for")
        if len(sentence) > _LONGEST:
            raise InputError(f"a sentence of {len(sentence)} characters; the longest that is read has {_LONGEST}")
        unknown = self._unknown(sentence)
        found = self.by.method.transform([sentence], self.by.state, self.by.options)
        if self.by.traits.gives == "vectors":
            return Read((np.asarray(found, np.float32),), unknown, ())
        if self.by.traits.gives == "fragments":
            rows, lengths = found
            return Read((rows[None], lengths), unknown, ())
        tokens, cut = found
        ids, lengths = tokens.padded(np.zeros(1, np.int64))
        notes = (f"only the first {self.by.options.max_words} words are read",) if cut else ()
        return Read((ids, lengths), unknown, notes)

    def _unknown(self, sentence: str) -> tuple[str, ...]:
        """Words that the vocabulary does not hold, each once, marks left out. Raises InputError where it holds none."""
        if not self.by.traits.terms:
            return ()
        words = Counter(self.by.method.terms(sentence, self.by.options))
        unknown = tuple(self.by.unknown(words))
        if not words.keys() & set(self.by.state.words):
            named = f": {', '.join(map(shortened, unknown[:_SHOWN]))}" if unknown else ""
            raise InputError(f"no word of the sentence is in the vocabulary of texts '{self.by.name}'{named}")
        return unknown


def shortened(word: str) -> str:
    return word if len(word) <= _WIDEST else f"{word[:_WIDEST]}..."
