"""evaluate: embeddings in, ranks and metrics under every criterion out."""

from dataclasses import replace
from pathlib import Path

from pipeline.artifacts import embeddings
from pipeline.project import paths
from pipeline.project.nodes import Declaration
from pipeline.project.params.typed import Params
from pipeline.project.registry import INFERENCES, SIMILARITIES


def inputs(params: Params, name: str) -> list[Path]:
    """Of a run, or of the runs of an ensemble."""
    node = params.ensembles.get(name)
    sources = [paths.embedded(one) for one in ((name,) if node is None else node.members)]
    return [source / file for source in sources for file in (embeddings.IMAGES, embeddings.CAPTIONS)]


RUNS = Declaration(
    group="evaluate",
    module="pipeline.evaluate.stage",
    option="--run",
    names=lambda params: params.runs,
    out=lambda params, name: paths.evaluations(name),
    inputs=inputs,
    finds=(INFERENCES, SIMILARITIES),
    repeats=True,
)
NODES = (RUNS, replace(RUNS, group="evaluate_ensembles", names=lambda params: params.ensembles))
