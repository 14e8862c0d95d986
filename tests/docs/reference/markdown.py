"""Markdown from plain values: docstrings as text."""

import re


def text(docstring: str) -> str:
    """A docstring's text on one line: double back-ticks become single, angle brackets outside code are escaped."""
    line = " ".join(docstring.split()).replace("``", "`")
    # Every other piece lies between back-ticks.
    pieces = line.split("`")
    pieces[::2] = [piece.replace("<", "&lt;").replace("*", r"\*") for piece in pieces[::2]]
    return "`".join(pieces)


def first_paragraph(docstring: str | None) -> str:
    return text(re.split(r"\n\s*\n", docstring or "")[0])


def code(value: str) -> str:
    return f"`{value}`"
