"""data/localize/<run>/: readable, and of the model that is there now."""

from pipeline.artifacts import localisation, model_files
from pipeline.project import paths
from pipeline.project.nodes import Node
from pipeline.project.params.typed import Params
from pipeline.project.problems import Problem, collected, digest


def problems(params: Params, node: Node) -> list[Problem]:
    found: list[Problem] = []
    with collected(found):
        metrics = localisation.read_metrics(node.out)
        localisation.read_ranks(node.out)
        trained = paths.trained(node.name)
        if (trained / model_files.CONFIG).is_file():
            now = model_files.read_config(trained, node.name)["sha256"].get(model_files.MODEL)
            found += digest(node.out, "weights", metrics.get("model_sha256"), now, node.advice)
    return found
