"""The training loop: epochs, validation, the watch over runs that stand still, and resuming."""

import contextlib
import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from vse_pipe.artifacts import model_files, pairs
from vse_pipe.core import devices, processes
from vse_pipe.core.console import say, track, warn
from vse_pipe.core.errors import DeadRun, PipelineError, out_of_memory, shortage
from vse_pipe.core.seeds import derive_seed
from vse_pipe.ranking.fragments import MeanScore, Several, Sides, Words
from vse_pipe.ranking.recall import Truth, converged, hits_at, positions, recall, waited
from vse_pipe.ranking.recall import chance as recall_by_chance
from vse_pipe.ranking.scores import Scores, Similarity
from vse_pipe.train import checkpoint
from vse_pipe.train import model as train_model
from vse_pipe.train.checkpoint import Progress
from vse_pipe.train.data import Batch, TrainTable
from vse_pipe.train.model import DualEncoder
from vse_pipe.train.optimise import ADVICE, Averages, optimizer_for, require_finite, step
from vse_pipe.train.scheme import Scheme, set_rates

KS = (1, 5, 10)


def validator(
    table: TrainTable, images: int, device: torch.device
) -> Callable[[Sequence[DualEncoder]], dict[str, float]]:
    """A function of the models that returns R@1, 5, 10 in percent and ``val_rsum`` on the first ``images`` validation images.

    Scores are the mean of the models' scores. Where texts with equal words are one text, it is ranked once, and any of its
    images is correct. The authors validate on the first 1,000 images; a smaller set is used completely.
    """
    rows = table.val_image_rows[:images]
    captions, image_truth, caption_truth = _questions(table, images)

    def encoded(model: DualEncoder) -> tuple[Tensor, Tensor | Words]:
        image_side = train_model.images(model, table.train_pairs.source(model.tests_on_pixels), rows, device)
        texts = train_model.captions(model, table.texts, captions, device)
        return (image_side.to(device), texts.to(device)) if model.fragments else (image_side, texts)

    def check(models: Sequence[DualEncoder]) -> dict[str, float]:
        sides: list[tuple[Sides, Sides]] = [encoded(model) for model in models]
        image_side, texts = sides[0]
        score: Similarity = models[0].score
        if len(models) > 1:
            image_side, texts = (Several(side) for side in zip(*sides, strict=True))
            score = MeanScore([model.score for model in models])
        with contextlib.ExitStack() as modes:
            for model in models:
                modes.enter_context(train_model.evaluating(model))
            scores = Scores.from_sides(image_side, texts, score)
            recalls = _recalls(scores, image_truth, "i2t") | _recalls(scores.transposed(), caption_truth, "t2i")
        return {**recalls, "val_rsum": round(sum(recalls.values()), 6)}

    return check


def chance(table: TrainTable, images: int) -> float:
    """Mean ``val_rsum`` of random ranks. table, images: as in ``validator``."""
    _, *truths = _questions(table, images)
    return sum(recall_by_chance(np.diff(truth.starts), truth.columns, k) for truth in truths for k in KS)


def _questions(table: TrainTable, images: int) -> tuple[np.ndarray, Truth, Truth]:
    """The captions, the correct captions of each image, and the correct images of each caption."""
    chosen = table.val_images[:images]
    is_chosen = np.isin(table.val_caption_images, chosen)
    captions, owners = table.val_captions[is_chosen], table.val_caption_images[is_chosen]
    if table.val_texts is None:
        return captions, Truth.by_image(chosen, owners), Truth.by_image(owners, chosen)
    numbers, first = np.unique(table.val_texts[is_chosen], return_index=True)
    pairs = owners, table.val_texts[is_chosen]
    return captions[first], Truth.by_pairs(chosen, numbers, *pairs), Truth.by_pairs(numbers, chosen, *reversed(pairs))


def _recalls(scores: Scores, truth: Truth, direction: str) -> dict[str, float]:
    joined = np.concatenate([positions(block, rows, truth, "pessimistic") for rows, block in scores.blocks()])
    ranks = joined[truth.starts[:-1]]
    return {f"val_{direction}_r{k}": round(recall(hits_at(ranks, k)), 6) for k in KS}


# After each epoch ``Watch`` checks whether the run stands still at chance.
#
# On a plateau, loss and validation stand still at chance while gradients stay large. Training may leave a plateau: MAX stands
# at ``2 x batch x margin`` for some epochs, with gradients of norm 0.3 and more. A dead run has no gradients: where HAL's relu
# passes none, their norm falls below 1e-6 within an epoch. Only a dead run is ended.

# Norm of all gradients below which no weight moves. Over a million weights it is a tenth of Adam's eps for each.
VANISHED = 1e-6
# A loss above this value without a gradient has not reached its minimum of 0.
UNSOLVED = 1e-3
# The loss stands still where its mean changes relatively less than this between the last two quarters of an epoch.
STILL = 1e-3
# Steps of an epoch that this test needs: two a quarter.
FEWEST = 8
# rsum counts as chance up to half above it, or a twentieth of the way to the highest rsum, whichever is less.
ABOVE, ON_THE_WAY, HIGHEST = 0.5, 0.05, 600.0


class StepResult(NamedTuple):
    """Mean loss of a step's batch, norm of all gradients before clipping, and pairs of the batch."""

    loss: float
    norm: float
    pairs: int


@dataclass
class Watch:
    """Checks every epoch of a run.

    name: of the run; loss: name of its loss; chance: validation rsum of random ranks; stuck: function of mean loss and batch
    size that explains why the loss stands still, None for a loss without one; stops: whether a dead run is ended,
    ``train.stop_when_dead``.
    """

    name: str
    loss: str
    chance: float
    stuck: Callable[[float, int], str | None] | None = None
    stops: bool = True
    warned: int = 0

    def after(self, epoch: int, steps: Sequence[StepResult], rsum: float) -> None:
        """Warn of the first epoch that stood still at chance. Raises DeadRun where no gradient is left.

        epoch: counted from 1; steps: the steps of the epoch in order; rsum: validation rsum after it.
        """
        if not steps or not self._at_chance(rsum):
            return
        pairs = max(step.pairs for step in steps)
        losses = [step.loss for step in steps if step.pairs == pairs]  # a shorter batch has another loss
        quarter = -(-len(losses) // 4)
        value = float(np.mean(losses[-quarter:]))
        reason = self.stuck(value, pairs) if self.stuck else None
        norm = max(step.norm for step in steps[-quarter:])
        place = (
            f"train {self.name}, epoch {epoch}: validation rsum {rsum:.1f} is about that of chance ({self.chance:.1f})"
        )
        if norm <= VANISHED and (reason or value > UNSOLVED):
            reason = reason or f"the loss stands at {value:.4g}; {self._advice()}"
            message = f"{place}, and no gradient is left (norm {norm:.1e}): {reason}"
            if self.stops:
                raise DeadRun(f"{message}; train.stop_when_dead: false trains on")
            self._warn(epoch, message)
        elif reason:
            self._warn(epoch, f"{place}, and {reason}")
        elif len(losses) >= FEWEST:
            before = float(np.mean(losses[-2 * quarter : -quarter]))
            if abs(value - before) < STILL * abs(before):
                self._warn(
                    epoch, f"{place}, and the loss stands still at {value:.4g}; if it stays there, {self._advice()}"
                )

    def end(self, row: Mapping[str, Any], pairs: int) -> str | None:
        """Why a run that ended at chance stood still; None for other runs. Warns too, unless ``after`` just did.

        row: last row of history.csv; pairs: batch size.
        """
        reason = self.stuck(row["loss"], pairs) if self.stuck and self._at_chance(row["val_rsum"]) else None
        if reason and self.warned != row["epoch"]:
            warn(f"train {self.name}: {reason}")
        return reason

    def _at_chance(self, rsum: float) -> bool:
        return rsum <= self.chance + min(ABOVE * self.chance, ON_THE_WAY * (HIGHEST - self.chance))

    def _warn(self, epoch: int, message: str) -> None:
        if not self.warned:
            warn(message)
            self.warned = epoch

    def _advice(self) -> str:
        return f"change train.lr or train.warm_up, the options of loss.{self.loss}, or train.precision"


Validate = Callable[[Sequence[DualEncoder]], dict[str, float]]


def fit(
    scheme: Scheme,
    sampler: Callable[[int], list[np.ndarray]],
    validate: Validate,
    out: Path,
    fingerprint: str,
    name: str,
    watch: Watch | None = None,
) -> Progress:
    """Train for ``train.epochs`` epochs, or until ``train.patience`` is over. Resumes from a checkpoint of ``fingerprint``.

    sampler: epoch, counted from 0, to the pair positions of each batch. validate: the scheme's models, or their averages, to
    validation recalls and rsum. The first epoch with the highest rsum is kept, among those from the scheme's
    ``selects_from`` on, or the last where the scheme ``keeps_last``. watch: checks each epoch before its state is saved, so a DeadRun leaves the state of the epoch
    before.
    """
    model, params = scheme.setting.model, scheme.setting.train
    optimizer = optimizer_for(model, params)
    progress = checkpoint.resume(out, model, optimizer, fingerprint)
    processes.require_same_on_all([torch.tensor([progress.epoch])], "epoch to go on after")
    averages = Averages(scheme.models, params.average)
    if progress.epoch:
        scheme.load_state(progress.scheme)
        averages.load_state(progress.average)
        _write(out, progress)
    if 0 < progress.epoch < params.epochs:
        say(f"train {name}: going on after epoch {progress.epoch} of {params.epochs}")
    for epoch in range(progress.epoch, params.epochs):
        if _patience_over(scheme, optimizer, progress):
            break
        set_rates(optimizer, params, scheme.moment(epoch))
        with _enough_memory(epoch, name):
            mean, steps = _epoch(scheme, optimizer, averages, sampler, epoch, name)
            row = {"epoch": epoch + 1, "lr": optimizer.param_groups[0]["lr"], "loss": mean}
            row |= _validated(validate, averages.models, epoch, name)
            if averages:
                row[model_files.UNAVERAGED] = _validated(validate, scheme.models, epoch, name)["val_rsum"]
        if watch is not None:
            watch.after(epoch + 1, steps, row["val_rsum"])
        progress.epoch, progress.processes = epoch + 1, max(progress.processes, processes.rank_count())
        progress.history.append(row)
        progress.scheme, progress.average, record = scheme.state(), averages.state(), scheme.record()
        progress.records += [{"epoch": epoch + 1, **record}] if record else []
        if scheme.keeps_last or (epoch >= scheme.selects_from and row["val_rsum"] > progress.best_rsum):
            progress.best_rsum, progress.best_epoch = row["val_rsum"], epoch + 1
            progress.best, *peer = map(_copied, averages.models)
            progress.best_peer = peer[0] if peer else {}
        processes.require_same_on_all(_shared_tensors(scheme, progress), "weights")
        if processes.is_first():
            checkpoint.save(out, model, optimizer, progress, fingerprint)
        _write(out, progress)
        say(f"train {name}: epoch {epoch + 1}/{params.epochs}, loss {mean:.4f}, validation rsum {row['val_rsum']:.1f}")
    return progress


def _patience_over(scheme: Scheme, optimizer: torch.optim.Optimizer, progress: Progress) -> bool:
    """Patience counts after the warm-ups of scheme and rate, when all layers train and epochs can be the best."""
    params = scheme.setting.train
    if params.patience is None:
        return False
    rates = [rate for group in optimizer.param_groups for rate in (group["rate"], group["later"]) if rate]
    since = max(scheme.decays_from, scheme.selects_from, math.ceil(params.warm_up), *(rate.after for rate in rates))
    return waited(_selectable(scheme, progress), since - scheme.selects_from) >= params.patience


def _selectable(scheme: Scheme, progress: Progress) -> list[float]:
    """rsum of the epochs that can be the best."""
    return [row["val_rsum"] for row in progress.history[scheme.selects_from :]]


def ending(scheme: Scheme, progress: Progress) -> dict:
    """The last epoch, the reason of the end (``epochs`` or ``patience``) and whether the run converged, for config.json."""
    params, last = scheme.setting.train, progress.epoch
    reason = "epochs" if last == params.epochs else "patience"
    settled = scheme.solved or converged(_selectable(scheme, progress), params.patience)
    return {"epoch": last, "by": reason, "converged": settled}


def _shared_tensors(scheme: Scheme, progress: Progress) -> Iterator[Tensor]:
    """Tensors that are equal in all processes of a training."""
    for model in scheme.models:
        yield from model.state_dict().values()
    yield from progress.scheme.values()


def _write(out: Path, progress: Progress) -> None:
    """Write history and records, also when a run resumes: it may have been killed between state and files."""
    if not processes.is_first():
        return
    model_files.write_history(out, progress.history)
    if progress.records:
        pairs.write_rematching(out, progress.records)


@contextlib.contextmanager
def _enough_memory(epoch: int, name: str) -> Iterator[None]:
    """Raises PipelineError with advice where memory runs out. epoch: number of finished epochs."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        resumes = f" (goes on after {epoch} finished epochs)" if epoch else ""
        raise PipelineError(
            f"train {name}, epoch {epoch + 1}: {shortage(error)}; free some and run the same command again{resumes}, or set "
            f"runs.{name}.train.chunk, which encodes a batch in parts, or a smaller train.batch_size (both start anew)"
        ) from error


def _copied(model: DualEncoder) -> dict[str, Tensor]:
    return {key: value.detach().cpu().clone() for key, value in model.state_dict().items()}


def _validated(validate: Validate, models: Sequence[DualEncoder], epoch: int, name: str) -> dict[str, float]:
    """Validation results. Raises PipelineError with run and epoch, for example when the last step spoiled the weights."""
    try:
        return validate(models)
    except PipelineError as error:
        finite = all(weight.isfinite().all() for model in models for weight in model.state_dict().values())
        kind, advice = (type(error), "") if finite else (PipelineError, f"; {ADVICE}")
        raise kind(f"train {name}, epoch {epoch + 1}, validation: {error}{advice}") from error


# Steps between two looks at a GPU's losses: each look waits until it has computed them.
_READ_EVERY = 64


def _read(results: list[tuple[np.ndarray, Tensor]], epoch: int, name: str) -> list[StepResult]:
    """The pairs and the result of each step as numbers."""
    read = []
    numbers = torch.stack([values for _, values in results]).tolist()
    for (rows, _), (loss, norm) in zip(results, numbers, strict=True):
        with _named(rows, epoch, name):
            require_finite(loss, norm)
        read.append(StepResult(loss, norm, len(rows)))
    return read


@contextlib.contextmanager
def _first_of(unread: list[tuple[np.ndarray, Tensor]], epoch: int, name: str) -> Iterator[None]:
    """Where a step fails, an earlier one whose loss was not finite is what to report."""
    try:
        yield
    except Exception:
        if unread:
            _read(unread, epoch, name)
        raise


@contextlib.contextmanager
def _named(rows: np.ndarray, epoch: int, name: str) -> Iterator[None]:
    """Says in a PipelineError which step it came from."""
    try:
        yield
    except PipelineError as error:
        first = ", ".join(map(str, rows[:5]))
        raise type(error)(f"train {name}, epoch {epoch + 1}, pairs {first}, ...: {error}") from error


def _ahead(batches: Iterator[Batch], device: torch.device) -> Generator[Batch, None, None]:
    """The batches on the device. For a GPU a thread gathers and sends the next one while it computes. Processes that train
    together send their rows themselves, because their exchanges must keep one order."""
    if processes.rank_count() > 1:
        yield from batches
        return
    if device.type != "cuda":
        yield from (batch.to(device) for batch in batches)
        return
    with ThreadPoolExecutor(1, thread_name_prefix="gather") as pool:
        placed = (batch.to(device) for batch in batches)
        following = pool.submit(next, placed, None)
        while (batch := following.result()) is not None:
            following = pool.submit(next, placed, None)
            yield batch


def _epoch(
    scheme: Scheme,
    optimizer: torch.optim.Optimizer,
    averages: Averages,
    sampler: Callable[[int], list[np.ndarray]],
    epoch: int,
    name: str,
) -> tuple[float, list[StepResult]]:
    """Train on the epoch's batches. Returns the mean loss of the steps, weighted by batch size (0 without any), and the
    steps."""
    setting = scheme.setting
    # Dropout draws from torch's generator; the seed of an epoch lets a resumed run draw the same numbers. Each further
    # process draws its own.
    place = [processes.rank()] if processes.rank() else []
    torch.manual_seed(derive_seed(setting.seed, "dropout", epoch, *place))
    for model in scheme.models:
        model.start(epoch)
    scheme.start(epoch)
    averages.start(epoch, anew=epoch in scheme.starts)
    batches = scheme.batches(epoch, sampler(epoch))
    for model in scheme.models:
        model.train()
    steps: list[StepResult] = []
    unread: list[tuple[np.ndarray, Tensor]] = []
    pixels_of = epoch if setting.model.trains_on_pixels else None
    rounded = devices.tf32 if setting.train.precision == "tf32" else contextlib.nullcontext
    with (
        _first_of(unread, epoch, name),
        contextlib.closing(setting.pairs.batches(batches, pixels_of)) as reading,
        contextlib.closing(_ahead(reading, setting.device)) as placed,
    ):
        for number, batch in enumerate(track(placed, len(batches), f"train {name} epoch {epoch + 1}")):
            scheme.passed = epoch + number / len(batches)
            scheme.set_rates(optimizer, epoch, number, len(batches))
            with _named(batch.pairs, epoch, name), rounded():
                unread.append((batch.pairs, step(scheme, optimizer, batch)))
            averages.follow(scheme.model)
            if len(unread) == _READ_EVERY or number + 1 == len(batches):
                steps += _read(unread, epoch, name)
                unread.clear()
    averages.end()
    total, pairs = 0.0, 0
    for result in steps:
        total += result.loss * result.pairs
        pairs += result.pairs
    return total / max(pairs, 1), steps
