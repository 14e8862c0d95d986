"""The page that `dvc plots` fills: DVC's own asks a server for Vega, this one has it inside and asks for nothing.

DVC takes it from `plots.html_template` in .dvc/config, puts the plots in place of ``{plot_divs}`` and a reload tag in
place of ``{refresh_tag}``. Without ``{scripts}``, DVC's three links have no place to go.
"""

import re
from pathlib import Path

from vse_pipe.core.files import write_text
from vse_pipe.report import charts

# Beside .dvc/config, which names it; git leaves it out, since it is one megabyte of other people's code.
PAGE = Path(".dvc") / "plots.html"
_FOLDER = Path(__file__).parent


def render() -> str:
    """The page with Vega, Vega-Lite and vega-embed of the installed vl_convert; DVC's placeholders stay.

    Plots name Vega-Lite 5, as DVC's own templates do. vl_convert has that version too, but no Vega older than 6, which
    warns of what Vega-Lite 5 compiles to; so it is the newest of both, which draw the same, and the wrapper drops the name.
    """
    import vl_convert

    page = (_FOLDER / "plots_page.html").read_text(encoding="utf-8")
    scripts = {
        "library": charts.bundle(vl_convert.get_vegalite_versions()[-1]),
        "wrapper": (_FOLDER / "plots_page.js").read_text(encoding="utf-8"),
    }
    # In one pass, so that nothing in a script is taken for a place of its own.
    return re.sub(r"\{(library|wrapper)\}", lambda found: scripts[found[1]], page)


def write(root: Path) -> Path:
    """Write ``PAGE`` below ``root``, whole or not at all, and return its path."""
    page = root / PAGE
    write_text(page, render())
    return page
