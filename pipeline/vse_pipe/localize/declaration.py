"""localize: the embeddings of phrases and regions in, the box of each phrase out."""

from collections.abc import Iterable

from vse_pipe.artifacts import localisation
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import SIMILARITIES
from vse_pipe.project.stages import Declaration, Node, Problem


def _problems(params: Params, node: Node) -> Iterable[Problem]:
    pictures = localisation.source(localisation.read_ranks(node.out))
    localisation.require_current(params, node.name, localisation.read_metrics(node.out), pictures)
    return ()


STAGES = (
    Declaration(
        group="localize",
        section="report.localized",
        option="--run",
        output=paths.localized,
        inputs=lambda params, name: [paths.prepared(params.runs[name].dataset), paths.embedded(name)],
        problems=_problems,
        families={SIMILARITIES: ""},
    ),
)
