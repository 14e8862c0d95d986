"""The table of words of a text encoder that starts from a file of word vectors."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from vse_pipe.artifacts.texts import Texts
from vse_pipe.core import weights
from vse_pipe.core.console import say
from vse_pipe.core.errors import MissingResource, UsageError
from vse_pipe.core.text import SPECIAL
from vse_pipe.core.word_vectors import read
from vse_pipe.project.params.typed import Member
from vse_pipe.project.registry import TEXT_ENCODERS


@dataclass(frozen=True)
class Start:
    """vectors: what the ``rows`` of the table start from; frozen: the whole table is not trained."""

    rows: Int[Tensor, " known"]
    vectors: Float[Tensor, "known dim"]
    frozen: bool

    def fill(self, table: nn.Embedding) -> None:
        """Rows of words without a vector stay as they were drawn."""
        with torch.no_grad():
            table.weight[self.rows] = self.vectors
        table.weight.requires_grad_(not self.frozen)


def files(text: Member) -> list[Path]:
    """Those that the encoder's table starts from, the vectors first; none where it is drawn."""
    if not TEXT_ENCODERS.traits(text.name).vectors:
        return []
    return [Path(name).expanduser() for name in (text.params.vectors, text.params.words) if name]


def start(text: Member, texts: Texts, run: str) -> Start | None:
    """The vectors of the words of the vocabulary, and a line about how many have one; None where the table is drawn.

    Raises MissingResource for a file that is not there, UsageError for one of another ``word_dim``, IntegrityError for
    another digest than ``sha256``, and as ``core.word_vectors.read.read``.
    """
    given, params = files(text), text.params
    for path in given:
        if not path.is_file():
            raise MissingResource(f"{path.absolute()}: no such file; text.{text.name}.vectors of run {run} needs it")
    if not given:
        return None
    if params.sha256:
        weights.check(given[0], params.sha256)
    assert texts.tokens is not None  # of an encoder that has a table
    places = {word: place for place, word in enumerate(texts.words) if word not in SPECIAL}
    known, found = read(given[0], places.keys(), *given[1:])
    if found.shape[1] != params.word_dim:
        raise UsageError(
            f"text.{text.name}.word_dim is {params.word_dim}, but {given[0]} has vectors of {found.shape[1]} dimensions; "
            f"set word_dim: {found.shape[1]} for run {run}"
        )
    rows = np.array([places[word] for word in known])
    said = texts.tokens.tokens[~np.isin(texts.tokens.tokens, [0, 1, 2])]  # <unk> is a word that was said
    share = np.isin(said, rows).mean() if len(said) else 0.0
    say(
        f"train {run}: {len(rows)} of {len(places)} words start from {given[0]}, {share:.1%} of the words of all captions"
    )
    return Start(torch.from_numpy(rows), torch.from_numpy(found), params.freeze_vectors)
