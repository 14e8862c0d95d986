"""Ids that are text: file names, UUIDs. What one may look like, and when a text is a number."""

import re
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

LONGEST = 200
_SHOWN = 40
# As Python writes it, at most 18 digits: 007 is text.
NUMBER = r"^(0|-?[1-9][0-9]{0,17})$"
_UNSEEN = r"[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]"


def are_numbers(ids: pa.Array) -> bool:
    """Is each of these texts a number?"""
    return bool(pc.all(pc.match_substring_regex(ids, NUMBER)).as_py())


def is_number(text: str) -> bool:
    return re.fullmatch(NUMBER, text, re.ASCII) is not None


def objection(ids: pa.Array) -> tuple[int, str] | None:
    """(row, the id and what is wrong with it) of the first of ``objections``."""
    for row, what in objections(ids).items():
        return row, f"{shown(ids[row].as_py())} {what}"
    return None


def objections(ids: pa.Array) -> dict[int, str]:
    """What is wrong with those that cannot be one, by row: empty, with spaces around it, longer than ``LONGEST`` characters, with
    what cannot be seen in it, given twice, or like an earlier one but for capitals."""
    checks = [
        (pc.equal(pc.utf8_length(pc.utf8_trim_whitespace(ids)), 0), "is empty"),
        (pc.not_equal(pc.utf8_trim_whitespace(ids), ids), "begins or ends with a space"),
        (pc.greater(pc.utf8_length(ids), LONGEST), f"is longer than {LONGEST} characters"),
        (pc.match_substring_regex(ids, _UNSEEN), "holds a control character"),
    ]
    found: dict[int, str] = {}
    for wrong, what in checks:
        for row in np.flatnonzero(wrong.to_numpy(zero_copy_only=False)).tolist():
            found.setdefault(row, what)
    for row, what in _repeated(ids):
        found.setdefault(row, what)
    return found


def _repeated(ids: pa.Array) -> Iterator[tuple[int, str]]:
    codes = pc.utf8_lower(ids).dictionary_encode().indices.to_numpy()
    _, first, which = np.unique(codes, return_index=True, return_inverse=True)
    for row in np.flatnonzero(first[which] != np.arange(len(codes))).tolist():
        own, earlier = ids[row].as_py(), ids[int(first[which[row]])].as_py()
        yield row, "is given twice" if own == earlier else f"differs from {shown(earlier)} in capitals only"


def shown(text: str) -> str:
    """For a message: in quotes, on one line, and short."""
    return (
        ascii(text[:_SHOWN]) if not text.isprintable() else f"'{text[:_SHOWN]}'" + ("..." if len(text) > _SHOWN else "")
    )
