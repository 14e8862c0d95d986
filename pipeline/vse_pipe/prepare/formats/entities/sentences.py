"""Lines of ``Sentences/<id>.txt``: captions in which ``[/EN#<chain>/<type> words]`` marks a phrase."""

import re
from typing import NamedTuple

from vse_pipe.core.errors import InputError

_PHRASE = re.compile(r"\[/EN#([0-9]{1,18})((?:/[^\s/\[\]]+)+)\s([^\[\]]*)\]")
_LEFT_OVER = re.compile(r"\[|/EN#")


class Phrase(NamedTuple):
    """start: of ``text`` in the caption, in characters from 0; kind: its types, joined by /."""

    start: int
    text: str
    chain: int
    kind: str


def parse(line: str, where: str) -> tuple[str, list[Phrase]]:
    """The caption without the marks, all else as it stands, and its phrases; one of no words has an empty text.

    Raises InputError: a mark that is never closed, that stands in another one, or that lacks its chain or type.
    """
    # What stands before each phrase, its chain, types and words, in turn; at the end the rest.
    pieces = _PHRASE.split(line)
    text, phrases = "", []
    for before, chain, kinds, words in zip(pieces[::4], pieces[1::4], pieces[2::4], pieces[3::4], strict=False):
        text += _plain(before, where)
        start = len(text) + len(words) - len(words.lstrip())
        phrases.append(Phrase(start, words.strip(), int(chain), kinds.removeprefix("/")))
        text += words
    return text + _plain(pieces[-1], where), phrases


def _plain(piece: str, where: str) -> str:
    found = _LEFT_OVER.search(piece)
    if found:
        mark = piece[found.start() :][:40]
        raise InputError(
            f"{where}: {mark!r} is no whole mark; expected [/EN#<chain>/<type> words], no bracket among the words"
        )
    return piece
