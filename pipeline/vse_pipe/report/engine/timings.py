"""reports/timings.html: the seconds each stage took, apart from the page, whose bytes must not depend on them."""

from collections.abc import Callable
from pathlib import Path

from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.report.engine.page import environment, style

NAME = "timings.html"
Row = tuple[str, str, float | None]


def rows(params: Params, seconds: Callable[[Path], float | None]) -> list[Row]:
    """(stage, name, seconds) in the order of the pipeline, for what params names; None for work that was never done here.

    seconds: of the stage that wrote an output.
    """
    outs = [("prepare", name, paths.prepared(name)) for name in params.datasets]
    outs += [("extract", name, paths.extracted(one.dataset, name)) for name, one in params.features.items()]
    outs += [("extract", name, paths.extracted(one.dataset, name)) for name, one in params.texts.items()]
    outs += [("inject", name, paths.injected(one.dataset, name)) for name, one in params.noises.items()]
    outs += [("inject", name, paths.injected(one.dataset, name)) for name, one in params.teachers.items()]
    outs += [("train", name, paths.trained(name)) for name in params.runs]
    outs += [("embed", name, paths.embedded(name)) for name in (*params.runs, *params.transfers)]
    outs += [("evaluate", name, paths.evaluations(name)) for name in params.evaluated()]
    outs += [("audit", name, paths.audited(name)) for name in params.report.audits]
    return [(stage, name, seconds(out)) for stage, name, out in outs]


def render(found: list[Row], title: str) -> str:
    """The document. found: of ``rows``."""
    known = [seconds for _, _, seconds in found if seconds is not None]
    longest = max(known, default=0.0)
    return (
        environment()
        .get_template("template/timings.html")
        .render(
            title=title,
            rows=[(*row, 100 * (row[2] or 0.0) / longest if longest else 0.0) for row in found],
            total=sum(known),
            absent=len(found) - len(known),
            style=style(),
        )
    )
