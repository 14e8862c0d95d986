"""embed for a run on a data set that it was not trained on: its own vocabulary and text options, features made as its own."""

import json
import tempfile
import time
from pathlib import Path

from vse_pipe.artifacts import captions, embeddings, features, texts
from vse_pipe.artifacts.model_files import ModelFiles
from vse_pipe.core.console import say, warn
from vse_pipe.core.devices import resolve_device
from vse_pipe.core.errors import IntegrityError
from vse_pipe.core.files import read_json, require
from vse_pipe.core.locks import claim
from vse_pipe.embed.earlier import Fitted, changed, fitted
from vse_pipe.embed.stage import Material, write
from vse_pipe.extract.text_methods import Corpus
from vse_pipe.project import paths
from vse_pipe.project.params.schema import TransferNode
from vse_pipe.project.params.typed import Params
from vse_pipe.train import restore

_DIGITS = 6


def embed(params: Params, name: str, device: str = "auto") -> Path:
    """Write data/embed/<name>/ for the node ``transfers.<name>``, as ``stage.embed`` does for a run.

    The footer names both data sets and tells the share of words that the run does not know, by split. Raises IntegrityError
    for features that were not made as those the run was trained on, MissingResource where the text features it was trained
    on are not there.
    """
    started = time.monotonic()
    node, out = params.transfers[name], paths.embedded(name)
    with claim(out), tempfile.TemporaryDirectory(prefix="vse-pipe-") as folder:
        models = restore.load_all(paths.trained(node.run))
        files = models[0][1]
        read = fitted(node.run, files)
        seen = _features(params, node, files)
        words = _texts(Path(folder) / read.name, node.dataset, read)
        unknown = _unknown(node.dataset, read)
        about = {
            "run": node.run,
            "trained_on": params.runs[node.run].dataset,
            "dataset": node.dataset,
            "unknown_words": unknown,
        }
        material = Material(node.dataset, seen, words, {embeddings.TRANSFER: json.dumps(about, sort_keys=True)})
        write(params, name, models, material, resolve_device(device))
    paths.record_seconds(out, time.monotonic() - started)
    _tell(name, node.run, unknown)
    return out


def _features(params: Params, node: TransferNode, files: ModelFiles) -> features.Features:
    """Those of the other data set. Raises IntegrityError unless they were made as the run's own."""
    own = paths.extracted(params.runs[node.run].dataset, params.runs[node.run].features)
    other = paths.extracted(node.dataset, str(node.features))
    ours, theirs = (
        read_json(require(folder / features.META, f"vse-pipe extract --features {folder.name}"))
        for folder in (own, other)
    )
    if ours.get("sha256") != files.config.get("features_sha256"):
        raise IntegrityError(
            f"run {node.run} was trained on other features than {own} now holds; run `vse-pipe train --run {node.run}` again"
        )
    if found := changed(ours, theirs):
        raise IntegrityError(
            f"{other}: made with other {', '.join(found)} than {own}, on which run '{node.run}' was trained; give "
            f"features.{other.name} the options of features.{own.name} and run `vse-pipe extract --features {other.name}`"
        )
    source = features.read(other)
    features.require_images(source, paths.prepared(node.dataset))
    return source


def _texts(folder: Path, dataset: str, read: Fitted) -> texts.Texts | None:
    """The captions of ``dataset`` as the run's own were treated. None where it has none."""
    prepared = paths.prepared(dataset)
    ids = captions.read(prepared, columns=["caption_id"])["caption_id"].to_numpy()
    if not len(ids):
        return None
    return read.treated(folder, ids, captions.CaptionColumn(prepared, "text"))


def _unknown(dataset: str, read: Fitted) -> dict[str, float]:
    """By split, the share of the words of its captions that the run does not know; empty of a method without words."""
    prepared = paths.prepared(dataset)
    corpus = Corpus(captions.CaptionColumn(prepared, "text"), captions.CaptionColumn(prepared, "split"))
    shares = {split: read.unknown_share(corpus.of(split)) for split in sorted(set(corpus.splits))}
    return {split: round(share, _DIGITS) for split, share in shares.items() if share is not None}


def _tell(name: str, run: str, unknown: dict[str, float]) -> None:
    if not unknown:
        return
    shares = ", ".join(f"{split} {share:.1%}" for split, share in unknown.items())
    say(f"embed {name}: words that run '{run}' does not know: {shares}")
    if max(unknown.values()) == 1:
        warn(f"embed {name}: run '{run}' knows no word of a split; its captions are all but the same to it")
