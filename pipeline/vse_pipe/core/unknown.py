"""How a name that does not exist is told, everywhere in the same words."""

import difflib
from collections.abc import Iterable


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """``unknown loss 'maxx'; did you mean 'max'? known: hal, max, sum``."""
    return missing(f"unknown {kind} '{name}'", name, sorted(known))


def missing(what: str, name: str, known: Iterable[str], told: str | None = None) -> str:
    """``<what>; did you mean 'max'? known: hal, max, sum`` for other words than "unknown loss 'maxx'", and ``known`` in an
    order of its own. told: instead of the list, where it is too long for a line."""
    listed = list(known)
    return f"{what}{near_miss(name, listed) or ';'} {told or 'known: ' + ', '.join(listed)}"


def near_miss(name: str, known: Iterable[str]) -> str:
    """``"; did you mean 'max'?"`` when one of ``known`` is close to ``name``, else an empty string."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean '{close[0]}'?" if close else ""
