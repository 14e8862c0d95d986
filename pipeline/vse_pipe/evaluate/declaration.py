"""evaluate: embeddings in, ranks and metrics under every criterion out."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from vse_pipe.artifacts import embeddings, evaluation, images, joins
from vse_pipe.project import paths
from vse_pipe.project.params.schema import BESIDE
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import INFERENCES, SIMILARITIES
from vse_pipe.project.sources import SourceFiles
from vse_pipe.project.stages import Declaration, Node, Problem


def _inputs(params: Params, name: str) -> list[Path]:
    """The embeddings of a run, of the runs of an ensemble, or of a transfer and its run, which may provide the bank."""
    if name in params.ensembles:
        return [*map(paths.embedded, params.ensembles[name].members)]
    return [*map(paths.embedded, dict.fromkeys((name, params.trained(name))))]


def _reads(params: Params, name: str) -> list[SourceFiles]:
    """Judgements and labels of the data set, and the vectors of a bank in another folder."""
    node = params.evaluate.for_dataset(params.dataset(name))
    files = [SourceFiles(Path(path)) for key in BESIDE if isinstance(path := getattr(node, key), str)]
    bank = [] if node.bank in images.DESCRIBED else [Path(node.bank)]
    return [*files, *(SourceFiles(folder, patterns=(embeddings.IMAGES, embeddings.CAPTIONS)) for folder in bank)]


def _problems(params: Params, node: Node) -> Iterable[Problem]:
    """Criteria without an evaluation are no problem."""
    documents = [evaluation.read_metrics(path.parent) for path in node.out.glob(f"*/{evaluation.METRICS}")]
    evaluation.require_current(params, node.name)
    # All criteria were measured on the same vectors. Documents of an earlier version have no digest.
    vectors = [document[evaluation.MADE_FROM]["vectors"] for document in documents if evaluation.MADE_FROM in document]
    if vectors and all((folder / embeddings.IMAGES).is_file() for folder in _inputs(params, node.name)):
        current = evaluation.made_from(params, node.name)["vectors"]
        joins.require_same(node.out, "embeddings", vectors[0], current)
    return ()


_RUNS = Declaration(
    group="evaluate",
    section="runs",
    option="--run",
    output=paths.evaluations,
    inputs=_inputs,
    problems=_problems,
    families={INFERENCES: "", SIMILARITIES: ""},
    reads=_reads,
)
STAGES = (
    _RUNS,
    replace(_RUNS, group="evaluate_ensembles", section="ensembles"),
    replace(_RUNS, group="evaluate_transfers", section="transfers"),
)
