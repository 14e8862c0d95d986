"""The epochs of one run: train, validate, keep the best, checkpoint."""

from collections.abc import Callable
from pathlib import Path

import torch

from pipeline.artifacts import history
from pipeline.console import say, track
from pipeline.errors import PipelineError
from pipeline.params.schema import TrainParams
from pipeline.seeds import derive
from pipeline.train import checkpoint
from pipeline.train.checkpoint import Progress
from pipeline.train.data import Pairs
from pipeline.train.model import DualEncoder
from pipeline.train.optimise import adam, decayed, step


def fit(
    model: DualEncoder,
    loss: Callable,
    pairs: Pairs,
    validate: Callable[[DualEncoder], dict[str, float]],
    params: TrainParams,
    seed: int,
    out: Path,
    fingerprint: str,
    name: str,
) -> Progress:
    """Train to ``params.epochs``, going on from ``out``'s checkpoint when it belongs to ``fingerprint``.

    validate: the model to its validation recalls and ``rsum``; the first best epoch by rsum is kept (strict >).
    """
    optimizer = adam(model, params.lr)
    progress = checkpoint.resume(out, model, optimizer, fingerprint)
    if 0 < progress.epoch < params.epochs:
        say(f"train {name}: going on after epoch {progress.epoch} of {params.epochs}")
    for epoch in range(progress.epoch, params.epochs):
        lr = decayed(params, epoch)
        for group in optimizer.param_groups:
            group["lr"] = lr
        mean = _epoch(model, optimizer, loss, pairs, params, seed, epoch, name)
        row = {"epoch": epoch + 1, "lr": lr, "loss": mean, **validate(model)}
        progress.epoch = epoch + 1
        progress.history.append(row)
        if row["val_rsum"] > progress.best_rsum:
            progress.best_rsum, progress.best_epoch = row["val_rsum"], epoch + 1
            progress.best = {key: value.detach().cpu().clone() for key, value in model.state_dict().items()}
        checkpoint.save(out, model, optimizer, progress, fingerprint)
        history.write(out, progress.history)
        say(
            f"train {name}: epoch {epoch + 1}/{params.epochs}, loss {mean:.4f}, validation rsum {row['val_rsum']:.1f}"
        )
    return progress


def _epoch(
    model, optimizer, loss, pairs: Pairs, params: TrainParams, seed: int, epoch: int, name: str
) -> float:
    """One pass over the pairs. Returns the mean loss of a pair's batch, weighted by batch size."""
    model.train()
    # Dropout draws from torch's own generator: tie it to the epoch, so that a resumed run draws the same.
    torch.manual_seed(derive(seed, "dropout", epoch))
    device = next(model.parameters()).device
    total, seen = 0.0, 0
    batches = pairs.batches(params.batch_size)
    for batch in track(
        pairs.epoch(params.batch_size, seed, epoch), batches, f"train {name} epoch {epoch + 1}"
    ):
        features, tokens = batch.features.to(device), batch.tokens.to(device)
        try:
            value = step(model, optimizer, loss, features, tokens, batch.lengths, params.grad_clip)
        except PipelineError as error:
            first = ", ".join(map(str, batch.pairs[:5]))
            raise PipelineError(f"train {name}, epoch {epoch + 1}, pairs {first}, ...: {error}") from error
        total += value * len(batch.pairs)
        seen += len(batch.pairs)
    return total / seen
