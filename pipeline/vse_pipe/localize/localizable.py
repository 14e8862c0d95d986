"""Which runs can be asked where a phrase is, told by params.yaml before anything slow is imported."""

from vse_pipe.artifacts import regions
from vse_pipe.core.errors import UsageError
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import SIMILARITIES


def check(params: Params, run: str) -> None:
    """Raises UsageError for a run that compares fragments, or was trained on pictures that are no regions."""
    node = params.runs[run]
    similarity, dataset = node.similarity.name, node.dataset
    if SIMILARITIES.traits(similarity).fragments:
        raise UsageError(f"run '{run}' compares fragments of pictures ({similarity}); a box is one vector")
    made = params.datasets[dataset].format.name == "regions"
    if not made and not (paths.prepared(dataset) / regions.NAME).exists():
        raise UsageError(
            f"localize {run}: data set '{dataset}' has no regions; train the run on a data set of `format: regions`"
        )
