"""report: all evaluations in, the page and the metrics out. One stage without entries."""

from pathlib import Path

from vse_pipe.artifacts import captions, evaluation, history
from vse_pipe.project import paths
from vse_pipe.project.nodes import Declaration
from vse_pipe.project.params.criteria import ranked_under
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import SECTIONS
from vse_pipe.project.sources import SourceFiles
from vse_pipe.report.claims.schema import PACKAGED


def _inputs(params: Params, name: str) -> list[Path]:
    measured = [name for name in params.evaluated() if not captions.absent(paths.prepared(params.dataset(name)))]
    names = [(run, one) for run in measured for one in ranked_under(params, run)]
    needed = [paths.evaluated(run, one) / evaluation.METRICS for run, one in names]
    return needed + [paths.trained(run) / history.NAME for run in params.runs]


def _reads(params: Params, name: str) -> list[SourceFiles]:
    """Claims in a file; those that are packaged are code."""
    claims = params.report.claims
    return [SourceFiles(Path(claims))] if claims and claims not in PACKAGED else []


NODES = (
    Declaration(
        group="report",
        module="vse_pipe.report.stage",
        option="",
        names=lambda params: (),
        out=lambda params, name: paths.REPORTS / "index.html",
        inputs=_inputs,
        reads=_reads,
        finds=(SECTIONS,),
    ),
)
