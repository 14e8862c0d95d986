"""export: vectors of one direction with a criterion's correction, for systems that search by inner
product."""

from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from vse_pipe.artifacts import captions, embeddings, images, names
from vse_pipe.artifacts.evaluation import DIRECTIONS
from vse_pipe.core import locks
from vse_pipe.core.devices import resolve_device
from vse_pipe.core.errors import InputError, UsageError, unknown
from vse_pipe.core.files import require_free, sha256, whole_folder, write_json
from vse_pipe.core.strict import Strict
from vse_pipe.evaluate.ensemble import Ensemble, load_embeddings
from vse_pipe.evaluate.rank import VectorSets, task_of_vectors
from vse_pipe.evaluate.stage import warn_of_residuals
from vse_pipe.evaluate.task import Task
from vse_pipe.export.targets import Dataset, Folded, FoldedSide, target
from vse_pipe.project import paths
from vse_pipe.project.params.schema import EvaluateParams
from vse_pipe.project.params.typed import Params
from vse_pipe.ranking import criteria
from vse_pipe.ranking.bank import ItemBias
from vse_pipe.ranking.criteria import Criterion, foldable
from vse_pipe.ranking.fragments import plain
from vse_pipe.ranking.recall import places


def folded(
    queries: Float[Tensor, "queries dim"], items: Float[Tensor, "items dim"], bias: ItemBias
) -> tuple[Float[Tensor, "queries wide"], Float[Tensor, "items wide"]]:
    """``[q, 1]`` and ``[x, (m - bias) / scale]`` with the mean bias m.

    m shifts all items equally and saves precision. The inner product is the criterion's score over
    its scale plus a constant, so each query has the same order of items. Items with nearly equal
    scores may swap, because sums round differently.
    """
    column = ((bias.bias.mean() - bias.bias) / bias.scale).to(items)[:, None]
    if not column.isfinite().all():
        raise InputError("the correction leaves the range of the vectors' precision; choose milder parameters")
    return torch.cat([queries, queries.new_ones(len(queries), 1)], dim=1), torch.cat([items, column], dim=1)


MANIFEST = "manifest.json"


def export_run(
    params: Params, run: str, inference: str, to: str, direction: str, out: Path, device: str = "auto"
) -> dict:
    """Write ``out`` from data/embed/<run>/ and return the manifest.

    to: a key of ``TARGETS``. Raises UsageError for an unknown name, a
    criterion that is not one number for each item and a similarity that is no inner product;
    MissingResource if a package is not installed; InputError and IntegrityError for embeddings that
    cannot be used."""
    criterion = foldable(inference, params.inference)
    _check(to, direction, params.evaluate)
    resolved = resolve_device(device)
    embedded, folder = load_embeddings(params, run), paths.embedded(run)
    if isinstance(embedded, Ensemble) or embedded.compared_by != "cosine":
        raise UsageError(f"run '{run}' compares by {embedded.compared_by}, no inner product of one network's vectors")
    task = Task.of_run(params, run, embedded, [criterion], resolved)
    files = [folder / embeddings.IMAGES, folder / embeddings.CAPTIONS]
    prepared = paths.prepared(params.dataset(run))
    dataset = (images.read(prepared), captions.read(prepared)) if to == "atlas" else None
    return _export(task, criterion, to, direction, out, files, dataset)


def export_vectors(
    sources: VectorSets,
    inference: str,
    params: EvaluateParams,
    options: dict[str, Strict],
    to: str,
    direction: str,
    out: Path,
    device: str = "auto",
) -> dict:
    """As ``export_run`` for vectors in files, which need not pair captions with images."""
    criterion = foldable(inference, options)
    _check(to, direction, params)
    task = task_of_vectors(sources, params, resolve_device(device), paired=False)
    task.require_parameters(criterion)
    task, (criterion,) = task.tuned([criterion])
    return _export(task, criterion, to, direction, out, sources.files)


def _check(to: str, direction: str, params: EvaluateParams) -> None:
    """Raises UsageError for wrong options before any work."""
    if direction not in DIRECTIONS:
        raise UsageError(unknown("direction", direction, DIRECTIONS))
    if params.protocol != "full":
        raise UsageError("an export has no folds; use -S evaluate.protocol=full")
    target(to)


def _export(
    task: Task,
    criterion: Criterion,
    to: str,
    direction: str,
    out: Path,
    sources: list[Path],
    dataset: Dataset | None = None,
) -> dict:
    require_free(out, "an export", MANIFEST, b'"transductive"')
    if task.open_parameters(criterion):
        trials = task.validation_trials()[direction]
        criterion = criteria.choose_parameters(criterion, trials, task.options.tune).criterion
    bias = _bias(task, criterion, direction)
    warn_of_residuals(criterion, {direction: bias.notes})
    content = _folded(task, bias, direction, dataset)
    manifest = _manifest(task, criterion, bias, content, to)
    manifest["sources"] = {str(path): sha256(path) for path in sources}
    with locks.claim(out), whole_folder(out) as folder:
        target(to)(folder, content)
        if task.names is not None:
            names.write(folder, task.names)
        write_json(folder / MANIFEST, manifest)
    return manifest


def _bias(task: Task, criterion: Criterion, direction: str) -> ItemBias:
    split, memory = task.split, task.options.memory
    scores = split.scores(task.similarity, memory)
    if direction == "text_to_image":
        scores = scores.transposed()
    if criterion.needs_bank and task.bank.split is not None and not task.bank.has_queries(direction):
        side = "images" if direction == "image_to_text" else "captions"
        raise UsageError(f"the bank has no queries for {direction}; give --bank-{side}")
    bank = task.bank.bank(split, scores, direction, task.similarity, memory)
    bias = criterion.item_bias(bank)
    assert bias is not None
    return bias


def _folded(task: Task, bias: ItemBias, direction: str, dataset: Dataset | None) -> Folded:
    split = task.split
    assert plain(split.images)
    assert plain(split.captions)
    sides = [("caption_id", split.caption_ids, split.captions), ("image_id", split.image_ids, split.images)]
    rows = places(split.image_ids, split.caption_images)
    correct = [np.flatnonzero(rows >= 0), rows[rows >= 0]]
    if direction == "image_to_text":
        sides, correct = sides[::-1], correct[::-1]
    vectors = folded(sides[0][2], sides[1][2], bias)
    queries, items = (
        FoldedSide(key, ids, wide.cpu().numpy(), None if task.names is None else task.names.texts(key, ids))
        for (key, ids, _), wide in zip(sides, vectors, strict=True)
    )
    return Folded(direction, items, queries, (correct[0], correct[1]), dataset)


def _manifest(task: Task, criterion: Criterion, bias: ItemBias, content: Folded, to: str) -> dict:
    parameters = criterion.rescoring.params.model_dump()
    lengths = np.linalg.norm(content.queries.vectors[:, :-1], axis=1)
    # Some runs compare by cosine and do not scale images.
    is_unit = task.about["similarity"] == "cosine" and np.allclose(lengths, 1, atol=1e-3)
    return {
        **task.about,
        "inference": criterion.name,
        "parameters": {name: value for name, value in parameters.items() if not name.endswith("grid")},
        "notes": bias.notes,
        "bank": task.bank.name if criterion.needs_bank else "none",
        "transductive": criterion.needs_bank and not task.bank.has_queries(content.direction),
        "direction": content.direction,
        "to": to,
        "search": "inner product",
        "query": f"{'scale to length 1, ' if is_unit else ''}append 1, and do not scale it again",
        "scale": bias.scale,
        "dimensions": content.items.vectors.shape[1],
        "items": len(content.items.ids),
        "queries": len(content.queries.ids),
    }
