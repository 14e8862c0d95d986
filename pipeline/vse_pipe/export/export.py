"""export: vectors of one direction with a criterion's correction, for systems that search by inner product."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from vse_pipe.artifacts import captions, embeddings, images, names
from vse_pipe.artifacts.evaluation import DIRECTIONS
from vse_pipe.artifacts.names import TextIds
from vse_pipe.core import locks
from vse_pipe.core.devices import resolve_device
from vse_pipe.core.errors import InputError, UsageError, unknown
from vse_pipe.core.files import sha256, whole_folder, write_json
from vse_pipe.core.strict import Strict
from vse_pipe.evaluate.compact import train_split
from vse_pipe.evaluate.ensemble import Ensemble, load_embeddings
from vse_pipe.evaluate.rank import VectorSets, shared, task_of_vectors, warn_of
from vse_pipe.evaluate.stage import require_free, warn_of_residual
from vse_pipe.evaluate.task import Task
from vse_pipe.export.targets import DEPTH, Dataset, Folded, FoldedSide, target
from vse_pipe.project import paths
from vse_pipe.project.params.schema import EvaluateParams
from vse_pipe.project.params.typed import Params
from vse_pipe.ranking import criteria
from vse_pipe.ranking.bank import ItemBias
from vse_pipe.ranking.codes import BIAS_BYTES, EXACT, INT8, PRECISIONS, Codes, item_bytes
from vse_pipe.ranking.criteria import Criterion, foldable
from vse_pipe.ranking.fragments import plain
from vse_pipe.ranking.split import Split


def folded(
    queries: Float[Tensor, "queries dim"], items: Float[Tensor, "items dim"], bias: ItemBias
) -> tuple[Float[Tensor, "queries wide"], Float[Tensor, "items wide"]]:
    """``[q, 1]`` and ``[x, (m - bias) / scale]`` with the mean bias m, in the precision of the vectors.

    m shifts all items equally and saves precision. The inner product is the criterion's score over its scale plus a
    constant, so each query has the same order of items. Items with nearly equal scores may swap, because sums round
    differently.
    """
    if bias.scale <= 0:
        raise ValueError(f"a scale of {bias.scale} turns the order round")
    column = ((bias.bias.mean() - bias.bias) / bias.scale).to(items)[:, None]
    if not column.isfinite().all():
        raise InputError("the correction leaves the range of the vectors' precision; choose milder parameters")
    return torch.cat([queries, queries.new_ones(len(queries), 1)], dim=1), torch.cat([items, column], dim=1)


MANIFEST = "manifest.json"
# Files of all formats: an export can replace an export in another format.
_ARRAYS = ("items.*", "queries.*", "atlas.parquet", "*_ids.npy", "*_correction.npy", "run.txt", "qrels.txt")
_FILES = (MANIFEST, names.NAME, *_ARRAYS, "img_emb/*", "text_emb/*", "metadata/*")
# Similarities that are the inner product of the stored vectors.
_INNER_PRODUCTS = ("cosine",)


def export_run(
    params: Params,
    run: str,
    inference: str,
    to: str,
    direction: str,
    out: Path,
    device: str = "auto",
    depth: int = DEPTH,
    precision: str = EXACT,
) -> dict:
    """Write ``out`` from data/embed/<run>/ and return the manifest.

    to: a key of ``TARGETS``, with ``-`` or ``_``; depth: as in ``Folded``; precision: of the items; int8 has the ranges
    of split train. Raises UsageError for an unknown name, a criterion that is not one number for each item and a
    similarity that is no inner product; MissingResource if a package is not installed; InputError for unusable embeddings, IntegrityError for embeddings of another model.
    """
    criterion = foldable(inference, params.inference)
    folder = paths.embedded(run)
    to = _checked(to, direction, params.evaluate, precision)
    resolved = resolve_device(device, needs_float64=True)
    embedded = load_embeddings(params, run)
    if isinstance(embedded, Ensemble):
        raise UsageError(f"run '{run}' is the mean of two networks; export works for runs of one")
    if embedded.compared_by not in _INNER_PRODUCTS:
        able = ", ".join(_INNER_PRODUCTS)
        raise UsageError(
            f"run '{run}' compares by {embedded.compared_by}, which is no inner product; export works for: {able}"
        )
    task = Task.of_run(params, run, embedded, [criterion], resolved)
    sources = {str(path): sha256(path) for path in (folder / embeddings.IMAGES, folder / embeddings.CAPTIONS)}
    ranges = train_split(embedded, resolved) if precision == INT8 else None
    prepared = paths.prepared(params.dataset(run))
    dataset = (images.read(prepared), captions.read(prepared)) if to == "atlas" else None
    return _export(task, criterion, params.evaluate, to, direction, out, sources, depth, precision, ranges, dataset)


def export_vectors(
    sources: VectorSets,
    inference: str,
    params: EvaluateParams,
    options: dict[str, Strict],
    to: str,
    direction: str,
    out: Path,
    device: str = "auto",
    depth: int = DEPTH,
    precision: str = EXACT,
) -> dict:
    """As ``export_run`` for vectors in files, which need not pair captions with images; int8 takes the ranges of the
    bank."""
    criterion = foldable(inference, options)
    to = _checked(to, direction, params, precision)
    resolved = resolve_device(device, needs_float64=True)
    task, doubt = task_of_vectors(sources, params, resolved, paired=False)
    warn_of(doubt, shared(task.split, task.bank.split, "bank"))
    task.require_parameters(criterion)
    task, (criterion,) = task.tuned([criterion])
    side = "images" if direction == "text_to_image" else "captions"
    bank = task.bank.split
    if precision == INT8 and (bank is None or not len(getattr(bank, side))):
        raise InputError(f"--precision int8 takes ranges from other vectors; give --bank-{side}")
    digests = {str(path): sha256(path) for path in sources.files}
    return _export(task, criterion, params, to, direction, out, digests, depth, precision, bank)


def _checked(to: str, direction: str, params: EvaluateParams, precision: str) -> str:
    """The key of ``TARGETS``. Raises UsageError for wrong options before any work."""
    if direction not in DIRECTIONS:
        raise UsageError(unknown("direction", direction, DIRECTIONS))
    if params.protocol != "full":
        raise UsageError("an export has no folds; use -S evaluate.protocol=full")
    target(name := to.replace("-", "_"))
    if precision not in PRECISIONS:
        raise UsageError(unknown("precision", precision, PRECISIONS))
    if precision != EXACT and name != "npy":
        raise UsageError(f"--precision {precision} is written by --to npy, not by {to}")
    return name


def _export(
    task: Task,
    criterion: Criterion,
    params: EvaluateParams,
    to: str,
    direction: str,
    out: Path,
    sources: dict[str, str],
    depth: int,
    precision: str,
    ranges: Split | None,
    dataset: Dataset | None = None,
) -> dict:
    require_free(out, MANIFEST, "an export")
    if criterion.open_parameters(params.tune):
        trials = task.validation_trials()[direction]
        criterion = criteria.choose_parameters(criterion, trials, params.tune).criterion
    codes = None if precision == EXACT else _codes(task.split, precision, ranges, direction)
    ranked = task.split if codes is None else codes.of_items(task.split, direction)
    bias = _bias(replace(task, split=ranked), criterion, direction, params)
    warn_of_residual(criterion, direction, bias.notes)
    content = replace(_folded(task.split, bias, direction, task.names), depth=depth, dataset=dataset)
    manifest = _manifest(task, criterion, bias, content, to)
    if codes is not None:
        manifest["query"] = f"{_scaled(task, content.queries)}multiply by step"
        content, about = _packed(content, codes)
        manifest |= about
    manifest["sources"] = sources
    with locks.claim(out), whole_folder(out, _FILES) as folder:
        target(to)(folder, content)
        if task.names is not None:
            names.write(folder, task.names)
        write_json(folder / MANIFEST, manifest)
    return manifest


def _bias(task: Task, criterion: Criterion, direction: str, params: EvaluateParams) -> ItemBias:
    split = task.split
    scores = split.scores(task.similarity, params.memory)
    if direction == "text_to_image":
        scores = scores.transposed()
    if criterion.needs_bank and task.bank.split is not None and not task.bank.has_queries(direction):
        side = "images" if direction == "image_to_text" else "captions"
        raise UsageError(f"the bank has no queries for {direction}; give --bank-{side}")
    bias = criterion.item_bias(task.bank.bank(split, scores, direction, task.similarity, params.memory))
    assert bias is not None
    return bias


def _folded(split: Split, bias: ItemBias, direction: str, names: TextIds | None) -> Folded:
    images, captions = ("image_id", split.image_ids), ("caption_id", split.caption_ids)
    assert plain(split.images)
    assert plain(split.captions)
    if direction == "image_to_text":
        ids, vectors = (images, captions), folded(split.images, split.captions, bias)
    else:
        ids, vectors = (captions, images), folded(split.captions, split.images, bias)
    sides = [
        FoldedSide(*key, np.asarray(side.cpu()), None if names is None else names.texts(*key))
        for key, side in zip(ids, vectors, strict=True)
    ]
    return Folded(direction, items=sides[1], queries=sides[0], correct=_correct(split, direction))


def _codes(ranked: Split, precision: str, ranges: Split | None, direction: str) -> Codes:
    """ranges: vectors with the ranges of int8; binary takes the items themselves."""
    source = ranges if precision == INT8 and ranges is not None else ranked
    items = source.images if direction == "text_to_image" else source.captions
    assert plain(items)
    return Codes.fit(precision, items)


def _packed(content: Folded, codes: Codes) -> tuple[Folded, dict]:
    """Items as ``Codes.packed`` with their corrections beside them, queries times ``Codes.step``, and what manifest.json
    says of them."""
    items, queries, step = content.items, content.queries, codes.step.cpu().numpy()
    vectors = torch.from_numpy(items.vectors[:, :-1]).to(codes.step.device)
    packed = replace(items, vectors=codes.packed(vectors), correction=items.vectors[:, -1].copy())
    about = {"precision": codes.precision, "step": step.tolist(), "low": codes.low.tolist(), "dimensions": len(step)}
    about |= {"bytes": item_bytes(codes.precision, len(step)) + BIAS_BYTES}
    about["search"] = "inner product of a query with an item's codes, plus the item's correction"
    return replace(content, items=packed, queries=replace(queries, vectors=queries.vectors[:, :-1] * step)), about


def _correct(split: Split, direction: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Parallel ids of queries and their correct items; None if no caption names its image."""
    paired = np.isin(split.caption_images, split.image_ids)
    pairs = split.caption_ids[paired], split.caption_images[paired]
    if not paired.any():
        return None
    return pairs if direction == "text_to_image" else (pairs[1], pairs[0])


def _manifest(task: Task, criterion: Criterion, bias: ItemBias, content: Folded, to: str) -> dict:
    parameters = criterion.rescoring.params.model_dump()
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
        "query": f"{_scaled(task, content.queries)}append 1, and do not scale it again",
        "scale": bias.scale,
        "dimensions": content.items.vectors.shape[1],
        "items": len(content.items.ids),
        "queries": len(content.queries.ids),
    }


def _scaled(task: Task, queries: FoldedSide) -> str:
    """What a new query needs first: some runs compare by cosine and do not scale images."""
    lengths = np.linalg.norm(queries.vectors[:, :-1], axis=1)
    return "scale to length 1, " if task.about["similarity"] == "cosine" and np.allclose(lengths, 1, atol=1e-3) else ""
