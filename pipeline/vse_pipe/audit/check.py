"""data/audit/<run>/: of the model and the data set that are there now."""

from vse_pipe.artifacts import audit, joins, model_files
from vse_pipe.project import paths
from vse_pipe.project.nodes import Node
from vse_pipe.project.params.typed import Params
from vse_pipe.project.problems import Problem, collected, digest


def problems(params: Params, node: Node) -> list[Problem]:
    found: list[Problem] = []
    with collected(found):
        metrics = audit.read_metrics(node.out)
        now = model_files.digest_of(paths.trained(node.name), node.name)
        found += digest(node.out, "weights", metrics.get("model_sha256"), now, node.advice)
        joins.require(paths.prepared(params.dataset(node.name)), audit.origin(node.out, metrics, node.advice))
    return found
