"""The script that draws Vega-Lite specifications."""

from functools import cache
from importlib.metadata import version
from importlib.util import cache_from_source
from pathlib import Path

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
