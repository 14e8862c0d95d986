"""The charts of the result pages, drawn from the pages' own tables: ``python -m tests.docs.charts``.

With ``--check`` it names the charts whose page has other figures. A chart holds the digest of its specification, because
the drawing itself depends on the fonts of the machine.
"""

import argparse
import hashlib
import json
import math
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd
import vl_convert

from tests.rules.sources import ROOT
from vse_pipe.core.files import whole_file

REPORTS = ROOT / "reports"
WIDTH = 460
# Okabe and Ito's colours, which colour-blind readers can tell apart, without those too pale or too dark for a background.
COLOURS = ["#2A7FC0", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#8a8a8a", "#b8a000", "#7a5cd6"]
_STAR = "M0,-1L.25,-.25L1,0L.25,.25L0,1L-.25,.25L-1,0L-.25,-.25Z"
SHAPES = [
    "circle",
    "square",
    "triangle-up",
    "diamond",
    "cross",
    "triangle-down",
    "triangle-right",
    "triangle-left",
    _STAR,
]
_CONFIG = {
    "background": None,
    "view": {"stroke": None},
    "axis": {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal", "labelLimit": 300}
    | {"gridColor": "#8a8a8a", "gridOpacity": 0.25, "domainColor": "#8a8a8a", "tickColor": "#8a8a8a"},
    "legend": {"labelFontSize": 12, "symbolSize": 80, "orient": "bottom", "columns": 3, "labelLimit": 320},
    "title": {"fontSize": 13, "fontWeight": "normal", "anchor": "start"},
}
_STYLE = """<style>text{font-family:Helvetica,Arial,'Liberation Sans',sans-serif;fill:#1f2328}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}}</style>"""
# Half of what Vega writes: attributes for scripts and screen readers, which see no inside of an image, and empty paths.
_IDLE = re.compile(
    r' (?:role|class|aria-\w+|pointer-events|font-family)="[^"]*"| opacity="1"|(?<=fill="#.{6}") stroke-width="2"'
    r'|<path[^>]* d="(?:M0,0h0v0h0Z)?"[^>]*/>'
)
_NUMBER = r"([+-]?\d+(?:\.\d+)?)"


def table(text: str, section: str, column: str) -> pd.DataFrame:
    """The first table with ``column`` below the heading that begins with ``section``, its cells as text.

    Raises LookupError if there is none."""
    parts = re.split(rf"^#+ {re.escape(section)}.*$", text, maxsplit=1, flags=re.MULTILINE)
    for lines in re.findall(r"(?:^\|.*\|\n)+", parts[-1] if len(parts) > 1 else "", flags=re.MULTILINE):
        head, _, *rows = ([cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines.splitlines())
        if column in head:
            return pd.DataFrame(rows, columns=head)
    raise LookupError(f"no table with the column {column!r} below {section!r}")


def spread(cells: pd.Series) -> pd.DataFrame:
    """value, low and high of cells such as ``1.5 ± 0.5``, ``1.5 (1.0 to 2.0)``, ``1.0 to 2.0`` and ``74 %``; NaN where
    a cell has no such number."""
    plain = cells.str.replace(r"[*,]", "", regex=True).str.replace("−", "-")
    deviation = plain.str.extract(rf"^{_NUMBER} ± {_NUMBER}$").astype(float)
    bounds = plain.str.extract(rf"{_NUMBER} to {_NUMBER}\)?$").astype(float)
    value = plain.str.extract(rf"^{_NUMBER}(?![\d.]| to)")[0].astype(float)
    low, high = deviation[0] - deviation[1], deviation[0] + deviation[1]
    return pd.DataFrame({"value": value, "low": low.fillna(bounds[0]), "high": high.fillna(bounds[1])})


def flickr8k(text: str) -> alt.TopLevelMixin:
    """rsum of the losses of (e), with intervals of the method."""
    rows = table(text, "(e)", "95% interval")
    figures = spread(rows["95% interval"]).assign(value=spread(rows["nns rsum"])["value"], name=rows["run"])
    return intervals(figures, "rsum on test under nns; 95% interval over seeds and images")


def cleaning(text: str) -> alt.TopLevelMixin:
    """rsum of what was trained on clean, cleaned and noisy pairs."""
    rows = table(text, "What cleaning is worth", "rsum")
    moved = {"none": "clean pairs", "caption": "40 % of captions moved", "image": "40 % of images moved"}
    figures = spread(rows["rsum"]).assign(name=rows["trained on"], series=rows.iloc[:, 0].map(moved))
    return intervals(figures, "rsum on the clean test split under nns; mean ± standard deviation of the draws")


def localisation(text: str) -> alt.TopLevelMixin:
    """R@1 of the rows, and the paper's."""
    rows = table(text, "Rows", "paper's R@1")
    names = rows.iloc[:, 0]
    here = spread(rows["R@1"]).assign(name=names, series="here, rendered shapes")
    paper = spread(rows["paper's R@1"]).assign(name=names, series="in the paper, photographs")
    return intervals(
        pd.concat([here, paper]).dropna(subset="value"), "R@1 of phrases in percent; mean ± standard deviation"
    )


def gpu(text: str) -> alt.TopLevelMixin:
    """Time against the bare loop's on a logarithmic axis; a share of its rate is turned into time."""
    rows = table(text, "Rates", "now / bare")
    ratio = rows["now / bare"]
    figures = spread(ratio).assign(name=rows.iloc[:, 0])
    shares = ratio.str.endswith("%")
    figures.loc[shares, "value"] = (100 / figures.loc[shares, "value"]).round(3)
    scale = alt.Scale(type="log", domain=[0.1, 20], nice=False)
    return intervals(
        figures, "time, in multiples of the bare loop's (logarithmic)", scale, [0.1, 0.2, 0.5, 1, 2, 5, 10, 20]
    )


def extract(text: str) -> alt.TopLevelMixin:
    """Images per second of the forward pass alone and of the whole stage."""
    rows = table(text, "Images per second", "whole stage")
    parts = {"bare": "forward pass alone", "whole stage": "whole stage"}
    figures = pd.concat(
        [spread(rows[column]).assign(name=rows["backbone"], series=label) for column, label in parts.items()]
    )
    return intervals(figures, "images per second on two cores; medians of the rounds", alt.Scale(domain=[0, 10]))


def hal(text: str) -> alt.TopLevelMixin:
    """rsum for each value of HAL's numbers, and recall against the lambda of RGM on val and on test."""
    rows = table(text, "One number at a time", "nns rsum")
    numbers = spread(rows["nns rsum"]).assign(name=rows["number"] + " " + rows["value"])
    numbers = numbers[numbers["value"] > 100]  # two runs did not learn
    recalls = table(text, "Lambda of RGM", "lambda").astype(float)
    panels, names = ["i2t R@1", "t2i R@1"], list(recalls.columns)
    figures = [
        pd.DataFrame({"rate": recalls["lambda"], "value": recalls.iloc[:, names.index(f"{panel}, val") + test]}).assign(
            way=way, panel=panel, low=math.nan, high=math.nan
        )
        for panel in panels
        for test, way in enumerate(("val", "test"))
    ]
    above = intervals(numbers, "rsum on test under nns; mean ± standard deviation over the seeds")
    below = curves(
        pd.concat(figures), panels, ("λ of rgm", [1, 4, 7, 10]), "R@K in percent", step=0, width=190, zero=False
    )
    return alt.vconcat(above, below).resolve_scale(color="independent", shape="independent")


def l2rm(text: str) -> alt.TopLevelMixin:
    """rsum of the ways and by mass (Figure 4 of L2RM), the learned costs (Figure 6) and the refined alignments (Figure 7)."""
    rates = table(text, "Other rates", "80")
    ways = pd.concat(spread(rates[rate]).assign(way=rates["way"], rate=float(rate)) for rate in rates.columns[1:])
    masses = table(text, "Parts of L2RM", "mass")
    moved = spread(masses["nns"]).assign(way="L2RM, 60 %", rate=masses["mass"].astype(float))
    costs = table(text, "Costs and refined", "cost from").set_index("cost from").T.reset_index(names="rate")
    ranks = table(text, "Costs and refined", "rank").rename(columns={"rank": "rate"})
    lines = [
        rows.astype(float).melt("rate", var_name="way").assign(low=math.nan, high=math.nan) for rows in (costs, ranks)
    ]
    share = "mismatched pairs in percent", [20, 40, 60, 80]
    panels = [
        (ways, "By share", share, "rsum under nns", 0.5, True),
        (moved, "By mass", ("mass transported", [0.1, 0.3, 1.0]), "rsum under nns", 0, False),
        (lines[0], "Costs", ("cost", [0.2, 0.4, 0.6, 0.8, 1.0]), "pairs in percent", 0, True),
        (lines[1], "Alignments by regularisation", ("rank of the caption", [1, 8, 16, 24, 32]), "mean weight", 0, True),
    ]
    charts = [
        curves(rows.assign(panel=panel), [panel], along, title, step=step, width=190, zero=zero, columns=2)
        for rows, panel, along, title, step, zero in panels
    ]
    return alt.concat(*charts, columns=2).resolve_scale(color="independent", shape="independent")


def noise(text: str) -> alt.TopLevelMixin:
    """rsum against the share of mismatched pairs, a panel for each of the two tables of five rates."""
    panels = {
        "Shapes, SCAN on regions": ("Shapes: five rates", r"^`(\w+)`(?:, two networks)?$"),
        "Flickr8k, global model": ("Flickr8k's precomputed", r"^(\w+)$"),
    }
    figures = []
    for panel, (section, way) in panels.items():
        rows = table(text, section, "0.8")
        names = rows.iloc[:, 0].str.extract(way)[0]
        rows = rows.iloc[:, 1:6]  # the rates; columns of other criteria have the same names
        figures += [spread(rows[rate]).assign(way=names, rate=100 * float(rate), panel=panel) for rate in rows]
    along = "mismatched pairs in percent", [0, 20, 40, 60, 80]
    return curves(pd.concat(figures).dropna(subset=["way", "value"]), list(panels), along, "rsum on test under nns")


PAGES: dict[str, Callable[[str], alt.TopLevelMixin]] = {
    page.__name__: page for page in (flickr8k, hal, noise, l2rm, localisation, cleaning, gpu, extract)
}


def intervals(
    figures: pd.DataFrame, title: str, scale: alt.Scale | None = None, ticks: list[float] | None = None
) -> alt.LayerChart:
    """A line a name in the order of the rows: a point at ``value`` and a bar from ``low`` to ``high``; a series has its
    colour, shape and offset. With ``ticks`` a rule marks 1."""
    figures = figures.assign(name=figures["name"].str.replace("`", ""), series=figures.get("series", ""))
    series = list(dict.fromkeys(figures["series"]))
    legend = {"title": None, "legend": alt.Legend() if len(series) > 1 else None}
    axis = alt.Axis(values=ticks) if ticks else alt.Axis()
    base = alt.Chart(alt.Data(values=_records(figures))).encode(
        y=alt.Y(
            "name:N",
            title=None,
            sort=list(figures["name"].unique()),
            axis=alt.Axis(grid=True, ticks=False, domain=False),
        ),
        color=alt.Color("series:N", scale=alt.Scale(domain=series, range=COLOURS[: len(series)]), **legend),
    )
    if len(series) > 1:
        base = base.encode(yOffset=alt.YOffset("series:N", scale=alt.Scale(domain=series)))
    scale = scale or alt.Scale(zero=False)
    x = alt.X("value:Q", title=title, scale=scale, axis=axis)
    shape = alt.Shape("series:N", scale=alt.Scale(domain=series, range=SHAPES[: len(series)]), **legend)
    bars = base.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=2)
    layers = [
        bars.encode(x=alt.X("low:Q", title=title, scale=scale, axis=axis), x2="high:Q"),
        base.transform_filter("isValid(datum.value)")
        .mark_point(filled=True, size=60, opacity=1)
        .encode(x=x, shape=shape),
    ]
    if ticks:
        level = alt.Chart(alt.Data(values=[{"value": 1}]))
        layers.insert(0, level.mark_rule(strokeDash=[4, 4], color="#8a8a8a").encode(x="value:Q"))
    step = 22 if len(series) == 1 else 30
    return alt.layer(*layers).properties(width=WIDTH, height=step * figures["name"].nunique())


def curves(
    figures: pd.DataFrame,
    panels: list[str],
    along: tuple[str, list[int]],
    title: str,
    step: float = 0.5,
    width: float = WIDTH * 0.62,
    zero: bool = True,
    columns: int = 5,
) -> alt.FacetChart:
    """A line a way through its rates, with bars; ways stand beside each other, so that bars do not cover one another.

    along: the title and the marks of the lower axis; title: of the upright axis, which begins with 0 if ``zero``; step:
    between two ways, in rates; columns: of the legend."""
    ways = list(dict.fromkeys(figures["way"]))
    place = figures["way"].map(ways.index) - (len(ways) - 1) / 2
    records = _records(figures.assign(x=figures["rate"] + step * place))
    legend = {"title": None, "legend": alt.Legend(columns=columns)}
    x = alt.X("x:Q", title=along[0], axis=alt.Axis(values=along[1], grid=False))
    axis: dict[str, Any] = {"title": title, "axis": alt.Axis(tickCount=5), "scale": alt.Scale(zero=zero)}
    y = alt.Y("value:Q", **axis)
    colour = alt.Color("way:N", scale=alt.Scale(domain=ways, range=COLOURS[: len(ways)]), **legend)
    shape = alt.Shape("way:N", scale=alt.Scale(domain=ways, range=SHAPES[: len(ways)]), **legend)
    base = alt.Chart().encode(x=x, color=colour)
    layers = alt.layer(
        base.transform_filter("isValid(datum.low)")
        .mark_rule(strokeWidth=1.5)
        .encode(y=alt.Y("low:Q", **axis), y2="high:Q"),
        base.mark_line(strokeWidth=1.5).encode(y=y),
        base.mark_point(filled=True, size=50, opacity=1).encode(y=y, shape=shape),
        data=alt.Data(values=records),
    ).properties(width=width, height=300)
    header = alt.Header(title=None, labelFontSize=13)
    return layers.facet(column=alt.Column("panel:N", header=header, sort=panels)).resolve_scale(y="independent")


def _records(figures: pd.DataFrame) -> list[dict]:
    return json.loads(figures.round(3).to_json(orient="records"))


def drawing(chart: alt.TopLevelMixin) -> tuple[str, dict]:
    """(the digest of the specification as a tag, the specification)."""
    specification = {**chart.to_dict(), "config": _CONFIG}
    # A newer Vega-Lite is no new figure.
    drawn = {key: value for key, value in specification.items() if key != "$schema"}
    digest = hashlib.sha256(json.dumps(drawn, sort_keys=True).encode()).hexdigest()
    return f"<metadata>{digest}</metadata>", specification


def svg(specification: dict, digest: str) -> str:
    version = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
    drawn = vl_convert.vegalite_to_svg(specification, vl_version=version)
    short = re.sub(r"\d+\.\d{3,}", lambda number: f"{round(float(number.group()), 1):g}", _IDLE.sub("", drawn))
    return re.sub(r"^<svg[^>]*>", lambda tag: tag.group() + _STYLE + digest, short, count=1) + "\n"


def main(arguments: list[str], folder: Path = REPORTS) -> int:
    """The exit status: 1 where ``--check`` finds a chart that is not up to date."""
    parser = argparse.ArgumentParser(prog="python -m tests.docs.charts", description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; status 1 if a chart is stale")
    check = parser.parse_args(arguments).check
    stale = False
    for name, page in PAGES.items():
        digest, specification = drawing(page((folder / f"{name}.md").read_text(encoding="utf-8")))
        file = folder / "figures" / f"{name}.svg"
        if file.is_file() and digest in file.read_text(encoding="utf-8"):
            continue
        stale = True
        if not check:
            file.parent.mkdir(exist_ok=True)
            with whole_file(file) as temporary:
                temporary.write_text(svg(specification, digest), encoding="utf-8")
        state = "is not up to date; run `python -m tests.docs.charts`" if check else "written"
        sys.stdout.write(f"reports/figures/{name}.svg {state}\n")
    return int(check and stale)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
