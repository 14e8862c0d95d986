"""audit: which training pairs of a run do not fit, by their losses, and what would fit better."""

import time

import numpy as np
import pandas as pd
import pyarrow as pa
import torch

from vse_pipe.artifacts import audit as artefact
from vse_pipe.artifacts import identity, pairs
from vse_pipe.audit import losses
from vse_pipe.audit.figures import figures
from vse_pipe.core import console
from vse_pipe.core.errors import InputError, IntegrityError
from vse_pipe.core.files import read_json, whole_folder
from vse_pipe.core.locks import claim
from vse_pipe.core.seeds import generator
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params, Run
from vse_pipe.train import inputs
from vse_pipe.train import model as encoder
from vse_pipe.train.data import Pairs
from vse_pipe.train.trained import Trained

# Pairs of a batch for losses, as in the L2RM paper.
BATCH = 128


def audit(params: Params, run: str, limit: int = 12, device: str = "auto") -> dict:
    """Write data/audit/<run>/ and return what its metrics.json holds.

    limit: pairs of the gallery. Raises InputError for a run that is not trained or has pairs of one
    image only, IntegrityError if its inputs differ from those of the training."""
    started = time.monotonic()
    node, out, trained = params.runs[run], paths.audited(run), paths.trained(run)
    with claim(out):
        read = identity.parts_of(trained, "weights") | identity.parts_of(paths.prepared(node.dataset), "train")
        read |= identity.parts_of(paths.injected(node.dataset, node.noise))
        model = Trained.open(trained, device)
        if len(model.networks) > 1:
            console.warn(f"audit {run}: of the run's two networks the first alone is asked")
        table, truth = _inputs(node, run, model)
        work = losses.batches(len(table), BATCH, generator(params.seed, "audit", run))
        measured = _measured(model, table, work)
        values = measured["loss"].to_numpy()
        if not np.isfinite(values).all():
            raise InputError(f"{trained}: the model's losses are not finite; train the run again")
        doubts, mixture = losses.doubts(values)
        content = losses.pairs_table(truth, measured, doubts.probability)
        mismatched = None if truth["mismatched"].null_count else truth["mismatched"].to_numpy()
        metrics = {
            "run": run,
            "gallery": _gallery(content, limit),
            "partners_from": "batch" if model.has_fragments else "all",
            **figures(doubts, len(np.unique(table.owners)), mismatched),
            "mixture": losses.described(mixture),
        }
        # A scheme that transports nothing has no records.
        moved = trained / pairs.REMATCHING
        if records := read_json(moved, list) if moved.exists() else []:
            metrics["refined"] = {key: records[-1][key] for key in ("epoch", "alignment")}
        histogram = losses.loss_histogram(values, mixture, mismatched)
        with whole_folder(out) as folder:
            identity.write(folder, read, {})
            artefact.write(folder, content, metrics, histogram, losses.costs_table(records) if records else None)
    paths.record_seconds(out, time.monotonic() - started)
    if mixture.doubt:
        console.warn(f"audit {run}: do not trust the probabilities: {mixture.doubt}")
    console.say(f"audit {run}: about {metrics['expected']} of {metrics['pairs']} pairs are mismatched, {out}")
    return metrics


def _gallery(content: pa.Table, limit: int) -> list[int]:
    """caption_ids of the ``limit`` most suspect pairs. At most one pair of each image, or the five
    captions of one wrong picture would fill the page."""
    table = content.select(["caption_id", "image_id"]).to_pandas()
    order = losses.most_suspect(content["probability"].to_numpy(), content["loss"].to_numpy())
    return table.iloc[order].drop_duplicates("image_id")["caption_id"].head(limit).tolist()


def _inputs(node: Run, run: str, model: Trained) -> tuple[Pairs, pa.Table]:
    """The training pairs, and their rows in pairs.parquet."""
    source, texts = inputs.trained_on(node, run)
    noise = model.config.get("noise")
    if noise != node.noise:
        raise IntegrityError(
            f"run {run} was trained on the pairs of noise '{noise}', params.yaml now says '{node.noise}'; "
            f"run `vse-pipe train --run {run}` again"
        )
    injected = paths.injected(node.dataset, node.noise)
    identity.require_current(injected)
    identity.require_current(paths.trained(run))
    table = inputs.table(node, source, texts, model.config.get("backbone"), model.device)
    return table.train_pairs, pairs.read(injected).take(pa.array(table.train_rows))


@torch.inference_mode()
def _measured(trained: Trained, table: Pairs, work: list[np.ndarray]) -> pd.DataFrame:
    """Losses and partners. Models that compare vectors encode everything once and are searched
    completely. Models that compare fragments have partners from the same batch, because all images
    against all captions would take days."""
    model, device = trained.networks[0].model, trained.device
    if model.fragments:

        def encode(places: np.ndarray) -> tuple:
            return model.encode(table.batch(places), device)

        return losses.measured(encode, model.score, table.owners, work, table.matches)
    _, first, rows = np.unique(table.owners, return_index=True, return_inverse=True)
    images = encoder.images(model, table.source(model.tests_on_pixels), table.rows[first], device).to(device)
    texts = encoder.captions(model, table.texts, table.places, device).to(device)
    assert isinstance(texts, torch.Tensor)
    incidence, matches = table.incidence, None
    if incidence is not None:
        matches = incidence.by_image[incidence.images[first]][:, incidence.texts].nonzero()
    of_batches = losses.measured(
        lambda pairs: (images[rows[pairs]], texts[pairs]), model.score, rows, work, table.matches
    )
    return of_batches.assign(**losses.partners(images, texts, rows, model.score, matches))
