"""reports/timings.html: the seconds each stage took, apart from the page, whose bytes must not depend on them."""

from vse_pipe.project import step
from vse_pipe.project.params.typed import Params
from vse_pipe.project.stages import nodes
from vse_pipe.report.engine.page import environment, style

NAME = "timings.html"
Row = tuple[str, str, float | None]


def rows(params: Params) -> list[Row]:
    """(stage, name, seconds) in the order of the pipeline, for what params names; None for work that was never done here."""
    return [(node.declaration.room, node.name, step.timing_of(node.out)) for node in nodes(params)]


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
