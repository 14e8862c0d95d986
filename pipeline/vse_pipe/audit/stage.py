"""audit: which training pairs of a run do not fit, by their losses, and what would fit better."""

import time
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import torch

from vse_pipe.artifacts import audit as artefact
from vse_pipe.artifacts import captions, features, joins, model_files, pairs
from vse_pipe.audit import measure, outcome
from vse_pipe.audit.measure import Measured, batches, search
from vse_pipe.audit.measure import measure as measure_measure
from vse_pipe.core import console
from vse_pipe.core.console import document, ruled, say, stdout, warn
from vse_pipe.core.devices import resolve_device
from vse_pipe.core.errors import InputError, IntegrityError
from vse_pipe.core.files import require, sha256, whole_folder
from vse_pipe.core.locks import claim
from vse_pipe.core.seeds import generator
from vse_pipe.project import paths, repetitions, step
from vse_pipe.project.params.typed import Params, Run
from vse_pipe.project.registry import IMAGE_ENCODERS
from vse_pipe.train import mixture as train_mixture
from vse_pipe.train import model as train_model
from vse_pipe.train import restore
from vse_pipe.train.data import Pairs, PixelSource, TrainTable, mentions_of
from vse_pipe.train.model import DualEncoder

# Pairs that share a batch while their losses are computed: that of the L2RM paper.
BATCH = 128

FILES = artefact.FILES


def audit(params: Params, run: str, threshold: float = 0.5, limit: int = 12, device: str = "auto") -> dict:
    """Write data/audit/<run>/ and return what its metrics.json holds.

    threshold: pairs above this probability count as mismatched; limit: pairs of the gallery. Raises InputError when the
    run is not trained or its pairs show one image only, IntegrityError when its inputs are not those it was trained on.
    """
    started = time.monotonic()
    node, out = params.runs[run], paths.audited(run)
    with claim(out):
        model, files = restore.load(paths.trained(run))
        if "peer_sha256" in files.config:
            warn(f"audit {run}: of the run's two networks the first alone is asked")
        table, truth, source = _inputs(node, run, files)
        where = resolve_device(device)
        model, pixels = model.to(where), None
        if model.tests_on_pixels:
            pictures = IMAGE_ENCODERS.load(files.config["image"]["name"]).Pictures
            pixels = pictures.join(node.dataset, source, files.config["backbone"], where)
        work = batches(len(table.train_pairs), BATCH, generator(params.seed, "audit", run))
        found = _measured(model, table.train_pairs, pixels, work, run, where)
        if not np.isfinite(found.losses).all():
            raise InputError(f"{paths.trained(run)}: the model's losses are not finite; train the run again")
        mixture = train_mixture.fit_beta(found.losses)
        ids = truth["caption_id"].to_numpy()
        content = outcome.pairs_table(truth, found, mixture)
        shown = measure.chosen(content["probability"].to_numpy(), found.losses, truth["image_id"].to_numpy(), limit)
        metrics = {
            "run": run,
            "model_sha256": files.digest,
            "data": {"train": joins.digests(paths.prepared(node.dataset))["train"]},
            "gallery": ids[shown].tolist(),
            "partners_from": "batch" if model.fragments else "all",
            **outcome.metrics(content, truth, mixture, threshold),
        }
        records, moved = _records(run), None
        if records:
            metrics["refined"] = {key: records[-1][key] for key in ("epoch", "alignment", "rematched")}
            moved = outcome.table(records)
        with whole_folder(out, repetitions.patterns(FILES)) as folder:
            artefact.write(folder, content, metrics, outcome.histogram(content, mixture), moved)
    step.record(out, time.monotonic() - started)
    for doubt in mixture.doubts:
        warn(f"audit {run}: do not trust the probabilities: {doubt}")
    if text := outcome.doubt(metrics):
        warn(f"audit {run}: {text}")
    say(f"audit {run}: {metrics['flagged']} of {metrics['pairs']} pairs flagged, {out}")
    return metrics


def _inputs(node: Run, run: str, files: model_files.ModelFiles) -> tuple[TrainTable, pa.Table, features.Features]:
    """What the run was trained on, the rows of pairs.parquet behind its training pairs, and its features."""
    source, seen = restore.inputs(node, run, files)
    again = f"run `vse-pipe train --run {run}` again"
    if files.config.get("noise") != node.noise:
        raise IntegrityError(
            f"run {run} was trained on the pairs of noise '{files.config.get('noise')}', params.yaml now says "
            f"'{node.noise}'; {again}"
        )
    held = sha256(require(paths.injected(node.dataset, node.noise) / pairs.NAME, "vse-pipe inject"))
    # Models from before their config.json named the pairs are taken at their word.
    if files.config.get("pairs_sha256", held) != held:
        raise IntegrityError(
            f"run {run} was trained on other pairs than data/inject now holds for noise '{node.noise}'; {again}"
        )
    prepared = paths.prepared(node.dataset)
    pairs.require_for(paths.injected(node.dataset, node.noise), prepared)
    shown = pairs.read(paths.injected(node.dataset, node.noise))
    said, mentions = captions.read(prepared), mentions_of(prepared)
    table = TrainTable.join(said, shown, source, seen, same_text=node.train.same_text, mentions=mentions)
    truth = shown.take(pa.array(table.train_rows))
    if len(np.unique(table.train_pairs.owners)) < 2:
        raise InputError(f"audit {run}: all training pairs show one image; there is nothing to compare with")
    return table, truth, source


def _records(run: str) -> list[dict]:
    """Of every epoch that rematched; none for runs whose scheme transports nothing."""
    folder = paths.trained(run)
    return pairs.read_rematching(folder) if (folder / pairs.REMATCHING).exists() else []


@torch.inference_mode()
def _measured(
    model: DualEncoder, given: Pairs, pixels: PixelSource | None, work: list[np.ndarray], run: str, device: torch.device
) -> Measured:
    """Models that compare vectors encode everything once and are searched whole. Those that compare fragments are measured
    batch by batch, with partners from the same batch: all images against all captions would take them days."""

    def progress(found: Iterable) -> Iterable:
        return console.track(found, len(work), f"audit {run}: losses")

    if model.fragments:
        return measure_measure(
            lambda chosen: model.encode(given.batch(chosen), device),
            model.score,
            given.owners,
            work,
            given.matches,
            progress,
        )
    _, first, shows = np.unique(given.owners, return_index=True, return_inverse=True)
    inputs = given.array if pixels is None else pixels
    images = train_model.images(model, inputs, given.rows[first], device).to(device)
    words = train_model.captions(model, given.texts, given.places, device).to(device)
    assert isinstance(words, torch.Tensor)
    found = measure_measure(
        lambda chosen: (images[shows[chosen]], words[chosen]), model.score, given.owners, work, given.matches, progress
    )
    known = given.incidence
    belong = None if known is None else known.by_image[known.images[first]][:, known.texts].nonzero()
    partners = search(
        images,
        words,
        shows,
        model.score,
        progress=lambda found, total: console.track(found, total, f"audit {run}: partners"),
        belong=belong,
    )
    return Measured(found.losses, found.scores, partners)


_ROWS = (
    ("training pairs", "pairs", "{:,}"),
    ("flagged as mismatched", "flagged", "{:,}"),
    ("mismatched in truth", "mismatched", "{:,}"),
    ("AUC", "auc", "{:.3f}"),
    ("average precision", "average_precision", "{:.3f}"),
    ("precision", "precision", "{:.3f}"),
    ("recall", "recall", "{:.3f}"),
    ("partners sought in", "partners_from", "{}"),
    ("rematched caption right", "rematched_caption_right", "{:.1%}"),
    ("rematched image right", "rematched_image_right", "{:.1%}"),
)


_PARTNERS = {"all": "all pairs", "batch": "the pair's batch"}


def show_audit(metrics: dict, as_json: bool) -> None:
    """Figures against the truth are left out where nobody knows it; a dash where one is not defined."""
    if as_json:
        document(metrics)
        return
    table = ruled()
    table.add_column(f"run {metrics['run']}", overflow="fold")
    table.add_column(f"threshold {metrics['threshold']:g}", justify="right", no_wrap=True)
    for title, key, form in _ROWS:
        if key in metrics:
            value = _PARTNERS[metrics[key]] if key == "partners_from" else metrics[key]
            table.add_row(title, "-" if value is None else form.format(value))
    for one in metrics.get("ranked", []):
        true = "" if one["precision"] is None else f", {one['precision']:.0%} in truth"
        table.add_row(f"mismatched of the first {one['first']:,} by loss", f"about {one['estimated']:.0%}{true}")
    stdout.print(table)
