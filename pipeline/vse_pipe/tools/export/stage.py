"""export: vectors of one direction with a criterion's correction, for systems that search by inner product."""

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np

from vse_pipe.artifacts import embeddings, names
from vse_pipe.artifacts.evaluation import DIRECTIONS
from vse_pipe.artifacts.names import TextIds
from vse_pipe.core import locks, mapped
from vse_pipe.core.devices import resolve_device
from vse_pipe.core.errors import UsageError, unknown
from vse_pipe.core.files import sha256, whole_folder, write_json
from vse_pipe.core.strict import Strict
from vse_pipe.evaluate import ensemble
from vse_pipe.evaluate import files as external
from vse_pipe.evaluate.ensemble import Ensemble
from vse_pipe.evaluate.files import InputFiles, require_parameters
from vse_pipe.evaluate.measure import Inputs, open_parameters, tuning_ground
from vse_pipe.evaluate.readers import require_room
from vse_pipe.evaluate.stage import read_inputs, warn_of_residual
from vse_pipe.project import paths
from vse_pipe.project.params.schema import EvaluateParams
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import INFERENCES
from vse_pipe.ranking import criteria
from vse_pipe.ranking.bank import ItemBias, Split
from vse_pipe.ranking.criteria import Criterion
from vse_pipe.ranking.fragments import plain
from vse_pipe.tools.export import formats
from vse_pipe.tools.export.fold import DEPTH, Folded, FoldedSide, folded

MANIFEST = "manifest.json"
# Files of all formats: an export can replace an export in another format.
_FILES = (
    MANIFEST,
    "items.*",
    "queries.*",
    "*_ids.npy",
    names.NAME,
    "run.txt",
    "qrels.txt",
    "img_emb/*",
    "text_emb/*",
    "metadata/*",
)
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
) -> dict:
    """Write ``out`` from data/embed/<run>/ and return the manifest.

    to: a key of ``formats.TARGETS``, with ``-`` or ``_``; depth: as in ``Folded``. Raises UsageError for an unknown name, a criterion
    that is not one number for each item and a similarity that is no inner product; MissingResource if a package is not installed;
    InputError for unusable embeddings, IntegrityError for embeddings of another model.
    """
    criterion = _foldable(inference, params.inference)
    folder = paths.embedded(run)
    to, resolved = _checked(to, direction, params.evaluate), resolve_device(device)
    embedded = ensemble.embedded(params, run, resolved)
    if isinstance(embedded, Ensemble):
        raise UsageError(f"run '{run}' is the mean of two networks; export works for runs of one")
    similarity = embedded.compared_by
    if similarity not in _INNER_PRODUCTS:
        raise UsageError(
            f"run '{run}' compares by {similarity}, which is no inner product; export works for: "
            f"{', '.join(_INNER_PRODUCTS)}"
        )
    lender, home = ensemble.lender(params, run, embedded, params.evaluate.bank, resolved), None
    if open_parameters(criterion, params.evaluate):
        home = ensemble.at_home(params, run, resolved)
    inputs = read_inputs(embedded, run, params.evaluate, resolved, lender, home)
    sources = _digests([folder / embeddings.IMAGES, folder / embeddings.CAPTIONS])
    return _export(inputs, criterion, params.evaluate, to, direction, out, sources, depth)


def export_files(
    files: InputFiles,
    inference: str,
    params: EvaluateParams,
    options: dict[str, Strict],
    to: str,
    direction: str,
    out: Path,
    device: str = "auto",
    depth: int = DEPTH,
) -> dict:
    """As ``export_run`` for vectors in files. The files need not pair captions with images."""
    criterion = _foldable(inference, options)
    to, resolved = _checked(to, direction, params), resolve_device(device)
    with ExitStack() as reading:
        for path in files.existing():
            reading.enter_context(mapped.throughout(path))
        inputs = external.read_files(files, params, resolved, paired=False)
        sources = _digests(files.existing())
    require_parameters(inputs, [criterion], params)
    return _export(inputs, criterion, params, to, direction, out, sources, depth)


def _digests(paths: list[Path]) -> dict[str, str]:
    return {str(path): sha256(path) for path in paths}


def _foldable(inference: str, options: dict[str, Strict]) -> Criterion:
    criterion = criteria.parse(inference, options)
    if criterion.matching or not criterion.rescoring.traits.item_bias:
        able = [name for name in INFERENCES.names() if INFERENCES.traits(name).item_bias]
        raise UsageError(
            f"{inference} is more than one number an item and cannot be exported; these can: {', '.join(able)}"
        )
    return criterion


def _checked(to: str, direction: str, params: EvaluateParams) -> str:
    """The key of ``formats.TARGETS``. Raises UsageError for wrong options before any work."""
    if direction not in DIRECTIONS:
        raise UsageError(unknown("direction", direction, DIRECTIONS))
    if params.protocol != "full":
        raise UsageError("an export has no folds; use -S evaluate.protocol=full")
    formats.target(name := to.replace("-", "_"))
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
) -> dict:
    require_room(out)
    if out.exists() and not (out / MANIFEST).is_file() and any(out.iterdir()):
        raise UsageError(f"--out: {out} exists and is not an export; choose another folder")
    if open_parameters(criterion, params):
        trials = tuning_ground(inputs, params)[direction]
        criterion = criteria.choose_parameters(criterion, trials, params.tune).criterion
    bias = _bias(inputs, criterion, direction, params)
    warn_of_residual(criterion, direction, bias.notes)
    content = replace(_folded(inputs.ranked, bias, direction, inputs.names), depth=depth)
    manifest = _manifest(inputs, criterion, bias, content, to)
    manifest["sources"] = sources
    with locks.claim(out), whole_folder(out, _FILES) as folder:
        formats.target(to)(folder, content)
        if inputs.names is not None:
            names.write(folder, inputs.names)
        write_json(folder / MANIFEST, manifest)
    return manifest


def _bias(inputs: Inputs, criterion: Criterion, direction: str, params: EvaluateParams) -> ItemBias:
    split = inputs.ranked
    scores = split.scores(inputs.similarity, params.memory)
    if direction == "text_to_image":
        scores = scores.transposed()
    if not inputs.bank.is_transductive and criterion.needs_bank:
        side = "images" if direction == "image_to_text" else "captions"
        if not len(getattr(inputs.bank.split, side)):
            raise UsageError(f"the bank has no queries for {direction}; give --bank-{side}")
    bank = inputs.bank.bank(split, scores, direction, inputs.similarity, params.memory)
    bias = criterion.item_bias(bank)
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
        "transductive": criterion.needs_bank and inputs.bank.is_transductive,
        "direction": content.direction,
        "to": to,
        "search": "inner product, vectors not normalised",
        "scale": bias.scale,
        "dimensions": content.items.vectors.shape[1],
        "items": len(content.items.ids),
        "queries": len(content.queries.ids),
    }
