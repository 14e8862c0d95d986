"""data/localize/<run>/: of the model, the phrases, the boxes and the whole pictures that are there now."""

from vse_pipe.artifacts import joins, localisation, model_files
from vse_pipe.project import paths
from vse_pipe.project.nodes import Node
from vse_pipe.project.params.typed import Params
from vse_pipe.project.problems import Problem, collected, digest


def problems(params: Params, node: Node) -> list[Problem]:
    found: list[Problem] = []
    with collected(found):
        metrics = localisation.read_metrics(node.out)
        source = localisation.source(localisation.read_ranks(node.out))
        joins.require(source, localisation.origin(node.out, metrics, node.advice))
        now = model_files.digest_of(paths.trained(node.name), node.name)
        found += digest(node.out, "weights", metrics.get("model_sha256"), now, node.advice)
        made_from = metrics.get("data", {})
        for name, held in localisation.data(paths.prepared(params.runs[node.name].dataset)).items():
            found += digest(node.out, name, made_from.get(name), held, node.advice)
    return found
