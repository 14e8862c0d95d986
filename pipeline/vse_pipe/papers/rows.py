"""The rows of papers that runs and ensembles of params.yaml name."""

from collections.abc import Iterator

from vse_pipe.core.errors import UsageError
from vse_pipe.project.params.ensemble_node import EnsembleNode
from vse_pipe.project.params.schema import Root, RunNode


def problems(root: Root) -> Iterator[tuple[str, str]]:
    """(address, what is wrong) of every ``row`` that no paper has; the papers are read only where one is named."""
    nodes: dict[str, RunNode | EnsembleNode] = {f"ensembles.{name}": node for name, node in root.ensembles.items()}
    nodes |= {f"runs.{name}": node for name, node in root.runs.items()}
    for address, row in [(address, node.row) for address, node in nodes.items() if node.row is not None]:
        from vse_pipe.papers import catalogue

        try:
            catalogue.located(row)
        except UsageError as error:
            yield f"{address}.row", str(error)
