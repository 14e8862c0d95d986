"""embed for a run on another data set than that of its training, with the vocabulary and options of its training."""

import json
import tempfile
import time
from pathlib import Path

from vse_pipe.artifacts import captions, embeddings, features
from vse_pipe.artifacts.model_files import ModelFiles
from vse_pipe.core.console import say, warn
from vse_pipe.core.devices import resolve_device
from vse_pipe.core.errors import IntegrityError
from vse_pipe.core.files import read_json, require
from vse_pipe.core.locks import claim
from vse_pipe.embed.earlier import changed, fitted
from vse_pipe.embed.stage import Material, write
from vse_pipe.extract.text_methods import Corpus
from vse_pipe.project import paths, step
from vse_pipe.project.params.schema import TransferNode
from vse_pipe.project.params.typed import Params
from vse_pipe.train import restore

_DIGITS = 6


def embed(params: Params, name: str, device: str = "auto") -> Path:
    """Write data/embed/<name>/ for the node ``transfers.<name>``, as ``stage.embed`` does for a run.

    The footer names both data sets and the share of words that the run does not know, by split. Raises IntegrityError
    for features that were made differently from those of the training, MissingResource for missing text features of the
    training.
    """
    started = time.monotonic()
    node, out = params.transfers[name], paths.embedded(name)
    with claim(out), tempfile.TemporaryDirectory(prefix="vse-pipe-") as folder:
        models = restore.load_all(paths.trained(node.run))
        files = models[0][1]
        run_texts = fitted(node.run, files)
        source = _features(params, node, files)
        prepared = paths.prepared(node.dataset)
        sentences = captions.CaptionColumn(prepared, "text")
        ids = captions.read(prepared, columns=["caption_id"])["caption_id"].to_numpy()
        treated = run_texts.treated(Path(folder) / run_texts.name, ids, sentences) if len(ids) else None
        corpus = Corpus(sentences, captions.CaptionColumn(prepared, "split"))
        shares = {split: run_texts.unknown_share(corpus.texts_of(split)) for split in sorted(set(corpus.splits))}
        unknown = {split: round(share, _DIGITS) for split, share in shares.items() if share is not None}
        about = {
            "run": node.run,
            "trained_on": params.runs[node.run].dataset,
            "dataset": node.dataset,
            "unknown_words": unknown,
        }
        material = Material(node.dataset, source, treated, {embeddings.TRANSFER: json.dumps(about, sort_keys=True)})
        write(params, name, models, material, resolve_device(device))
    step.record(out, time.monotonic() - started)
    if unknown:
        listed = ", ".join(f"{split} {share:.1%}" for split, share in unknown.items())
        say(f"embed {name}: words that run '{node.run}' does not know: {listed}")
        if max(unknown.values()) == 1:
            warn(f"embed {name}: run '{node.run}' knows no word of a split; its captions are all but the same to it")
    return out


def _features(params: Params, node: TransferNode, files: ModelFiles) -> features.Features:
    """The features of the transfer's data set. Raises IntegrityError if they were made differently from those of the
    training."""
    run = params.runs[node.run]
    trained, moved = paths.extracted(run.dataset, run.features), paths.extracted(node.dataset, str(node.features))
    ours, theirs = (
        read_json(require(folder / features.META, f"vse-pipe extract --features {folder.name}"))
        for folder in (trained, moved)
    )
    if ours.get("sha256") != files.config.get("features_sha256"):
        raise IntegrityError(
            f"run {node.run} was trained on other features than {trained} now holds; run `vse-pipe train --run {node.run}` again"
        )
    if differences := changed(ours, theirs):
        raise IntegrityError(
            f"{moved}: made with other {', '.join(differences)} than {trained}, on which run '{node.run}' was trained; give "
            f"features.{moved.name} the options of features.{trained.name} and run `vse-pipe extract --features {moved.name}`"
        )
    source = features.read(moved)
    features.require_images(source, paths.prepared(node.dataset))
    return source
