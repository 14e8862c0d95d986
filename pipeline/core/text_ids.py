"""Ids that are text: file names, UUIDs. What one may look like, and when a text is a number."""

import re

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
    """(row, the id and what is wrong with it) of the first that cannot be one: empty, with spaces around it, longer than
    ``LONGEST`` characters, with what cannot be seen in it, given twice, or like an earlier one but for capitals."""
    checks = [
        (pc.equal(pc.utf8_length(pc.utf8_trim_whitespace(ids)), 0), "is empty"),
        (pc.not_equal(pc.utf8_trim_whitespace(ids), ids), "begins or ends with a space"),
        (pc.greater(pc.utf8_length(ids), LONGEST), f"is longer than {LONGEST} characters"),
        (pc.match_substring_regex(ids, _UNSEEN), "holds a control character"),
    ]
    for wrong, what in checks:
        rows = np.flatnonzero(wrong.to_numpy(zero_copy_only=False))
        if len(rows):
            return int(rows[0]), f"{shown(ids[int(rows[0])].as_py())} {what}"
    return _repeated(ids)


def _repeated(ids: pa.Array) -> tuple[int, str] | None:
    codes = pc.utf8_lower(ids).dictionary_encode().indices.to_numpy()
    _, first, which = np.unique(codes, return_index=True, return_inverse=True)
    rows = np.flatnonzero(first[which] != np.arange(len(codes)))
    if not len(rows):
        return None
    row = int(rows[0])
    own, earlier = ids[row].as_py(), ids[int(first[which[row]])].as_py()
    differs = "is given twice" if own == earlier else f"differs from {shown(earlier)} in capitals only"
    return row, f"{shown(own)} {differs}"


def shown(text: str) -> str:
    """For a message: in quotes, on one line, and short."""
    return (
        ascii(text[:_SHOWN]) if not text.isprintable() else f"'{text[:_SHOWN]}'" + ("..." if len(text) > _SHOWN else "")
    )
