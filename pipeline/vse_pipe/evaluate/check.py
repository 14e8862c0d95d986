"""data/evaluate/<run>/<inference>/: three files, measured under the protocol of params.yaml, on the run's embeddings."""

import math

import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.artifacts import current, embeddings, evaluation
from vse_pipe.core import tables
from vse_pipe.project import paths
from vse_pipe.project.nodes import Node
from vse_pipe.project.params import criteria
from vse_pipe.project.params.typed import Params
from vse_pipe.project.problems import ARTEFACT, DIGEST, Problem, collected, digest, ids, settings

_PROTOCOL = ("split", "protocol", "ties")


def problems(params: Params, node: Node) -> list[Problem]:
    """Criteria that have not been evaluated are not there yet; they are no problem."""
    found: list[Problem] = []
    for inference in params.grid.inferences:
        if paths.evaluated(node.name, inference).is_dir():
            with collected(found):
                found += _criterion(params, node, inference)
    with collected(found):
        current.require(params, node.name)
        found += _vectors(params, node)
    return found


def _vectors(params: Params, node: Node) -> list[Problem]:
    """All criteria agree in what they were made from; one is compared with the embeddings that are there now."""
    told = [evaluation.read_metrics(path.parent) for path in node.out.glob(f"*/{evaluation.METRICS}")]
    known = [one[evaluation.MADE_FROM]["vectors"] for one in told if evaluation.MADE_FROM in one]
    if not known or not all(path.is_file() for path in node.declaration.inputs(params, node.name)):
        return []
    return digest(node.out, "embeddings", known[0], current.made_from(params, node.name)["vectors"], node.advice)


def _criterion(params: Params, node: Node, inference: str) -> list[Problem]:
    folder = paths.evaluated(node.name, inference)
    metrics = evaluation.read_metrics(folder)
    ranks, occurrence = evaluation.read_ranks(folder), evaluation.read_occurrence(folder)
    asked = {key: getattr(params.evaluate, key) for key in _PROTOCOL}
    where = str(folder / evaluation.METRICS)
    found = settings(where, metrics, asked, "evaluate", node.advice)
    for key, wanted in (("run", node.name), ("inference", inference)):
        if metrics.get(key, wanted) != wanted:
            found.append(Problem(ARTEFACT, where, f"{key} is {metrics[key]!r}, expected {wanted!r}", node.advice))
    for key, (made, now) in criteria.changed(params, inference, metrics).items():
        what = f"made with {key} {made!r}, params.yaml inference.{inference} says {now!r}"
        found.append(Problem(DIGEST, where, what, node.advice))
    ensemble = params.ensembles.get(node.name)
    if ensemble and not ensemble.tells(metrics.get("ensemble", {})):
        what = f"ensemble is {metrics.get('ensemble')}, not what params.yaml ensembles.{node.name} says"
        found.append(Problem(ARTEFACT, where, what, node.advice))
    moved = params.transfers.get(node.name)
    if moved and not moved.tells(metrics.get("transfer")):
        what = f"transfer is {metrics.get('transfer')}, not what params.yaml transfers.{node.name} says"
        found.append(Problem(ARTEFACT, where, what, node.advice))
    if not _finite(metrics.get("rsum")):
        what = f"rsum is {metrics.get('rsum')!r}, expected a finite number"
        found.append(Problem(ARTEFACT, where, what, node.advice))
    return found + _ids(params, node, ranks, occurrence, inference)


def _ids(params: Params, node: Node, ranks: pa.Table, occurrence: pa.Table, inference: str) -> list[Problem]:
    run = params.ensembles[node.name].members[0] if node.name in params.ensembles else node.name
    source, folder = paths.embedded(run), paths.evaluated(node.name, inference)
    found = []
    for kind, file, direction in [
        ("image_id", embeddings.IMAGES, "image_to_text"),
        ("caption_id", embeddings.CAPTIONS, "text_to_image"),
    ]:
        if not (source / file).is_file():
            continue
        schema = pa.schema([pa.field(kind, pa.int64(), nullable=False)])
        known = tables.read(source / file, schema, columns=[kind])[kind].to_numpy()
        for table, column, name, wanted in [
            (ranks, "query_id", evaluation.RANKS, direction),
            (occurrence, "item_id", evaluation.OCCURRENCE, _other(direction)),
        ]:
            rows = table.filter(pc.equal(table["direction"], wanted))
            found += ids(folder / name, kind, rows[column].to_numpy(), known, source / file, node.advice)
    return found


def _other(direction: str) -> str:
    return next(one for one in evaluation.DIRECTIONS if one != direction)


def _finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
