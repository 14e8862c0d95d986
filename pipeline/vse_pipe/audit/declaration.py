"""audit: a trained run and its training pairs in, how likely each pair is mismatched out."""

from collections.abc import Iterator

from vse_pipe.artifacts import audit, joins, model_files
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import IMAGE_ENCODERS, SIMILARITIES, TEXT_ENCODERS
from vse_pipe.project.stages import Declaration, Node, Problem
from vse_pipe.train.declaration import inputs


def _problems(params: Params, node: Node) -> Iterator[Problem]:
    metrics = audit.read_metrics(node.out)
    weights = model_files.digest_of(paths.trained(node.name), node.name)
    yield from node.digest("weights", metrics.get("model_sha256"), weights)
    joins.require(paths.prepared(params.dataset(node.name)), audit.origin(node.out, metrics, node.advice))


STAGES = (
    Declaration(
        group="audit",
        section="report.audits",
        option="--run",
        output=paths.audited,
        inputs=lambda params, name: [*inputs(params, name), paths.trained(name)],
        problems=_problems,
        families=dict.fromkeys((SIMILARITIES, TEXT_ENCODERS, IMAGE_ENCODERS), ""),
    ),
)
