"""evaluate: embeddings in, ranks and metrics under every criterion out."""

from dataclasses import replace
from pathlib import Path

from vse_pipe.artifacts import embeddings, images
from vse_pipe.project import paths
from vse_pipe.project.nodes import Declaration
from vse_pipe.project.params.measuring import BESIDE
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import INFERENCES, SIMILARITIES
from vse_pipe.project.sources import SourceFiles


def inputs(params: Params, name: str) -> list[Path]:
    """Of a run, of the runs of an ensemble, or of a transfer and the run it may take its bank from."""
    node, moved = params.ensembles.get(name), params.transfers.get(name)
    asked = moved is not None and moved.bank != moved.dataset and params.evaluate.bank in ("train", "val")
    lent = (moved.run,) if moved is not None and asked else ()
    sources = [paths.embedded(one) for one in ((name, *lent) if node is None else node.members)]
    return [source / file for source in sources for file in (embeddings.IMAGES, embeddings.CAPTIONS)]


def _reads(params: Params, name: str) -> list[SourceFiles]:
    """What people said of the data set, and vectors of a bank from elsewhere."""
    node = params.evaluate.of(params.dataset(name))
    files = [SourceFiles(Path(path)) for key in BESIDE if isinstance(path := getattr(node, key), str)]
    bank = [] if node.bank in images.DESCRIBED else [Path(node.bank)]
    return [*files, *(SourceFiles(folder, patterns=(embeddings.IMAGES, embeddings.CAPTIONS)) for folder in bank)]


RUNS = Declaration(
    group="evaluate",
    module="vse_pipe.evaluate.stage",
    option="--run",
    names=lambda params: params.runs,
    out=lambda params, name: paths.evaluations(name),
    inputs=inputs,
    reads=_reads,
    finds=(INFERENCES, SIMILARITIES),
)
NODES = (
    RUNS,
    replace(RUNS, group="evaluate_ensembles", names=lambda params: params.ensembles),
    replace(RUNS, group="evaluate_transfers", names=lambda params: params.transfers),
)
