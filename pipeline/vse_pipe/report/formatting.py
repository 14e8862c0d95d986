"""Formats of numbers and directions, and the templates that use them."""

from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

_NONE = "–"
HEADINGS = {"image_to_text": "Image to text", "text_to_image": "Text to image"}


def fixed(value: float | None, digits: int = 1) -> str:
    """``12.3`` with a typographic minus sign; a dash for None."""
    if value is None:
        return _NONE
    text = f"{value:.{digits}f}"
    return text.replace("-", "\u2212") if float(text) else text.removeprefix("-")


def signed(value: float, digits: int = 1) -> str:
    """``+1.2``, ``\u22121.2`` or ``\u00b10.0``."""
    text = fixed(value, digits)
    if not float(text.replace("\u2212", "-")):
        return f"\u00b1{text}"
    return text if value < 0 else f"+{text}"


def significant(value: float) -> str:
    """Four significant digits of any order of magnitude: ``2728``, ``0.4013``, ``4.3e-06``."""
    return f"{value:.4g}".replace("-", "\u2212")


def thousands(value: int) -> str:
    """``25,000``."""
    return f"{value:,}"


def plural(value: int, singular: str, many: str | None = None) -> str:
    """``1 query``, ``2 queries``."""
    return f"{thousands(value)} {singular if value == 1 else many or singular + 's'}"


def percent(share: float, digits: int = 0) -> str:
    return f"{100 * share:.{digits}f}%"


def interval(ends: tuple[float, float] | None, digits: int = 1) -> str:
    """``12.3\u201314.5``; a dash for None."""
    return _NONE if ends is None else _NONE.join(fixed(end, digits) for end in ends)


def spread(mean: float, deviation: float | None, digits: int = 2) -> str:
    """``12.34 \u00b1 0.56``, for a terminal and Markdown; the mean alone without a deviation."""
    return f"{mean:z.{digits}f}" + ("" if deviation is None else f" \u00b1 {deviation:.{digits}f}")


def markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


FILTERS = {
    function.__name__: function for function in (fixed, signed, significant, thousands, plural, percent, interval)
}


def template_environment(*folders: Path) -> Environment:
    """The templates of ``folders`` with ``FILTERS``; text of data sets and visitors is escaped."""
    environment = Environment(
        loader=FileSystemLoader(folders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= FILTERS
    return environment
