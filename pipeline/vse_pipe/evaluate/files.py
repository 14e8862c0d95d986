"""Evaluate files of vectors without a project: files in, metrics out."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import get_args

import numpy as np
import torch

from vse_pipe.artifacts import evaluation
from vse_pipe.artifacts.names import KEYS
from vse_pipe.core import console, locks, memory
from vse_pipe.core.devices import resolve_device
from vse_pipe.core.errors import InputError, PipelineError, UsageError, unknown
from vse_pipe.core.strict import Strict
from vse_pipe.evaluate import readers
from vse_pipe.evaluate.measure import Inputs, is_calibrated, open_parameters, results
from vse_pipe.evaluate.readers import Book, require_room
from vse_pipe.evaluate.stage import warn_of_collapse, warn_of_residual, write
from vse_pipe.evaluate.vectors import Vectors, must_fit, must_pair, read_captions, read_images, without_dropped
from vse_pipe.project.params.schema import EvaluateParams, Rule
from vse_pipe.ranking import criteria
from vse_pipe.ranking.fragments import Fused, MeanScore, Several
from vse_pipe.ranking.recall import Relevance
from vse_pipe.ranking.split import OWN, BankSource, Split, cosine, repetition, rows_as_bytes


@dataclass(frozen=True)
class MoreFiles:
    """images, captions: the files of each further model, in one order. fusion: as for an ensemble. weights: of every
    model, the first one included; only their proportions count; empty for equal weights."""

    images: Sequence[Path] = ()
    captions: Sequence[Path] = ()
    fusion: str = "mean"
    weights: Sequence[float] = ()

    def check(self) -> None:
        """Raises UsageError for options that do not go together."""
        if self.fusion not in get_args(Rule):
            raise UsageError(f"--fusion: {unknown('fusion', self.fusion, list(get_args(Rule)))}")
        if len(self.images) != len(self.captions):
            raise UsageError(
                f"--more-images {len(self.images)} times and --more-captions {len(self.captions)} times: give both for each model"
            )
        if not self.images and (self.weights or self.fusion != "mean"):
            raise UsageError("--fusion and --weights are for several models: give --more-images and --more-captions")
        models = 1 + len(self.images)
        if self.weights and (
            len(self.weights) != models
            or not all(0 <= weight < inf for weight in self.weights)
            or not any(self.weights)
        ):
            raise UsageError(f"--weights: {models} models need {models} numbers from 0 up, not all of them 0")


def fused(
    inputs: Inputs,
    more: MoreFiles,
    firsts: tuple[Vectors, Vectors],
    ids: Sequence[Path | None],
    similarity: str,
    nan: str,
) -> Inputs:
    """``inputs`` of the first model, fused with the further models. firsts: the images and captions of the first. ids:
    the id files of .npy images and captions, for all models. Raises InputError when a model has other ids than the
    first, captions of other images, or images and captions of different models."""
    device = inputs.ranked.images.device
    readers: list[tuple[Callable[..., Vectors], Sequence[Path]]] = [
        (read_images, more.images),
        (read_captions, more.captions),
    ]
    sides = []
    for (read, paths), first, file in zip(readers, firsts, ids, strict=True):
        models = [first]
        for path in paths:
            further = read(path, similarity, file if path.suffix == ".npy" else None, nan=nan, book=first.book)
            places = _places(first, further)
            _must_agree(first, further, places)
            models.append(replace(further, vectors=further.vectors[places]))
        sides.append(models)
    for image_side, caption_side in zip(*sides, strict=True):
        must_fit(image_side, caption_side)
    shares = tuple(weight / sum(more.weights) for weight in more.weights) or None
    images, captions = (
        Several(tuple(torch.from_numpy(model.vectors).to(device) for model in models), shares) for models in sides
    )
    similarities = [cosine] * len(images.parts)
    details = {
        "fusion": more.fusion,
        "weights": list(shares or [1 / len(similarities)] * len(similarities)),
        "more_images": [str(path) for path in more.images],
        "more_captions": [str(path) for path in more.captions],
    }
    return replace(
        inputs,
        ranked=replace(inputs.ranked, images=images, captions=captions),
        similarity=MeanScore(similarities) if more.fusion == "mean" else Fused(similarities, more.fusion),
        about={**inputs.about, **details},
    )


def _places(first: Vectors, further: Vectors) -> np.ndarray:
    """The rows of ``further`` in the order of the first model. Raises InputError for different ids."""
    absent = np.setxor1d(first.ids, further.ids)
    if len(absent):
        raise InputError(
            f"{further.where}: other {first.key}s than {first.where}, {len(absent)} are in one of them only, the first is "
            f"{first.book.first(first.key, absent[:1])}; every model needs the same"
        )
    order = np.argsort(further.ids)
    return order[np.searchsorted(further.ids, first.ids, sorter=order)]


def _must_agree(first: Vectors, further: Vectors, places: np.ndarray) -> None:
    """Raises InputError when both files have the images of the captions and these differ."""
    if first.image_ids is None or further.image_ids is None:
        return
    wrong = np.flatnonzero(further.image_ids[places] != first.image_ids)
    if len(wrong):
        raise InputError(
            f"{further.where}: {len(wrong)} captions belong to other images than in {first.where}, the first is "
            f"{first.key} {first.book.first(first.key, first.ids[wrong[:1]])}; every model needs the same"
        )


SIMILARITIES = ("cosine", "dot")
NAN = ("refuse", "drop")
# The image of a caption when no file has it.
UNKNOWN = -1


@dataclass(frozen=True)
class InputFiles:
    """images, captions, bank and val files: Parquet or .npy. image_ids, caption_ids, caption_images: for .npy.
    similarity: cosine (vectors of length 1) or dot (vectors as they are). qrels: as in ``read_qrels``. nan: refuse rows
    with NaN or infinite values, or drop them and their pairs. more: the files of further models."""

    images: Path
    captions: Path
    image_ids: Path | None = None
    caption_ids: Path | None = None
    caption_images: Path | None = None
    bank_images: Path | None = None
    bank_captions: Path | None = None
    val_images: Path | None = None
    val_captions: Path | None = None
    similarity: str = "cosine"
    qrels: str | None = None
    nan: str = "refuse"
    more: MoreFiles = field(default_factory=MoreFiles)

    def existing(self) -> list[Path]:
        """Every input file."""
        named = [value for value in vars(self).values() if isinstance(value, Path)]
        named += [*self.more.images, *self.more.captions]
        return named + ([Path(self.qrels)] if self.qrels and Path(self.qrels).is_file() else [])


def read_files(files: InputFiles, params: EvaluateParams, device: torch.device, paired: bool = True) -> Inputs:
    """The inputs of ``measure``. paired: every caption needs an image or judgements; False when nothing is measured.

    Raises UsageError for options that do not go together, InputError for unfit or too large files."""
    _check(files, params)
    # Two copies: the file's content and its array, then this array and its vectors of length one.
    with memory.limit(params.memory, "evaluate.memory", copies=2):
        return _read(files, params, device, paired)


def _read(files: InputFiles, params: EvaluateParams, device: torch.device, paired: bool) -> Inputs:
    book = Book()
    images, captions = without_dropped(
        read_images(files.images, files.similarity, files.image_ids, files.nan, book),
        read_captions(files.captions, files.similarity, files.caption_ids, files.caption_images, files.nan, book),
    )
    must_fit(images, captions)
    ranked = _split(images, captions, device, _relevance(files, images, captions) if paired else None)
    owners = ranked.caption_images if paired and files.qrels is None else None
    if message := repetition(str(files.images), ranked.images, owners):  # type: ignore[arg-type]
        console.warn(message)
    bank = _bank(files, images, device).checked_against(ranked, "--bank-images, --bank-captions", book.names())
    if message := renumbered(bank, ranked):
        console.warn(message)
    tuning = _validation(files, images, device)
    about: dict[str, object] = {
        "images": str(files.images),
        "captions": str(files.captions),
        "similarity": files.similarity,
    }
    about |= {"qrels": files.qrels} if files.qrels else {}
    chosen_by = BankSource("val") if bank.split is None else bank
    inputs = Inputs(ranked, bank, tuning, chosen_by, cosine, about, names=book.names())
    if not files.more.images:
        return inputs
    ids = (files.image_ids, files.caption_ids)
    return fused(inputs, files.more, (images, captions), ids, files.similarity, files.nan)


def _check(files: InputFiles, params: EvaluateParams) -> None:
    if files.similarity not in SIMILARITIES:
        raise UsageError(f"unknown similarity '{files.similarity}'; known: {', '.join(SIMILARITIES)}")
    if files.nan not in NAN:
        raise UsageError(f"--nan {files.nan}: expected {' or '.join(NAN)}")
    files.more.check()
    extra = (files.bank_images, files.bank_captions, files.val_images, files.val_captions)
    if files.more.images and any(path is not None for path in extra):
        raise UsageError("--more-images take no bank and no validation data: these would be needed of every model")
    if params.bank != OWN or params.split != "test":
        raise UsageError(
            "evaluate.bank and evaluate.split name parts of a run; with --images give --bank-images and --bank-captions"
        )
    if (files.val_images is None) != (files.val_captions is None):
        raise UsageError("--val-images and --val-captions go together")
    if params.protocol != "full" and files.qrels:
        raise UsageError(
            f"evaluate.protocol {params.protocol} cuts captions by their image and --qrels has many to one; use protocol full"
        )


def _relevance(files: InputFiles, images: Vectors, captions: Vectors) -> Relevance | None:
    """The correct items; None when the captions' images define them."""
    if files.qrels is not None:
        relevance = readers.read_qrels(files.qrels, images.book, (captions.ids, images.ids))
        _warn_of_missing(relevance, images, captions, files.qrels)
        return relevance
    if captions.image_ids is None:
        raise InputError(
            f"{captions.where}: nothing says which caption belongs to which image; give --caption-images or --qrels"
        )
    must_pair(images, captions)
    return None


def _split(images: Vectors, captions: Vectors, device: torch.device, relevance: Relevance | None = None) -> Split:
    owners = captions.image_ids
    if owners is None:
        owners = np.full(len(captions.ids), UNKNOWN) if relevance is None else first_images(captions.ids, relevance)
    image_vectors, caption_vectors = (torch.from_numpy(side.vectors).to(device) for side in (images, captions))
    return Split(images.ids, captions.ids, owners, image_vectors, caption_vectors, relevance)


def first_images(captions: np.ndarray, relevance: Relevance) -> np.ndarray:
    """The first correct image of each caption: captions of one image are not independent in the bootstrap."""
    judged, images = relevance.pairs["text_to_image"]
    named, first = np.unique(judged, return_index=True)
    place = np.searchsorted(named, captions).clip(max=len(named) - 1)
    return np.where(named[place] == captions, images[first[place]], UNKNOWN)


def _bank(files: InputFiles, images: Vectors, device: torch.device) -> BankSource:
    files_of_bank = [path for path in (files.bank_images, files.bank_captions) if path is not None]
    if not files_of_bank:
        return BankSource(OWN)
    similarity, nan = files.similarity, files.nan
    # Rows of an .npy bank have no ids, so that they have no book.
    books = [
        images.book if path is not None and path.suffix == ".parquet" else None
        for path in (files.bank_images, files.bank_captions)
    ]
    bank_images = (
        None if files.bank_images is None else read_images(files.bank_images, similarity, nan=nan, book=books[0])
    )
    bank_captions = (
        None if files.bank_captions is None else read_captions(files.bank_captions, similarity, nan=nan, book=books[1])
    )
    for side in (bank_images, bank_captions):
        if side is not None:
            must_fit(images, side)
    missing = Vectors("", "", np.empty(0, np.int64), None, np.empty((0, images.dim), np.float32))
    split = _split(bank_images or missing, bank_captions or missing, device)
    return BankSource(", ".join(map(str, files_of_bank)), split)


def renumbered(bank: BankSource, ranked: Split) -> str | None:
    """A message when most ranked vectors are in the bank under other ids; else None. A few may be, such as captions of
    equal words."""
    if bank.split is None:
        return None
    for name in ("images", "captions"):
        bank_rows, ranked_rows = (rows_as_bytes(getattr(split, name)) for split in (bank.split, ranked))
        shared = int(np.isin(ranked_rows, bank_rows).sum())
        if shared > len(ranked_rows) / 2:
            return f"{shared} of the {len(ranked_rows)} {name} that are ranked are in the bank too, under other ids: this is no bank of its own"
    return None


def _validation(files: InputFiles, images: Vectors, device: torch.device) -> Split | None:
    if files.val_images is None or files.val_captions is None:
        return None
    val_images, val_captions = without_dropped(
        read_images(files.val_images, files.similarity, nan=files.nan, book=images.book),
        read_captions(files.val_captions, files.similarity, nan=files.nan, book=images.book),
    )
    for side in (val_images, val_captions):
        must_fit(images, side)
    if val_captions.image_ids is None:
        raise InputError(f"{val_captions.where}: validation captions need column image_id; give them as Parquet")
    must_pair(val_images, val_captions)
    return _split(val_images, val_captions, device)


def _warn_of_missing(relevance: Relevance, images: Vectors, captions: Vectors, source: str) -> None:
    """Warn of judged items that are not in the gallery, because they make every figure look too good."""
    pairs = (relevance.pairs["image_to_text"], relevance.pairs["text_to_image"][::-1])
    named = [np.unique(np.concatenate(ids)) for ids in zip(*pairs, strict=True)]
    for side, ids in zip((images, captions), named, strict=True):
        absent = ids[~np.isin(ids, side.ids)]
        if len(absent):
            console.warn(
                f"--qrels {source}: {len(absent)} of the {len(ids)} {side.key}s judged are not in {side.where}, "
                f"the first is {side.book.first(side.key, absent[:1])}; their pairs are left out"
            )


DEFAULT_CRITERIA = ("nns", "is", "csls")


def evaluate_files(
    files: InputFiles,
    inferences: Sequence[str],
    params: EvaluateParams,
    options: dict[str, Strict],
    device: str = "auto",
    out: Path | None = None,
    seed: int = 1,
) -> dict[str, dict]:
    """The metrics by criterion; ``out`` receives the folders <inference>/ that ``vse-pipe evaluate`` writes for a run.

    options: parameters of criteria by name, defaults for the rest. seed: for the bootstrap. Raises UsageError for
    unknown names and options that do not go together, InputError and IntegrityError for files that cannot be used."""
    chosen, target = [criteria.parse(name, options) for name in inferences], resolve_device(device, needs_float64=True)
    if (files.bank_images is None) != (files.bank_captions is None):
        raise UsageError(
            "--bank-images and --bank-captions go together: images correct the captions and captions the images"
        )
    out = out.resolve() if out else None
    if out:
        require_room(out)
    folders = {criterion.name: _free(out / criterion.name) for criterion in chosen} if out else {}
    loaded = replace(read_files(files, params, target), seed=seed)
    if params.judgements or params.labels or params.by or params.groups:
        # pandas takes half a second to import.
        from vse_pipe.evaluate import groups, judgements

        ids = dict(zip(KEYS, (loaded.ranked.image_ids, loaded.ranked.caption_ids), strict=True))
        sides = [judgements.Names.from_key(key, values, loaded.names) for key, values in ids.items()]
        query_groups = groups.read(params, (loaded.ranked.caption_ids, loaded.ranked.caption_images), sides[1], None)
        loaded = replace(loaded, further=judgements.read_judgements(params, *sides), groups=query_groups)
    chosen, params = tuned_by_validation(loaded, chosen, params)
    unmeasured: dict[str, str] = {}
    if loaded.tuning is None:
        unmeasured = {each.name: _NOTHING_CHOOSES for each in chosen if open_parameters(each, params)}
    if len(unmeasured) == len(chosen):
        require_parameters(loaded, chosen, params)
    chosen = [each for each in chosen if each.name not in unmeasured]
    if loaded.tuning is None and any(is_calibrated(criterion, loaded.similarity, params) for criterion in chosen):
        raise UsageError(
            "evaluate.calibrate fits a probability on validation data and there is none; give --val-images and --val-captions, or -S evaluate.calibrate=none"
        )
    warn_of_collapse(loaded.ranked, f"{files.images}, {files.captions}")
    metrics: dict[str, dict] = {}
    with locks.claim(out) if out else nullcontext():
        for name, result in results(loaded, chosen, params):
            if isinstance(result, PipelineError):
                unmeasured[name] = str(result)
                continue
            metrics[name] = {**result.metrics, "split": "files"}
            if folders:
                write(folders[name], replace(result, metrics=metrics[name]), loaded.names)
                continue
            for direction, notes in result.metrics["notes"].items():
                warn_of_residual(result.criterion, direction, notes)
    for name, reason in unmeasured.items():
        console.warn(f"{name} is left out: {reason}")
    return metrics


def tuned_by_validation(
    loaded: Inputs, chosen: Sequence[criteria.Criterion], params: EvaluateParams
) -> tuple[list[criteria.Criterion], EvaluateParams]:
    """Validation data choose every parameter that was not given, unless ``evaluate.tune`` was given."""
    if loaded.tuning is None or "tune" in params.model_fields_set:
        return list(chosen), params
    return [each.pinned() for each in chosen], params.model_copy(update={"tune": True})


_NOTHING_CHOOSES = "nothing chooses its parameters; give --val-images and --val-captions, or its values"


def require_parameters(loaded: Inputs, chosen: Sequence[criteria.Criterion], params: EvaluateParams) -> None:
    """Raises UsageError when parameters of a criterion are open and there are no validation data."""
    names = [criterion.name for criterion in chosen if open_parameters(criterion, params)]
    if names and loaded.tuning is None:
        raise UsageError(
            f"{', '.join(names)}: parameters are to be chosen and there is nothing to choose them on; give --val-images "
            "and --val-captions, or the values, such as -S inference.rgm.lam=2"
        )


def _free(folder: Path) -> Path:
    """The folder. Raises UsageError if it has contents that are no evaluation."""
    if folder.exists() and not (
        folder.is_dir() and ((folder / evaluation.METRICS).is_file() or not any(folder.iterdir()))
    ):
        raise UsageError(f"--out: {folder} exists and is not an evaluation; choose another folder")
    return folder
