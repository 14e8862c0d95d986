"""Vega, Vega-Lite and vega-embed as one script, which takes seconds to bundle and is the same each time."""

from importlib.metadata import version
from importlib.util import cache_from_source
from pathlib import Path

from vse_pipe.core.console import detail
from vse_pipe.core.files import write_text


def bundle(vega_lite: str) -> str:
    """The script for a version of Vega-Lite, such as ``6.1``; needs no network. Kept beside the byte code of this module,
    by the versions of Vega-Lite and of vl_convert, where files can be written there."""
    name = f"vega-{vega_lite}-{version('vl-convert-python')}.bundle"
    kept = Path(cache_from_source(__file__)).with_name(name)
    if kept.is_file():
        return kept.read_text(encoding="utf-8")
    import vl_convert

    script = vl_convert.javascript_bundle(vl_version=vega_lite)
    try:
        write_text(kept, script)
    except OSError as error:
        detail(f"report: Vega's bundle is made anew each time, {kept} cannot be written ({error})")
    return script
