"""localize: the embeddings of phrases and regions in, the box of each phrase out."""

from collections.abc import Iterator

from vse_pipe.artifacts import joins, localisation, model_files
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import SIMILARITIES
from vse_pipe.project.stages import Declaration, Node, Problem


def _problems(params: Params, node: Node) -> Iterator[Problem]:
    metrics = localisation.read_metrics(node.out)
    source = localisation.source(localisation.read_ranks(node.out))
    joins.require(source, localisation.origin(node.out, metrics, node.advice))
    weights = model_files.digest_of(paths.trained(node.name), node.name)
    yield from node.digest("weights", metrics.get("model_sha256"), weights)
    made_from = metrics.get("data", {})
    for name, now in localisation.data(paths.prepared(params.runs[node.name].dataset)).items():
        yield from node.digest(name, made_from.get(name), now)


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
