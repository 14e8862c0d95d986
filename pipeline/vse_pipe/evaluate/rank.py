"""rank: vectors of any program in, metrics out, without a project."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from vse_pipe.artifacts import evaluation
from vse_pipe.core import console, locks, memory
from vse_pipe.core.devices import resolve_device
from vse_pipe.core.errors import InputError, PipelineError, UsageError
from vse_pipe.core.files import require_free, whole_folder
from vse_pipe.core.strict import Strict
from vse_pipe.evaluate.measure import results
from vse_pipe.evaluate.stage import warn_of_residuals
from vse_pipe.evaluate.task import Task, Untuned
from vse_pipe.project.params.schema import EvaluateParams
from vse_pipe.ranking import criteria, rows
from vse_pipe.ranking.fragments import plain
from vse_pipe.ranking.recall import Relevance
from vse_pipe.ranking.split import OWN, BankSource, cosine
from vse_pipe.ranking.vectors import NO_IMAGE, WHOLE, Vectors

DEFAULT_CRITERIA = ("nns", "is", "csls")


class VectorSets(NamedTuple):
    """The vectors to rank, those of a bank, and those that choose parameters."""

    ranked: Vectors
    bank: Vectors | None = None
    val: Vectors | None = None

    @property
    def files(self) -> list[Path]:
        return [path for vectors in self if vectors is not None for path in vectors.files]


def read(
    params: EvaluateParams,
    similarity: str,
    images: Path,
    captions: Path,
    bank: tuple[Path | None, Path | None] = (None, None),
    val: tuple[Path | None, Path | None] = (None, None),
    **ids: Any,
) -> VectorSets:
    """The vectors in files. bank, val: files of images and of captions; ids: files of ids, as of
    ``Vectors.of_files``. Raises UsageError for options that do not go together."""
    if params.bank != OWN or params.split != "test":
        raise UsageError(
            "evaluate.bank and evaluate.split name parts of a run; with --images give --bank-images and --bank-captions"
        )
    if (val[0] is None) != (val[1] is None):
        raise UsageError("--val-images and --val-captions go together")
    # Two copies: the file's content and its array, then this array and its vectors of length one.
    with memory.limit(params.memory // 2, "half of evaluate.memory"):
        ranked = Vectors.of_files(images, captions, similarity, **ids)
        further = (Vectors.of_files(*files, similarity) if any(files) else None for files in (bank, val))
        return VectorSets(ranked, *further)


def task_of_vectors(
    sources: VectorSets,
    options: EvaluateParams,
    device: torch.device,
    relevance: Relevance | None = None,
    paired: bool = True,
) -> Task:
    """relevance: correct pairs, in place of the images of the captions; paired: each caption needs
    an image, False when nothing is measured.

    Raises InputError as ``Vectors.split``, for a bank or validation data that hold ranked vectors,
    and where each image stands there once for each of its captions."""
    vectors, bank_vectors, val = sources
    for further in filter(None, (bank_vectors, val)):
        vectors.must_match(further)
    is_paired = paired and relevance is None
    split = vectors.split(WHOLE, device, is_paired)
    if relevance is not None:
        owners = split.caption_images
        if (owners == NO_IMAGE).all():
            owners = relevance.first_images(split.caption_ids, NO_IMAGE)
        split = replace(split, relevance=relevance, caption_images=owners)
    assert plain(split.images)
    if is_paired:
        rows.require_distinct(vectors.where[0], split.images, split.caption_images)
    bank, validation_bank, names = BankSource(OWN), BankSource("val"), vectors.names
    if bank_vectors is not None:
        where = ", ".join(filter(None, bank_vectors.where))
        bank = validation_bank = BankSource(
            where if bank_vectors.files else "given", bank_vectors.split(WHOLE, device, paired=False)
        )
    validation = None if val is None else val.split(WHOLE, device)
    rows.require_others(split, bank.split, "bank")
    rows.require_others(split, validation, "validation data")
    about: dict[str, object] = {"similarity": vectors.compared_by}
    if vectors.files:
        about |= dict(zip(("images", "captions"), vectors.where, strict=True))
    lacking = "nothing chooses parameters without --val-images and --val-captions"
    return Task(split, bank, validation, validation_bank, cosine, about, options, names=names, lacking=lacking)


def rank_vectors(
    sources: VectorSets,
    inferences: Sequence[str],
    params: EvaluateParams,
    options: dict[str, Strict],
    device: str = "auto",
    out: Path | None = None,
    seed: int = 1,
    qrels: str | None = None,
) -> dict[str, dict]:
    """The metrics by criterion; ``out`` receives the folders <inference>/ that ``vse-pipe
    evaluate`` writes for a run.

    options: parameters of criteria by name, defaults for the rest; seed: for the bootstrap; qrels:
    as in ``judgements.read_qrels``. Raises UsageError for unknown names and options that do not go together,
    InputError and IntegrityError for vectors and judgements that cannot be used."""
    chosen = [criteria.parse(name, options) for name in inferences]
    if params.protocol != "full" and qrels:
        raise UsageError(
            f"evaluate.protocol {params.protocol} cuts captions by their image and --qrels has many to one; use protocol full"
        )
    out, folders = out and out.resolve(), {}
    if out:
        folders = {each.name: require_free(out / each.name, "an evaluation", evaluation.OCCURRENCE) for each in chosen}
    relevance = None if qrels is None else _relevance(qrels, sources.ranked)
    task = task_of_vectors(sources, params, resolve_device(device), relevance)
    about = task.about if qrels is None else {**task.about, "qrels": qrels}
    task = replace(task, seed=seed, about=about).judged()
    task, chosen = task.tuned(chosen)
    metrics: dict[str, dict] = {}
    reasons: dict[str, PipelineError] = {}
    with locks.claim(out) if out else nullcontext():
        for name, result in results(task, chosen):
            if isinstance(result, PipelineError):
                reasons[name] = result
                continue
            metrics[name] = {**result.metrics, "split": WHOLE}
            warn_of_residuals(result.criterion, result.metrics["notes"])
            if folders:
                with whole_folder(folders[name]) as folder:
                    evaluation.write(folder, metrics[name], result.tables, task.names)
    if not metrics:
        wrong = [reason for reason in reasons.values() if not isinstance(reason, Untuned)]
        raise wrong[0] if wrong else UsageError(*(f"{name}: {reason}" for name, reason in reasons.items()))
    for name, reason in reasons.items():
        console.warn(f"{name} is left out: {reason}")
    return metrics


def _relevance(qrels: str, ranked: Vectors) -> Relevance:
    """The correct pairs. Warns of judged items that are not ranked."""
    from vse_pipe.evaluate.judgements import read_qrels  # pandas takes half a second to import

    assert ranked.book is not None
    relevance = read_qrels(qrels, ranked.book)
    sides = {"image_to_text": ("image_id", ranked.images), "text_to_image": ("caption_id", ranked.captions)}
    for direction, (key, side) in sides.items():
        judged = np.unique(relevance.pairs[direction][0])
        if len(absent := np.setdiff1d(judged, side.ids)):
            if len(absent) == len(judged):
                raise InputError(f"--qrels {qrels}: none of its {key}s is in the files; TREC lines name captions first")
            console.warn(
                f"--qrels {qrels}: {len(absent)} {key}s are not in the files, the first is "
                f"{ranked.book.label(key, absent[:1])}; their pairs are left out"
            )
    return relevance
