"""embed: every image and caption of a run's data set, or of another one, in the run's space, as a vector or as fragments."""

import json
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pyarrow as pa
import torch

from vse_pipe.artifacts import captions, embeddings, features, images, joins, model_files, names
from vse_pipe.artifacts.features import Features
from vse_pipe.artifacts.texts import Texts
from vse_pipe.core import memory
from vse_pipe.core.console import say, warn
from vse_pipe.core.devices import resolve_device
from vse_pipe.core.errors import IntegrityError
from vse_pipe.core.files import read_json, require, sha256, whole_folder
from vse_pipe.core.locks import claim
from vse_pipe.embed import vectors
from vse_pipe.embed.earlier import EarlierVectors, changed, fitted, vectors_digest
from vse_pipe.embed.vectors import Sources
from vse_pipe.extract.text_methods import Corpus
from vse_pipe.project import paths
from vse_pipe.project.params.schema import TransferNode
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import IMAGE_ENCODERS
from vse_pipe.train import restore
from vse_pipe.train.model import DualEncoder

Model = tuple[DualEncoder, model_files.ModelFiles]
FILES = (embeddings.IMAGES, embeddings.CAPTIONS, joins.NAME, names.NAME, embeddings.WEIGHTS, f"{embeddings.PEER}/*")


def embed(params: Params, name: str, device: str = "auto") -> Path:
    """Write data/embed/<name>/images.parquet and captions.parquet. name: of a run, or of a transfer to another data
    set, which has the vocabulary and the options of the run's training.

    Vectors are written for every split, because train captions can serve as a query bank. Fragments take about 100
    times the space, so only val and test are written. ``embed.splits`` overrides both. Images that could not be read
    are left out with their captions, and the footer has their numbers. The weights of a similarity that learns lie
    beside the files. For a run of two networks, peer/ holds the files of the second.

    For a transfer the footer names both data sets and the share of words that the run does not know, by split. Raises
    IntegrityError for features that were made differently from those of the training, MissingResource for missing text
    features of the training."""
    started, run, out = time.monotonic(), params.trained(name), paths.embedded(name)
    with claim(out), tempfile.TemporaryDirectory(prefix="vse-pipe-") as folder:
        models = restore.load_all(paths.trained(run))
        unknown: dict[str, float] = {}
        if name in params.transfers:
            material, unknown = _transferred(params, params.transfers[name], models[0][1], Path(folder))
        else:
            node = params.runs[run]
            material = Material(node.dataset, *restore.inputs(node, run, models[0][1]))
        write(params, name, models, material, resolve_device(device))
    paths.record_seconds(out, time.monotonic() - started)
    if unknown:
        listed = ", ".join(f"{split} {share:.1%}" for split, share in unknown.items())
        say(f"embed {name}: words that run '{run}' does not know: {listed}")
        if max(unknown.values()) == 1:
            warn(f"embed {name}: run '{run}' knows no word of a split; its captions are all but the same to it")
    return out


@dataclass(frozen=True)
class Material:
    """The inputs of the encoders from one data set. dataset: its name; texts: None without captions; about: further
    entries of the footer."""

    dataset: str
    features: Features
    texts: Texts | None
    about: dict[str, str] = field(default_factory=dict)


def write(params: Params, run: str, models: Sequence[Model], material: Material, device: torch.device) -> None:
    """Write data/embed/<run>/, whole or not at all, and print a line. models: result of ``restore.load_all``."""
    prepared, source = paths.prepared(material.dataset), material.features
    inputs = source.array
    if models[0][0].tests_on_pixels:
        config = models[0][1].config
        pictures = IMAGE_ENCODERS.load(config["image"]["name"]).Pictures
        # The data set may be another one than that of the training.
        backbone = {**config["backbone"], "images_sha256": source.meta["images_sha256"]}
        inputs = pictures.join(material.dataset, source, backbone, device)
    all_rows = images.read(prepared), captions.read(prepared, columns=("caption_id", "image_id", "split"))
    masks = [source.readable(table["image_id"].to_numpy()) for table in all_rows]
    # A filter copies the table, so a table without unreadable images is used as it is.
    image_rows, caption_rows = readable = [
        table if mask.all() else table.filter(pa.array(mask)) for table, mask in zip(all_rows, masks, strict=True)
    ]
    missing = left_out(all_rows, readable)
    digests = joins.by_split(image_rows, partial(captions.blocks, prepared, mask=masks[1]))
    data = {embeddings.DATA: json.dumps(digests, sort_keys=True)}
    if missing:
        data[embeddings.PREPARED] = json.dumps(joins.digests(prepared), sort_keys=True)
    about = {**missing, **data, **joins.made_of(prepared), **material.about}
    with whole_folder(paths.embedded(run), paths.output_patterns(FILES)) as folder:
        if (text_ids := names.read(prepared)) is not None:
            names.write(folder, text_ids)
            about[names.NAME] = sha256(folder / names.NAME)
        for place, (model, files) in zip((folder, folder / embeddings.PEER), models, strict=False):
            place.mkdir(exist_ok=True)
            sources = Sources(model.to(device), image_rows, caption_rows, source, inputs, material.texts, device)
            footer = {**about_model(run, files.config), **about}
            if model.fragments:
                counts, dim = vectors.write_fragments(place, sources, footer, params.embed.splits)
            else:
                digest = vectors_digest(params, run, files, source, device.type)
                earlier = EarlierVectors(paths.embedded(run) / place.relative_to(folder), digest, files.digest)
                dim = files.config["embed_size"]
                counts = vectors.write_vectors(place, sources, dim, footer, params.embed, earlier, run)
        for array in (source.array, *([] if material.texts is None else [material.texts.array])):
            if array is not None:
                memory.require_unchanged(array)
    if missing:
        lost = [len(before) - len(after) for before, after in zip(all_rows, readable, strict=True)]
        warn(f"embed {run}: {lost[0]} images that could not be read are left out, with {lost[1]} captions")
    captions_text = f" and {counts[1]} captions" if counts[1] else ""
    splits = f" of {' and '.join(params.embed.splits or vectors.HELD_OUT)}" if model.fragments else ""
    networks = ", by two networks" if len(models) > 1 else ""
    say(f"embed {run}: {counts[0]} images{captions_text}{splits}, {dim} dimensions{networks}")


def left_out(before: Sequence[pa.Table], after: Sequence[pa.Table]) -> dict[str, str]:
    """The footer entry with the numbers of images and captions that ``after`` lacks, by split; empty if it lacks
    none."""
    counts = []
    for tables in zip(before, after, strict=True):
        rows = (table["split"].value_counts().to_pylist() for table in tables)
        old, new = (Counter({row["values"]: row["counts"] for row in table_rows}) for table_rows in rows)
        counts.append(old - new)
    splits = sorted(set().union(*counts))
    missing = {split: {"images": counts[0][split], "captions": counts[1][split]} for split in splits}
    return {embeddings.LEFT_OUT: json.dumps(missing, sort_keys=True)} if missing else {}


def about_model(run: str, config: dict) -> dict[str, str]:
    """Footer entries about the model. config: content of its config.json."""
    similarity = config["similarity"]
    peer = {"peer_sha256": config["peer_sha256"]} if "peer_sha256" in config else {}
    return peer | {
        "run": run,
        "model_sha256": config["sha256"][model_files.MODEL],
        "similarity": similarity["name"],
        "similarity_params": json.dumps(similarity["params"], sort_keys=True),
        "normalised": json.dumps(not config["image"]["params"].get("no_imgnorm", False)),
    }


_DIGITS = 6


def _transferred(
    params: Params, node: TransferNode, files: model_files.ModelFiles, folder: Path
) -> tuple[Material, dict[str, float]]:
    """The features and the treated captions of the other data set, and the shares of unknown words by split. folder:
    for the captions."""
    run_texts = fitted(node.run, files)
    source, prepared = _features(params, node, files), paths.prepared(node.dataset)
    sentences = captions.CaptionColumn(prepared, "text")
    ids = captions.read(prepared, columns=["caption_id"])["caption_id"].to_numpy()
    treated = run_texts.treated(folder / run_texts.name, ids, sentences) if len(ids) else None
    corpus = Corpus(sentences, captions.CaptionColumn(prepared, "split"))
    shares = {split: run_texts.unknown_share(corpus.texts_of(split)) for split in sorted(set(corpus.splits))}
    unknown = {split: round(share, _DIGITS) for split, share in shares.items() if share is not None}
    about = {
        "run": node.run,
        "trained_on": params.runs[node.run].dataset,
        "dataset": node.dataset,
        "unknown_words": unknown,
    }
    return Material(node.dataset, source, treated, {embeddings.TRANSFER: json.dumps(about, sort_keys=True)}), unknown


def _features(params: Params, node: TransferNode, files: model_files.ModelFiles) -> features.Features:
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
