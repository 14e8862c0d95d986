"""evaluate: embeddings in, ranks and metrics under every criterion out."""

from dataclasses import replace
from pathlib import Path

from vse_pipe.artifacts import embeddings, images
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import INFERENCES, SIMILARITIES
from vse_pipe.project.sources import SourceFiles
from vse_pipe.project.stages import Declaration


def _inputs(params: Params, name: str) -> list[Path]:
    """Embeddings of a run, of an ensemble's runs, or of a transfer and its run."""
    if name in params.ensembles:
        return [*map(paths.embedded, params.ensembles[name].members)]
    return [*map(paths.embedded, dict.fromkeys((name, params.trained(name))))]


def _reads(params: Params, name: str) -> list[SourceFiles]:
    """Judgements of the data set, and the vectors of a bank in another folder."""
    node = params.evaluate.for_dataset(params.dataset(name))
    files = [SourceFiles(Path(node.judgements))] if isinstance(node.judgements, str) else []
    bank = [] if node.bank in images.DESCRIBED else [Path(node.bank)]
    return [*files, *(SourceFiles(folder, patterns=(embeddings.IMAGES, embeddings.CAPTIONS)) for folder in bank)]


_RUNS = Declaration(
    group="evaluate",
    section="runs",
    option="--run",
    output=paths.evaluations,
    inputs=_inputs,
    families={INFERENCES: "", SIMILARITIES: ""},
    reads=_reads,
)
STAGES = (
    _RUNS,
    replace(_RUNS, group="evaluate_ensembles", section="ensembles"),
    replace(_RUNS, group="evaluate_transfers", section="transfers"),
)
