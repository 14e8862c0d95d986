"""audit: which training pairs of a run do not fit, by their losses, and what would fit better."""

import time
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import torch

from vse_pipe.artifacts import audit as artefact
from vse_pipe.artifacts import captions, features, identity, model_files, pairs
from vse_pipe.audit.doubts import losses
from vse_pipe.audit.figures import figures
from vse_pipe.core import console
from vse_pipe.core.devices import resolve_device
from vse_pipe.core.errors import InputError, IntegrityError
from vse_pipe.core.files import whole_folder
from vse_pipe.core.locks import claim
from vse_pipe.core.seeds import generator
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params, Run
from vse_pipe.train import model as train_model
from vse_pipe.train.data import Pairs, PixelSource, TrainTable, mentions_of
from vse_pipe.train.inputs import inputs_of
from vse_pipe.train.pictures import Pictures
from vse_pipe.train.trained import Trained

# Pairs of a batch for losses, as in the L2RM paper.
BATCH = 128

FILES = artefact.FILES


def audit(params: Params, run: str, limit: int = 12, device: str = "auto") -> dict:
    """Write data/audit/<run>/ and return what its metrics.json holds.

    limit: pairs of the gallery. Raises InputError for a run that is not trained or has pairs of one image only,
    IntegrityError if its inputs differ from those of the training."""
    started = time.monotonic()
    node, out = params.runs[run], paths.audited(run)
    with claim(out):
        read = identity.parts_of(paths.trained(run)) | identity.parts_of(paths.prepared(node.dataset), "train")
        read |= identity.parts_of(paths.injected(node.dataset, node.noise))
        resolved = resolve_device(device, needs_float64=True)
        networks = Trained.open(paths.trained(run), resolved).networks
        model, files = networks[0].model, networks[0].files
        if len(networks) > 1:
            console.warn(f"audit {run}: of the run's two networks the first alone is asked")
        table, truth, source = _inputs(node, run, files)
        pixels = None
        if model.tests_on_pixels:
            pixels = Pictures.join(node.dataset, source, files.config["backbone"], resolved)
        work = losses.batches(len(table.train_pairs), BATCH, generator(params.seed, "audit", run))
        measured = _measured(model, table.train_pairs, pixels, work, run, resolved)
        if not np.isfinite(measured.losses).all():
            raise InputError(f"{paths.trained(run)}: the model's losses are not finite; train the run again")
        doubts, mixture = losses.doubts(measured.losses)
        content = losses.pairs_table(truth, measured, doubts.probability)
        image_ids = truth["image_id"].to_numpy()
        gallery = losses.gallery_pairs(doubts.probability, measured.losses, image_ids, limit)
        mismatched = None if truth["mismatched"].null_count else truth["mismatched"].to_numpy()
        metrics = {
            "run": run,
            "gallery": truth["caption_id"].to_numpy()[gallery].tolist(),
            "partners_from": "batch" if model.fragments else "all",
            **figures(doubts, len(np.unique(image_ids)), mismatched),
            **losses.rematched(content, truth),
            "mixture": losses.described(mixture),
        }
        # A scheme that transports nothing has no records.
        trained = paths.trained(run)
        if records := pairs.read_rematching(trained) if (trained / pairs.REMATCHING).exists() else []:
            metrics["refined"] = {key: records[-1][key] for key in ("epoch", "alignment", "rematched")}
        histogram = losses.loss_histogram(measured.losses, mixture, mismatched)
        with whole_folder(out, paths.output_patterns(FILES)) as folder:
            identity.write(folder, read, {})
            artefact.write(folder, content, metrics, histogram, losses.costs_table(records) if records else None)
    paths.record_seconds(out, time.monotonic() - started)
    for reason in mixture.doubts:
        console.warn(f"audit {run}: do not trust the probabilities: {reason}")
    console.say(f"audit {run}: about {metrics['expected']} of {metrics['pairs']} pairs are mismatched, {out}")
    return metrics


def _inputs(node: Run, run: str, files: model_files.ModelFiles) -> tuple[TrainTable, pa.Table, features.Features]:
    source, texts = inputs_of(node, run)
    again = f"run `vse-pipe train --run {run}` again"
    if files.config.get("noise") != node.noise:
        raise IntegrityError(
            f"run {run} was trained on the pairs of noise '{files.config.get('noise')}', params.yaml now says '{node.noise}'; {again}"
        )
    injected, prepared = paths.injected(node.dataset, node.noise), paths.prepared(node.dataset)
    identity.require_current(injected)
    identity.require_current(paths.trained(run))
    rows = pairs.read(injected)
    sentences, mentions = captions.read(prepared), mentions_of(prepared)
    table = TrainTable.join(sentences, rows, source, texts, same_text=node.train.same_text, mentions=mentions)
    truth = rows.take(pa.array(table.train_rows))
    if len(np.unique(table.train_pairs.owners)) < 2:
        raise InputError(f"audit {run}: all training pairs show one image; there is nothing to compare with")
    return table, truth, source


@torch.inference_mode()
def _measured(
    model: train_model.DualEncoder,
    train_pairs: Pairs,
    pixels: PixelSource | None,
    work: list[np.ndarray],
    run: str,
    device: torch.device,
) -> losses.Measured:
    """Losses and partners. Models that compare vectors encode everything once and are searched completely. Models that
    compare fragments have partners from the same batch, because all images against all captions would take days."""

    def progress(results: Iterable, total: int, title: str) -> Iterable:
        return console.track(results, total, f"audit {run}: {title}")

    if model.fragments:
        return losses.measure_pairs(
            lambda places: model.encode(train_pairs.batch(places), device),
            model.score,
            train_pairs.owners,
            work,
            train_pairs.matches,
            lambda results: progress(results, len(work), "losses"),
        )
    _, first, image_rows = np.unique(train_pairs.owners, return_index=True, return_inverse=True)
    inputs = train_pairs.array if pixels is None else pixels
    images = train_model.images(model, inputs, train_pairs.rows[first], device).to(device)
    texts = train_model.captions(model, train_pairs.texts, train_pairs.places, device).to(device)
    assert isinstance(texts, torch.Tensor)
    incidence, matches = train_pairs.incidence, None
    if incidence is not None:
        matches = incidence.by_image[incidence.images[first]][:, incidence.texts].nonzero()
    return losses.measure_vectors(images, texts, image_rows, model.score, work, train_pairs.matches, matches, progress)
