"""export: the vectors of one direction with a criterion's correction folded in, for systems that search by inner product."""

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
from vse_pipe.evaluate.ensemble import Ensemble
from vse_pipe.evaluate.external import inputs as external
from vse_pipe.evaluate.external.inputs import InputFiles
from vse_pipe.evaluate.external.readers import require_room
from vse_pipe.evaluate.external.stage import require_parameters
from vse_pipe.evaluate.measure import Inputs, open_parameters, tuning_ground
from vse_pipe.evaluate.stage import read_inputs, warn_of_residual
from vse_pipe.project import paths
from vse_pipe.project.params.schema import EvaluateParams
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import INFERENCES
from vse_pipe.ranking import criteria, trial
from vse_pipe.ranking.bank import ItemBias
from vse_pipe.ranking.criteria import Criterion
from vse_pipe.ranking.fragments import plain
from vse_pipe.ranking.split import Split
from vse_pipe.tools.export import formats
from vse_pipe.tools.export.fold import DEPTH, Folded, FoldedSide, folded

MANIFEST = "manifest.json"
# Of all targets: an export may take the place of one to another.
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
# Similarities of this pipeline that are the inner product of the stored vectors.
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

    to: a key of ``formats.TARGETS``, ``-`` or ``_`` alike; depth: as of ``Folded``. Raises UsageError for a name that does not exist, a criterion that
    is more than one number an item and a similarity that is no inner product; MissingResource where a target's package
    is not installed; InputError for embeddings that cannot be used, IntegrityError for those of another model than the run's.
    """
    criterion = _foldable(inference, params.inference)
    folder = paths.embedded(run)
    to, where = _checked(to, direction, params.evaluate), resolve_device(device)
    embedded = ensemble.embedded(params, run, where)
    if isinstance(embedded, Ensemble):
        raise UsageError(f"run '{run}' is the mean of two networks; export works for runs of one")
    similarity = embedded.compared_by
    if similarity not in _INNER_PRODUCTS:
        raise UsageError(
            f"run '{run}' compares by {similarity}, which is no inner product; export works for: "
            f"{', '.join(_INNER_PRODUCTS)}"
        )
    lender, home = ensemble.lender(params, run, embedded, params.evaluate.bank, where), None
    if open_parameters(criterion, params.evaluate):
        home = ensemble.at_home(params, run, where)
    given = read_inputs(embedded, run, params.evaluate, where, lender, home)
    sources = _digests([folder / embeddings.IMAGES, folder / embeddings.CAPTIONS])
    return _export(given, criterion, params.evaluate, to, direction, out, sources, depth)


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
    """The same for files; which caption belongs to which image does not matter. Raises as ``export_run`` does."""
    criterion = _foldable(inference, options)
    to, where = _checked(to, direction, params), resolve_device(device)
    with ExitStack() as reading:
        for path in files.existing():
            reading.enter_context(mapped.throughout(path))
        given = external.read(files, params, where, paired=False)
        sources = _digests(files.existing())
    require_parameters(given, [criterion], params)
    return _export(given, criterion, params, to, direction, out, sources, depth)


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
    """``to`` as ``formats.TARGETS`` has it. All that can be wrong with the options is said before any work."""
    if direction not in DIRECTIONS:
        raise UsageError(unknown("direction", direction, DIRECTIONS))
    if params.protocol != "full":
        raise UsageError("an export has no folds; use -S evaluate.protocol=full")
    formats.target(name := to.replace("-", "_"))
    return name


def _export(
    given: Inputs,
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
        trials = tuning_ground(given, params)[direction]
        criterion = trial.tuned(criterion, trials, params.tune).criterion
    bias = _bias(given, criterion, direction, params)
    warn_of_residual(criterion, direction, bias.notes)
    content = replace(_folded(given.ranked, bias, direction, given.names), depth=depth)
    manifest = _manifest(given, criterion, bias, content, to)
    manifest["sources"] = sources
    with locks.claim(out), whole_folder(out, _FILES) as folder:
        formats.target(to)(folder, content)
        if given.names is not None:
            names.write(folder, given.names)
        write_json(folder / MANIFEST, manifest)
    return manifest


def _bias(given: Inputs, criterion: Criterion, direction: str, params: EvaluateParams) -> ItemBias:
    split = given.ranked
    scores = split.scores(given.similarity, params.memory)
    if direction == "text_to_image":
        scores = scores.transposed()
    if not given.bank.own and criterion.needs_bank:
        side = "images" if direction == "image_to_text" else "captions"
        if not len(getattr(given.bank.split, side)):
            raise UsageError(f"the bank has no queries for {direction}; give --bank-{side}")
    bank = given.bank.bank(split, scores, direction, given.similarity, params.memory)
    found = criterion.item_bias(bank)
    assert found is not None
    return found


def _folded(split: Split, bias: ItemBias, direction: str, names: TextIds | None) -> Folded:
    images, captions = ("image_id", split.image_ids), ("caption_id", split.caption_ids)
    assert plain(split.images)
    assert plain(split.captions)
    of_images = direction == "image_to_text"
    asking, asked = (split.images, split.captions) if of_images else (split.captions, split.images)
    queries, items = folded(asking, asked, bias)
    ids = (images, captions) if direction == "image_to_text" else (captions, images)
    sides = [
        FoldedSide(*of, np.asarray(vectors.cpu()), None if names is None else names.texts(*of))
        for of, vectors in zip(ids, (queries, items), strict=True)
    ]
    return Folded(direction, items=sides[1], queries=sides[0], correct=_correct(split, direction))


def _correct(split: Split, direction: str) -> tuple[np.ndarray, np.ndarray] | None:
    """None where no caption tells its image."""
    told = np.isin(split.caption_images, split.image_ids)
    pairs = split.caption_ids[told], split.caption_images[told]
    if not told.any():
        return None
    return pairs if direction == "text_to_image" else (pairs[1], pairs[0])


def _manifest(given: Inputs, criterion: Criterion, bias: ItemBias, content: Folded, to: str) -> dict:
    parameters = criterion.rescoring.params.model_dump()
    return {
        **given.about,
        "inference": criterion.name,
        "parameters": {name: value for name, value in parameters.items() if not name.endswith("grid")},
        "notes": bias.notes,
        "bank": given.bank.name if criterion.needs_bank else "none",
        "transductive": criterion.needs_bank and given.bank.own,
        "direction": content.direction,
        "to": to,
        "search": "inner product, vectors not normalised",
        "scale": bias.scale,
        "dimensions": content.items.vectors.shape[1],
        "items": len(content.items.ids),
        "queries": len(content.queries.ids),
    }
