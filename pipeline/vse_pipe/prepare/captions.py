"""The captions of a cell: a text, a list, or a list that another program wrote into a text."""

import re
import sys
import unicodedata

from vse_pipe.core import memory
from vse_pipe.core.errors import InputError
from vse_pipe.prepare.source import is_text

# In characters: the limit of the csv module for a cell, ten times the longest real caption.
LONGEST_CAPTION = 2**17
# Bytes of a caption beside its text: ids, the row of its image, and the place for messages.
_BESIDE_A_CAPTION = 100
# Categories of Unicode for separators, controls and formats.
_UNSEEN = ("Zs", "Zl", "Zp", "Cc", "Cf")

# Fields of structs that hold the text: of Karpathy's json, of COCO's, of others.
FIELDS = ("raw", "caption", "text")
# Possessive quantifiers: a cell of any length is read in one pass.
_ITEM = r"""'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+"|null|None|nan"""
_ITEMS = rf"\s*+(?:(?:{_ITEM})(?:\s*+,\s*+|\s++|(?=[\])])))++"
# JSON, Python's list and tuple, numpy's array, which has no commas.
_LIST = re.compile(rf"(?:array\()?\[(?P<list>{_ITEMS}|\s*)\](?:,\s*dtype=\S+)?\)?|\((?P<tuple>{_ITEMS})\)", re.DOTALL)
_STRING = re.compile(_ITEM, re.DOTALL)
_ESCAPED = re.compile(r"""\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U000[0-9a-fA-F]{5}|[ntr'"\\])""")


def written_list(cell: str) -> list[str | None] | None:
    """The texts of a list that JSON, Python or numpy wrote; None for any other text, such as one
    quoted word in parentheses."""
    match = _LIST.fullmatch(cell.strip())
    if match is None:
        return None
    items = [_unquoted(item) for item in _STRING.findall(match["list"] or match["tuple"] or "")]
    return None if match["tuple"] and len(items) < 2 else items


def _unquoted(item: str) -> str | None:
    if item[0] not in "'\"":
        return None
    text = _ESCAPED.sub(
        lambda match: match[0].encode("latin-1", "replace").decode("unicode_escape"), item[1:-1].replace("\\/", "/")
    )
    # JSON writes letters beyond 16 bits as two halves.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if "\\u" in item else text


def cell_captions(value: object, where: str, separator: str | None = None) -> list[str]:
    """The captions of a text, of a list, or of a struct with one of ``FIELDS``, at least one. A
    caption that is null or shows nothing, or that a list lacks, is "", which the stage leaves out.

    separator: between captions of a text. Raises InputError for other values and as ``caption``."""
    match value:
        case None:
            return [""]
        case list():
            return [text for entry in value for text in cell_captions(entry, where, separator)] or [""]
        case dict():
            text = next((value[name] for name in FIELDS if name in value), None)
            return cell_captions(text, where, separator)
        case str() if separator is not None:
            return [caption(text.strip(), where) for text in value.split(separator)]
        case str():
            texts = written_list(value)
            return [caption(text, where) for text in ([value] if texts is None else texts or [None])]
    raise InputError(f"{where}: {str(value)[:40]!r} is no caption; expected a text or a list of texts")


def caption(text: str | None, where: str) -> str:
    """``text`` unchanged: captions keep their case, quotes and spaces; "" for null and for a text
    without visible characters, which the stage leaves out.

    Raises InputError for a text longer than ``LONGEST_CAPTION``, for more captions than memory may
    hold, and for half of a surrogate pair, which JSON can hold and UTF-8 cannot."""
    if text is None or all(unicodedata.category(letter) in _UNSEEN for letter in text):
        return ""
    if len(text) > LONGEST_CAPTION:
        raise InputError(f"{where}: a caption of {len(text)} characters; expected no more than {LONGEST_CAPTION}")
    memory.reserve(where, sys.getsizeof(text) + _BESIDE_A_CAPTION)
    if not is_text(text):
        raise InputError(f"{where}: the caption {text[:40]!r} holds half of a surrogate pair; correct it")
    return text


def caption_text(text: str, where: str) -> str:
    """As ``caption``; raises InputError for a text without visible characters as well."""
    if not caption(text, where):
        raise InputError(f"{where}: the caption {text[:8]!a} shows nothing; write one or remove the row")
    return text
