"""data/evaluate/<run>/: measured on the embeddings, of the model and on the data that are there now."""

from vse_pipe.artifacts import current, evaluation
from vse_pipe.project.nodes import Node
from vse_pipe.project.params.typed import Params
from vse_pipe.project.problems import Problem, collected, digest


def problems(params: Params, node: Node) -> list[Problem]:
    """Criteria that have not been evaluated are not there yet; they are no problem."""
    found: list[Problem] = []
    with collected(found):
        documents = [evaluation.read_metrics(path.parent) for path in node.out.glob(f"*/{evaluation.METRICS}")]
        current.require(params, node.name)
        # All criteria were measured on the same vectors; those of an earlier version do not say on which.
        vectors = [one[evaluation.MADE_FROM]["vectors"] for one in documents if evaluation.MADE_FROM in one]
        if vectors and all(path.is_file() for path in node.declaration.inputs(params, node.name)):
            now = current.made_from(params, node.name)["vectors"]
            found += digest(node.out, "embeddings", vectors[0], now, node.advice)
    return found
