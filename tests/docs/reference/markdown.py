"""Markdown from plain values: docstrings as text."""

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; bars in cells are escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def text(docstring: str) -> str:
    """A docstring's text on one line: double back-ticks become single, angle brackets outside code are escaped."""
    line = " ".join(docstring.split()).replace("``", "`")
    # Every other piece lies between back-ticks.
    pieces = line.split("`")
    pieces[::2] = [piece.replace("<", "&lt;").replace("*", r"\*") for piece in pieces[::2]]
    return "`".join(pieces)


def code(value: str) -> str:
    return f"`{value}`"
