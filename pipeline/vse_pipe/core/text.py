"""Ids that are text, such as file names and UUIDs, and captions as tokens."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float, Int

from vse_pipe.core.console import JOINERS

LONGEST = 200
_SHOWN = 40
_UNSEEN = r"[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]"


def are_numbers(ids: pa.Array) -> bool:
    """Whether every text is a whole number of int64 as Python writes it: 007, +7 and -0 are text.
    This rule holds for the ids of every file that the program reads."""
    try:
        return ids.cast(pa.int64()).cast(ids.type).equals(ids)
    except pa.ArrowInvalid:
        return False


def objection(ids: pa.Array) -> tuple[int, str] | None:
    """(row, id and problem) of the first of ``objections``."""
    row, problem = next(iter(objections(ids).items()), (0, ""))
    return (row, f"{shown_id(ids[row].as_py())} {problem}") if problem else None


def objections(ids: pa.Array) -> dict[int, str]:
    """{row: problem} of texts that cannot be ids: empty, with spaces around or invisible characters,
    longer than ``LONGEST``, repeated, or different from an earlier id in capitals only."""
    trimmed = pc.utf8_trim_whitespace(ids)
    lowered = pc.utf8_lower(ids).dictionary_encode().indices.to_numpy()
    checks = [
        (pc.equal(trimmed, ""), "is empty"),
        (pc.not_equal(trimmed, ids), "begins or ends with a space"),
        (pc.greater(pc.utf8_length(ids), LONGEST), f"is longer than {LONGEST} characters"),
        (pc.match_substring_regex(pc.replace_substring_regex(ids, JOINERS, ""), _UNSEEN), "holds a control character"),
    ]
    problems = {row: problem for wrong, problem in reversed(checks) for row in np.flatnonzero(wrong).tolist()}
    rows, firsts = repeats(lowered)
    for row, first in zip(rows.tolist(), ids.take(pa.array(firsts)).to_pylist(), strict=True):
        is_same = ids[row].as_py() == first
        repeated = "is given twice" if is_same else f"differs from {shown_id(first)} in capitals only"
        problems.setdefault(row, repeated)
    return problems


def repeats(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows whose value comes earlier too, and the first row of that value for each."""
    _, first, which = np.unique(values, return_index=True, return_inverse=True)
    rows = np.flatnonzero(first[which] != np.arange(len(values)))
    return rows, first[which[rows]]


def shown_id(text: str) -> str:
    """The text for a message: quoted, on one line, and short."""
    return repr(text[:_SHOWN]) + ("..." if len(text) > _SHOWN else "")


PAD, START, END, UNK = range(4)
SPECIAL = ["<pad>", "<start>", "<end>", "<unk>"]


@dataclass(frozen=True)
class Tokens:
    """Token ids of captions, or a vector for each token, in one array: caption i is
    ``tokens[starts[i] : starts[i] + lengths[i]]``."""

    tokens: Int[np.ndarray, " ids"] | Float[np.ndarray, "ids dim"]
    starts: Int[np.ndarray, " captions"]
    lengths: Int[np.ndarray, " captions"]

    def take(self, chosen: np.ndarray) -> "Tokens":
        """The captions at ``chosen``; the token ids are shared."""
        return Tokens(self.tokens, self.starts[chosen], self.lengths[chosen])

    def padded(self, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(n, longest) int64 token ids padded with PAD, or (n, longest, dim) float32 vectors padded
        with 0, and (n,) lengths of the captions at ``chosen``."""
        lengths = self.lengths[chosen]
        places = np.arange(lengths.max())
        inside = places < lengths[:, None]
        index = np.where(inside, self.starts[chosen][:, None] + places, 0)
        if self.tokens.ndim == 2:
            return np.where(inside[..., None], self.tokens[index], 0).astype(np.float32, copy=False), lengths
        return np.where(inside, self.tokens[index], PAD).astype(np.int64, copy=False), lengths
