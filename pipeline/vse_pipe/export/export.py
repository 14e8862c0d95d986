"""export: vectors of one direction with a criterion's correction, for systems that search by inner product."""

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from jaxtyping import Float, Int64, Shaped
from numpy import ndarray
from pyarrow import csv
from torch import Tensor

from vse_pipe.artifacts import captions, embeddings, images, names
from vse_pipe.artifacts.evaluation import DIRECTIONS
from vse_pipe.artifacts.names import TextIds
from vse_pipe.core import locks, tables
from vse_pipe.core.devices import resolve_device
from vse_pipe.core.errors import InputError, UsageError, missing_extra, unknown
from vse_pipe.core.files import sha256, whole_folder, write_array, write_json
from vse_pipe.core.strict import Strict
from vse_pipe.evaluate import ensemble
from vse_pipe.evaluate.compact import train_split, warn_of_cut
from vse_pipe.evaluate.ensemble import Ensemble
from vse_pipe.evaluate.measure import Inputs, require_parameters, tuned_by_validation, tuning_trials
from vse_pipe.evaluate.rank import VectorSets, inputs_of, shared, warn_of
from vse_pipe.evaluate.stage import read_inputs, require_free, warn_of_residual
from vse_pipe.evaluate.text_tables import IMAGE_QUERIES
from vse_pipe.project import paths
from vse_pipe.project.params.schema import EvaluateParams
from vse_pipe.project.params.typed import Params
from vse_pipe.ranking import criteria
from vse_pipe.ranking.bank import ItemBias
from vse_pipe.ranking.codes import BIAS_BYTES, EXACT, INT8, PRECISIONS, Codes, item_bytes
from vse_pipe.ranking.criteria import Criterion, foldable
from vse_pipe.ranking.fragments import plain
from vse_pipe.ranking.scores import strip_height, top_k
from vse_pipe.ranking.split import Split

DEPTH = 100
Dataset = tuple[pa.Table, pa.Table]


@dataclass(frozen=True)
class FoldedSide:
    """key: kind of ``ids``, image_id or caption_id; vectors: float32, the last dimension is the correction; names: text
    ids, if the data set has them; correction: float32, beside ``vectors`` that are packed codes."""

    key: str
    ids: Int64[ndarray, " rows"]
    vectors: Shaped[ndarray, "rows wide"]
    names: pa.Array | None = None
    correction: Float[ndarray, " rows"] | None = None

    @property
    def labels(self) -> pa.Array:
        """The ids of the data set, int64 or text."""
        return pa.array(self.ids) if self.names is None else self.names

    @property
    def array(self) -> ndarray:
        """The labels for a .npy file: text as fixed-width Unicode, which needs no pickle."""
        return self.ids if self.names is None else np.array(self.names.to_pylist(), dtype=str)


@dataclass(frozen=True)
class Folded:
    """Queries and items of one direction; the answers of a query are the items with the largest inner products.

    correct: parallel ids of queries and items that belong together, None if unknown; depth: number of answers of a
    query; dataset: its tables of images and captions, for ``atlas``."""

    direction: str
    items: FoldedSide
    queries: FoldedSide
    correct: tuple[Int64[ndarray, " pairs"], Int64[ndarray, " pairs"]] | None = None
    depth: int = DEPTH
    dataset: Dataset | None = None


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
    to_choose = bool(criterion.open_parameters(params.evaluate.tune))
    vectors = ensemble.run_vectors(params, run, params.evaluate, resolved, to_choose)
    embedded = vectors.ranked
    if isinstance(embedded, Ensemble):
        raise UsageError(f"run '{run}' is the mean of two networks; export works for runs of one")
    if embedded.compared_by not in _INNER_PRODUCTS:
        able = ", ".join(_INNER_PRODUCTS)
        raise UsageError(
            f"run '{run}' compares by {embedded.compared_by}, which is no inner product; export works for: {able}"
        )
    inputs = read_inputs(vectors, run, params.evaluate, resolved)
    sources = {str(path): sha256(path) for path in (folder / embeddings.IMAGES, folder / embeddings.CAPTIONS)}
    ranges = train_split(embedded, resolved) if precision == INT8 else None
    prepared = paths.prepared(params.dataset(run))
    dataset = (images.read(prepared), captions.read(prepared)) if to == atlas.__name__ else None
    return _export(inputs, criterion, params.evaluate, to, direction, out, sources, depth, precision, ranges, dataset)


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
    inputs, doubt = inputs_of(sources, resolved, paired=False)
    warn_of(doubt, shared(inputs.ranked, inputs.bank.split, "bank"))
    require_parameters(inputs, criterion, params)
    (criterion,), params = tuned_by_validation(inputs, [criterion], params)
    side = "images" if direction == "text_to_image" else "captions"
    bank = inputs.bank.split
    if precision == INT8 and (bank is None or not len(getattr(bank, side))):
        raise InputError(f"--precision int8 takes ranges from other vectors; give --bank-{side}")
    digests = {str(path): sha256(path) for path in sources.files}
    return _export(inputs, criterion, params, to, direction, out, digests, depth, precision, bank)


def _checked(to: str, direction: str, params: EvaluateParams, precision: str) -> str:
    """The key of ``TARGETS``. Raises UsageError for wrong options before any work."""
    if direction not in DIRECTIONS:
        raise UsageError(unknown("direction", direction, DIRECTIONS))
    if params.protocol != "full":
        raise UsageError("an export has no folds; use -S evaluate.protocol=full")
    target(name := to.replace("-", "_"))
    if precision not in PRECISIONS:
        raise UsageError(unknown("precision", precision, PRECISIONS))
    if precision != EXACT and name != npy.__name__:
        raise UsageError(f"--precision {precision} is written by --to npy, not by {to}")
    return name


def _export(
    inputs: Inputs,
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
        trials = tuning_trials(inputs, params)[direction]
        criterion = criteria.choose_parameters(criterion, trials, params.tune).criterion
    codes = None if precision == EXACT else _codes(inputs.ranked, precision, ranges, direction)
    ranked = inputs.ranked if codes is None else codes.of_items(inputs.ranked, direction)
    bias = _bias(replace(inputs, ranked=ranked), criterion, direction, params)
    warn_of_residual(criterion, direction, bias.notes)
    content = replace(_folded(inputs.ranked, bias, direction, inputs.names), depth=depth, dataset=dataset)
    manifest = _manifest(inputs, criterion, bias, content, to)
    if codes is not None:
        manifest["query"] = f"{_scaled(inputs, content.queries)}multiply by step"
        content, about = _packed(content, codes)
        manifest |= about
        warn_of_cut(about["cut"])
    manifest["sources"] = sources
    with locks.claim(out), whole_folder(out, _FILES) as folder:
        target(to)(folder, content)
        if inputs.names is not None:
            names.write(folder, inputs.names)
        write_json(folder / MANIFEST, manifest)
    return manifest


def _bias(inputs: Inputs, criterion: Criterion, direction: str, params: EvaluateParams) -> ItemBias:
    split = inputs.ranked
    scores = split.scores(inputs.similarity, params.memory)
    if direction == "text_to_image":
        scores = scores.transposed()
    if criterion.needs_bank and inputs.bank.split is not None and not inputs.bank.has_queries(direction):
        side = "images" if direction == "image_to_text" else "captions"
        raise UsageError(f"the bank has no queries for {direction}; give --bank-{side}")
    bias = criterion.item_bias(inputs.bank.bank(split, scores, direction, inputs.similarity, params.memory))
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
    about |= {"bytes": item_bytes(codes.precision, len(step)) + BIAS_BYTES, "cut": round(codes.cut(vectors), 6)}
    about["search"] = "inner product of a query with an item's codes, plus the item's correction"
    return replace(content, items=packed, queries=replace(queries, vectors=queries.vectors[:, :-1] * step)), about


def _correct(split: Split, direction: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Parallel ids of queries and their correct items; None if no caption names its image."""
    paired = np.isin(split.caption_images, split.image_ids)
    pairs = split.caption_ids[paired], split.caption_images[paired]
    if not paired.any():
        return None
    return pairs if direction == "text_to_image" else (pairs[1], pairs[0])


def _manifest(inputs: Inputs, criterion: Criterion, bias: ItemBias, content: Folded, to: str) -> dict:
    parameters = criterion.rescoring.params.model_dump()
    return {
        **inputs.about,
        "inference": criterion.name,
        "parameters": {name: value for name, value in parameters.items() if not name.endswith("grid")},
        "notes": bias.notes,
        "bank": inputs.bank.name if criterion.needs_bank else "none",
        "transductive": criterion.needs_bank and not inputs.bank.has_queries(content.direction),
        "direction": content.direction,
        "to": to,
        "search": "inner product",
        "query": f"{_scaled(inputs, content.queries)}append 1, and do not scale it again",
        "scale": bias.scale,
        "dimensions": content.items.vectors.shape[1],
        "items": len(content.items.ids),
        "queries": len(content.queries.ids),
    }


def _scaled(inputs: Inputs, queries: FoldedSide) -> str:
    """What a new query needs first: some runs compare by cosine and do not scale images."""
    lengths = np.linalg.norm(queries.vectors[:, :-1], axis=1)
    return (
        "scale to length 1, " if inputs.about["similarity"] == "cosine" and np.allclose(lengths, 1, atol=1e-3) else ""
    )


# Formats of an export: files of vectors, an index of faiss, and answers in TREC form.
#
# Each writes the items and queries of ``Folded``, with their ids, into an empty folder.

Write = Callable[[Path, Folded], None]
# Folders of clip-retrieval, and the column that it displays.
_FOLDERS = {"image_id": "img_emb", "caption_id": "text_emb"}
_COLUMNS = {"image_id": "image_path", "caption_id": "caption"}
_TREC = csv.WriteOptions(include_header=False, delimiter=" ", quoting_style="none")
_TAG = "vse-pipe"


def target(name: str) -> Write:
    """The function that writes the format. Raises UsageError for an unknown name, MissingResource if faiss is not
    installed."""
    if name not in TARGETS:
        raise UsageError(unknown("export target", name, sorted(TARGETS)))
    if name == "faiss":
        _faiss()
    return TARGETS[name]


def npy(folder: Path, folded: Folded) -> None:
    """items.npy and queries.npy (rows, D + 1) float32; items_ids.npy and queries_ids.npy int64, or Unicode for text
    ids. With codes items.npy is int8 (rows, D) or uint8 (rows, D / 8), items_correction.npy float32, queries.npy (rows, D).
    """
    _write_arrays(folder, "items", folded.items)
    _write_arrays(folder, "queries", folded.queries)


def parquet(folder: Path, folded: Folded) -> None:
    """items.parquet and queries.parquet with the columns id and embedding."""
    for name, side in [("items", folded.items), ("queries", folded.queries)]:
        vector = pa.list_(pa.field("element", pa.float32(), nullable=False), side.vectors.shape[1])
        columns = [
            tables.field("id", side.labels.type, side.key),
            tables.field("embedding", vector, "search by inner product; the last value is the correction"),
        ]
        schema = pa.schema(columns, metadata={"artefact": f"exported {name}", "version": "1"})
        values = pa.array(np.ascontiguousarray(side.vectors).reshape(-1))
        table = pa.table({"id": side.labels, "embedding": pa.FixedSizeListArray.from_arrays(values, type=vector)})
        tables.write(folder / f"{name}.parquet", table, schema, {})


def clip_retrieval(folder: Path, folded: Folded) -> None:
    """The folders img_emb, text_emb and metadata of ``clip-retrieval index``, with one part each.

    metadata_0.parquet has a row for each item in the order of the vectors. ``image_path`` or ``caption``, which that
    program displays, holds the id as text, and a second column holds the id itself. Queries lie in the folder of their
    kind, without metadata; queries_ids.npy holds their ids.
    """
    for side in (folded.items, folded.queries):
        name = _FOLDERS[side.key]
        (folder / name).mkdir()
        write_array(folder / name / f"{name}_0.npy", side.vectors)
    write_array(folder / "queries_ids.npy", folded.queries.array)
    key, ids = folded.items.key, folded.items.labels
    columns = [
        tables.field(_COLUMNS[key], pa.string(), "the id as text"),
        tables.field(key, ids.type, "as in the embeddings"),
    ]
    table = pa.table({_COLUMNS[key]: ids.cast(pa.string()), key: ids})
    tables.write(folder / "metadata" / "metadata_0.parquet", table, pa.schema(columns), {})


def faiss(folder: Path, folded: Folded) -> None:
    """items.faiss, an exact inner-product index that answers with ids."""
    library, items = _faiss(), folded.items
    index = library.IndexIDMap2(library.IndexFlatIP(items.vectors.shape[1]))
    index.add_with_ids(np.ascontiguousarray(items.vectors), items.ids)
    library.write_index(index, str(folder / "items.faiss"))
    _write_arrays(folder, "queries", folded.queries)


def trec(folder: Path, folded: Folded) -> None:
    """run.txt, the best items of each query in TREC form (``query Q0 item rank score tag``), and qrels.txt (``query 0
    item 1``, where queries are images with ``IMAGE_QUERIES`` for 0) if the correct items are known. trec_eval,
    ir-measures and ranx read both.

    Items with equal scores stand in their own order; programs that sort by score see ties.
    """
    _write_lines(folder / "run.txt", _answers(folded))
    if folded.correct is not None:
        queries, items = (
            _trec_ids(side, ids) for side, ids in zip((folded.queries, folded.items), folded.correct, strict=True)
        )
        mark = IMAGE_QUERIES if folded.queries.key == "image_id" else "0"
        same = pa.repeat(mark, len(queries)), items, pa.repeat(pa.scalar(1), len(queries))
        qrels = pa.table([queries, *same], ["query", "iteration", "item", "relevance"])
        _write_lines(folder / "qrels.txt", iter([qrels]))


def atlas(folder: Path, folded: Folded) -> None:
    """atlas.parquet, as embedding-atlas and FiftyOne read it: a row for each image and caption, with ``id``, ``kind``,
    ``path`` (of a caption: that of its image), ``caption`` (of an image: its first), ``split`` and ``vector``, which has
    no correction."""
    if folded.dataset is None:
        raise UsageError("--to atlas shows pictures and captions of a data set; give --run, not files")
    pictures, texts = folded.dataset
    parts = []
    for side in (folded.items, folded.queries):
        owners, ids = pa.array(side.ids), texts[side.key]
        if side.key == "caption_id":
            owners = texts["image_id"].take(pc.index_in(owners, value_set=ids))
        rows = pictures.take(pc.index_in(owners, value_set=pictures["image_id"]))
        vectors = np.ascontiguousarray(side.vectors[:, :-1])
        columns = {
            "id": side.labels.cast(pa.string()),
            "kind": pa.repeat(side.key.removesuffix("_id"), len(side.ids)),
            "path": pc.binary_join_element_wise(str(images.root(pictures).absolute()), rows["file"], "/"),
            "caption": texts["text"].take(pc.index_in(pa.array(side.ids), value_set=ids)),
            "split": rows["split"],
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), vectors.shape[1]),
        }
        parts.append(pa.table(columns))
    table = pa.concat_tables(parts)
    tables.write(folder / "atlas.parquet", table, table.schema, {})


# Functions by name. The command line accepts - instead of _.
TARGETS: dict[str, Write] = {write.__name__: write for write in (atlas, clip_retrieval, faiss, npy, parquet, trec)}


def _faiss() -> ModuleType:
    try:
        return importlib.import_module("faiss")
    except ImportError as error:
        raise missing_extra("--to faiss", "faiss-cpu", "faiss") from error


def _write_arrays(folder: Path, name: str, side: FoldedSide) -> None:
    write_array(folder / f"{name}.npy", side.vectors)
    write_array(folder / f"{name}_ids.npy", side.array)
    if side.correction is not None:
        write_array(folder / f"{name}_correction.npy", side.correction)


def _answers(folded: Folded) -> Iterator[pa.Table]:
    items, queries = (torch.from_numpy(side.vectors) for side in (folded.items, folded.queries))
    height = strip_height(len(items))
    for start in range(0, len(queries), height):
        values, columns = top_k(queries[start : start + height] @ items.T, folded.depth)
        count, best = values.shape
        table = {
            "query": _trec_ids(folded.queries, np.repeat(folded.queries.ids[start : start + count], best)),
            "iteration": pa.repeat("Q0", count * best),
            "item": _trec_ids(folded.items, folded.items.ids[columns.numpy().ravel()]),
            "rank": np.tile(np.arange(1, best + 1), count),
            "score": values.numpy().ravel(),
            "tag": pa.repeat(_TAG, count * best),
        }
        yield pa.table(table)


def _trec_ids(side: FoldedSide, ids: np.ndarray) -> pa.Array:
    """Labels of these ids. Raises InputError for a text with a space, which separates columns, or a quotation mark."""
    if side.names is None:
        return pa.array(ids)
    order = np.argsort(side.ids)
    texts = side.names.take(pa.array(order[np.searchsorted(side.ids, ids, sorter=order)]))
    if pc.any(wrong := pc.match_substring_regex(texts, r'[\p{Z}"]')).as_py():
        text = texts.filter(wrong)[0].as_py()
        raise InputError(f"--to trec: {side.key} {text!r} holds a space, at which lines are split, or a quotation mark")
    return texts


def _write_lines(path: Path, parts: Iterator[pa.Table]) -> None:
    first = next(parts)
    with csv.CSVWriter(path, first.schema, write_options=_TREC) as file:
        file.write(first)
        for table in parts:
            file.write(table)
