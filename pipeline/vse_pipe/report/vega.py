"""Parts of Vega-Lite specifications, and the script that draws them."""

from functools import cache
from importlib.metadata import version
from importlib.util import cache_from_source
from itertools import count
from pathlib import Path
from typing import Any

from vse_pipe.core.console import say
from vse_pipe.core.files import write_text

VEGA_LITE = "6.4"


@cache
def library() -> str:
    """The script of ``VEGA_LITE``."""
    return bundle(VEGA_LITE)


def bundle(vega_lite: str) -> str:
    """Vega, Vega-Lite and vega-embed as one script for a version of Vega-Lite, such as ``6.1``;
    needs no network.

    Bundling takes seconds, so the script is cached next to the byte code of this module if
    possible."""
    cache = Path(cache_from_source(__file__)).with_name(f"vega-{vega_lite}-{version('vl-convert-python')}.bundle")
    if cache.is_file():
        return cache.read_text(encoding="utf-8")
    import vl_convert

    script = vl_convert.javascript_bundle(vl_version=vega_lite)
    try:
        write_text(cache, script)
    except OSError as error:
        say(f"report: Vega's bundle is made anew each time, {cache} cannot be written ({error})")
    return script


# A chart is rows, layers of marks, and encodings that all layers share. It has the width of its
# container; the theme is the page's.

Encoding = dict[str, Any]
# On an axis of epochs.
_TICKS = 12


def chart(rows: list[dict], height: int, *layers: dict, **shared: Encoding | list[Encoding]) -> dict:
    specification = {"width": "container", "height": height, "data": {"values": rows}, "layer": list(layers)}
    return {**specification, "encoding": shared}


def layer(
    mark: str, encoding: dict[str, Any] | None = None, where: str = "", rows: list[dict] | None = None, **options: Any
) -> dict:
    """where: an expression that its rows fulfil. rows: instead of the chart's."""
    drawn: dict[str, Any] = {"mark": {"type": mark, **options}, "encoding": encoding or {}}
    drawn |= {"transform": [{"filter": where}]} if where else {}
    return drawn | ({} if rows is None else {"data": {"values": rows}})


def number(field: str, title: str | None = None, **options: Any) -> Encoding:
    return {"field": field, "type": "quantitative", "title": title, **options}


def name(field: str, title: str | None = None, **options: Any) -> Encoding:
    return {"field": field, "type": "nominal", "title": title, **options}


def tip(field: str, format: str = "", title: str | None = None) -> Encoding:
    """An entry of a tooltip: a number with a format of d3, else the value as it is."""
    entry: Encoding = {"field": field, "title": title or field}
    return {**entry, "type": "quantitative", "format": format} if format else {**entry, "type": "nominal"}


def epochs_axis(epochs: list[int]) -> Encoding:
    """An axis of whole epochs with a dozen ticks at most; Vega's may lie between epochs."""
    first, last = min(epochs), max(epochs)
    steps = (size * 10**power for power in count() for size in (1, 2, 5))
    step = next(size for size in steps if (last - first) // size < _TICKS)
    ticks = [epoch for epoch in range(first, last + 1) if epoch % step == 0]
    return number("epoch", "epoch", axis={"values": ticks, "format": "d", "grid": False})
