"""report: all evaluations in, the page and the metrics out. The stage has no entries."""

from pathlib import Path

from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import SIMILARITIES
from vse_pipe.project.sources import SourceFiles
from vse_pipe.project.stages import Declaration
from vse_pipe.report.claims import PACKAGED

_ROOMS = ("prepare", "extract", "inject", "train", "embed", "evaluate", "audit", "localize")


def _reads(params: Params, name: str) -> list[SourceFiles]:
    """The file of claims; packaged claims are code."""
    claims = params.report.claims
    return [SourceFiles(Path(claims))] if claims and claims not in PACKAGED else []


STAGES = (
    Declaration(
        group="report",
        section="",
        option="",
        output=lambda name: paths.REPORTS / "index.html",
        inputs=lambda params, name: [paths.DATA / room for room in _ROOMS],
        families={SIMILARITIES: ""},
        reads=_reads,
    ),
)
