"""The page that `dvc plots` fills. It contains Vega, so unlike DVC's own page it needs no network.

`plots.html_template` in .dvc/config names the page. DVC replaces ``{plot_divs}`` by the plots and ``{refresh_tag}`` by a reload
tag. The page has no ``{scripts}``, so DVC's three links to a server are left out.
"""

import re
from pathlib import Path

from vse_pipe.core.files import write_text
from vse_pipe.report import charts

# .dvc/config names it. git ignores it, since it is one megabyte of third-party code.
PAGE = Path(".dvc") / "plots.html"
_FOLDER = Path(__file__).parent


def render() -> str:
    """The page with Vega, Vega-Lite and vega-embed of the installed vl_convert; DVC's placeholders stay.

    Plots name Vega-Lite 5, as DVC's own templates do. vl_convert has no Vega older than 6, which warns about the output of
    Vega-Lite 5. So the page has the newest version of both, which draw the same, and the wrapper removes the name.
    """
    import vl_convert

    page = (_FOLDER / "plots_page.html").read_text(encoding="utf-8")
    scripts = {
        "library": charts.bundle(vl_convert.get_vegalite_versions()[-1]),
        "wrapper": (_FOLDER / "plots_page.js").read_text(encoding="utf-8"),
    }
    # One pass, so that text in a script is no placeholder.
    return re.sub(r"\{(library|wrapper)\}", lambda match: scripts[match[1]], page)


def write(root: Path) -> Path:
    """Write ``PAGE`` below ``root``, whole or not at all, and return its path."""
    page = root / PAGE
    write_text(page, render())
    return page
