"""embed: every image and caption of a run's data set, or of another one, in the run's space, as a vector or as fragments."""

import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from vse_pipe.artifacts import captions, embeddings, features, images, joins, model_files, names
from vse_pipe.artifacts.features import Features
from vse_pipe.artifacts.texts import Texts
from vse_pipe.core import tables
from vse_pipe.core.console import say, track, warn
from vse_pipe.core.devices import resolve_device
from vse_pipe.core.errors import InputError, IntegrityError, UsageError
from vse_pipe.core.files import read_json, require, save_tensors, sha256, whole_folder
from vse_pipe.core.locks import claim
from vse_pipe.embed.fitted import changed, fitted
from vse_pipe.extract.text_methods import Corpus
from vse_pipe.project import paths
from vse_pipe.project.params.schema import EmbedParams, TransferNode
from vse_pipe.project.params.typed import Params
from vse_pipe.ranking.codes import check_width, cut_short
from vse_pipe.ranking.fragments import Words
from vse_pipe.train import model, restore
from vse_pipe.train.data import PixelSource
from vse_pipe.train.model import DualEncoder
from vse_pipe.train.pictures import Pictures

Model = tuple[DualEncoder, model_files.ModelFiles]
FILES = (embeddings.IMAGES, embeddings.CAPTIONS, names.NAME, embeddings.WEIGHTS, f"{embeddings.PEER}/*")


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
    inputs: np.ndarray | PixelSource = source.array
    if models[0][0].tests_on_pixels:
        config = models[0][1].config
        # The data set may be another one than that of the training.
        backbone = {**config["backbone"], "images_sha256": source.meta["images_sha256"]}
        inputs = Pictures.join(material.dataset, source, backbone, device)
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
            full = files.config["embed_size"]
            dim = _dim(params.embed.dim, files.config, run)
            sources = Sources(model.to(device), image_rows, caption_rows, source, inputs, material.texts, device, dim)
            cut = {embeddings.CUT_FROM: str(full)} if dim not in (None, full) else {}
            footer = {**about_model(run, files.config), **about, **cut}
            if model.fragments:
                counts, dim = write_fragments(place, sources, footer, params.embed.splits)
            else:
                dim = dim or full
                counts = write_vectors(place, sources, dim, footer, params.embed, run)
    if missing:
        lost = [len(before) - len(after) for before, after in zip(all_rows, readable, strict=True)]
        warn(f"embed {run}: {lost[0]} images that could not be read are left out, with {lost[1]} captions")
    captions_text = f" and {counts[1]} captions" if counts[1] else ""
    splits = f" of {' and '.join(params.embed.splits or HELD_OUT)}" if model.fragments else ""
    networks = ", by two networks" if len(models) > 1 else ""
    cut_text = f" of {full}" if cut else ""
    say(f"embed {run}: {counts[0]} images{captions_text}{splits}, {dim}{cut_text} dimensions{networks}")


def left_out(before: Sequence[pa.Table], after: Sequence[pa.Table]) -> dict[str, str]:
    """The footer entry with the numbers of images and captions that ``after`` lacks, by split; empty if it lacks
    none."""
    counts = []
    for pair in zip(before, after, strict=True):
        rows = (table["split"].value_counts().to_pylist() for table in pair)
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


# Images in one pass.
BATCH = 1024
HELD_OUT = ("val", "test")
# Bytes of a number in the encoded vector, in Parquet's unfinished row group, and in the copies in between.
_COPIES = 3 * 4
# Images or captions whose fragments are encoded and written at a time.
_BLOCK = 1024


@dataclass(frozen=True)
class Sources:
    """model: on ``device``; images, captions: the tables of the data set; inputs: of the image encoder; texts: None
    without captions; dim: the first dimensions of a vector that count, None for all."""

    model: DualEncoder
    images: pa.Table
    captions: pa.Table
    features: Features
    inputs: np.ndarray | PixelSource
    texts: Texts | None
    device: torch.device
    dim: int | None = None

    def encode_images(self, image_ids: np.ndarray, label: str = "", even: bool = False) -> Tensor:
        """(n, dim) or (n, R, dim). label: the text of a progress line, none if empty.

        even: fill up the last batch. The last bits of a vector may depend on the size of its batch, never on the other
        images in it."""
        rows = self.features.rows_of(image_ids)
        size = BATCH if isinstance(self.inputs, np.ndarray) else min(BATCH, self.inputs.batch_size)
        filled = np.concatenate([rows, np.repeat(rows[-1:], -len(rows) % size)]) if even else rows
        return self._cut(model.images(self.model, self.inputs, filled, self.device, size, label)[: len(rows)])

    def encode_captions(self, caption_ids: np.ndarray, label: str = "") -> Tensor | Words:
        """(n, dim), or the words of n captions. label: as in ``encode_images``."""
        assert self.texts is not None
        side = model.captions(self.model, self.texts, self.texts.places_of(caption_ids), self.device, title=label)
        return side if isinstance(side, Words) else self._cut(side)

    def _cut(self, vectors: Tensor) -> Tensor:
        return vectors if self.dim is None else cut_short(vectors, self.dim)


def _dim(dim: int | None, config: dict, run: str) -> int | None:
    """``embed.dim`` for a run. config: content of config.json. Raises UsageError for a run that has no unit vectors, or
    fewer dimensions."""
    if dim is None:
        return None
    similarity, unit = config["similarity"]["name"], not config["image"]["params"].get("no_imgnorm", False)
    if similarity != "cosine" or not unit:
        reason = f"compares by {similarity}" if similarity != "cosine" else "has images of any length (no_imgnorm)"
        raise UsageError(f"embed.dim {dim} cuts unit vectors that a cosine compares, and run '{run}' {reason}")
    check_width(dim, config["embed_size"], "embed.dim", f"run '{run}'")
    return dim


def write_vectors(
    folder: Path,
    sources: Sources,
    dim: int,
    about: dict[str, str],
    params: EmbedParams,
    run: str,
) -> list[int]:
    """Write both files; returns the numbers of images and captions. dim: of a vector. Raises InputError if no picture is left."""
    images, captions = _of_splits(sources.images, params.splits), _of_splits(sources.captions, params.splits)
    if not len(images):
        lack = "left none that could be read" if params.splits is None else f"of split {', '.join(params.splits)}"
        raise InputError(f"embed {run}: the data set has no picture {lack}; embed.splits says which are embedded")
    image_ids, caption_ids = images["image_id"].to_numpy(), captions["caption_id"].to_numpy()

    def encode_images(part: slice, label: str) -> np.ndarray:
        return sources.encode_images(image_ids[part], label, even=True).numpy()

    def encode_captions(part: slice, label: str) -> np.ndarray:
        if not len(caption_ids):
            return np.empty((0, dim), np.float32)
        encoded = sources.encode_captions(caption_ids[part], label)
        assert isinstance(encoded, Tensor)
        return encoded.numpy()

    parts = [parts_of(len(table), dim, params.memory) for table in (images, captions)]
    _write(folder / embeddings.IMAGES, images, "image_id", parts[0], encode_images, about)
    _write(folder / embeddings.CAPTIONS, captions, "caption_id", parts[1], encode_captions, about)
    return [len(images), len(captions)]


def _of_splits(table: pa.Table, splits: Sequence[str] | None) -> pa.Table:
    return table if splits is None else table.filter(pc.is_in(table["split"], pa.array(splits, pa.string())))


def parts_of(count: int, dim: int, memory: int) -> list[slice]:
    """Consecutive rows in whole batches, each part at most a row group and ``memory`` MiB."""
    size = min(tables.ROWS, max(1, memory * 2**20 // (_COPIES * dim * BATCH)) * BATCH)
    return [slice(start, min(start + size, count)) for start in range(0, max(count, 1), size)]


def _write(
    path: Path,
    table: pa.Table,
    key: str,
    parts: Sequence[slice],
    encode: Callable[[slice, str], np.ndarray],
    about: dict[str, str],
) -> None:
    def sides() -> Iterator[embeddings.Side]:
        for number, part in enumerate(parts, start=1):
            suffix = f" of part {number} of {len(parts)}" if len(parts) > 1 else ""
            rows = table.slice(part.start, part.stop - part.start)
            split = rows["split"].to_numpy(zero_copy_only=False)
            vectors = encode(part, f"embedding {path.stem}, batches{suffix}")
            yield embeddings.Side(rows[key].to_numpy(), rows["image_id"].to_numpy(), split, vectors, about)

    embeddings.write_each(path, sides(), about)


def write_fragments(
    folder: Path, sources: Sources, about: dict[str, str], splits: Sequence[str] | None
) -> tuple[list[int], int]:
    """Write both files, and the weights of a similarity that learns. Returns the numbers of images and captions, and
    the dimensions of a vector."""
    network = sources.model.sim.network
    if network is not None:
        weights = {name: value.cpu().contiguous() for name, value in network.state_dict().items()}
        save_tensors(folder / embeddings.WEIGHTS, weights)
        about = {**about, "weights_sha256": sha256(folder / embeddings.WEIGHTS)}
    distinct = list(dict.fromkeys(splits or HELD_OUT))
    shape = sources.encode_images(sources.images["image_id"].to_numpy()[:1]).shape
    about = {**about, "regions": str(shape[1]), "dim": str(shape[2])}
    counts = [
        embeddings.write_fragments(folder / name, _blocks(sources, name, distinct), shape[2], about)
        for name in (embeddings.IMAGES, embeddings.CAPTIONS)
    ]
    return counts, shape[2]


def _blocks(sources: Sources, name: str, splits: Sequence[str]) -> Iterator[embeddings.FragmentRows]:
    encode: Callable[[np.ndarray], Tensor | Words] = sources.encode_captions
    table, key = sources.captions, "caption_id"
    if name == embeddings.IMAGES:
        table, key, encode = sources.images, "image_id", sources.encode_images
    parts = [(split, _of_splits(table, [split])) for split in splits]
    work = [(split, rows.slice(start, _BLOCK)) for split, rows in parts for start in range(0, len(rows), _BLOCK)]
    for split, rows in track(work, len(work), f"embedding {name.removesuffix('.parquet')}"):
        ids = rows[key].to_numpy()
        vectors, lengths = _flat(encode(ids))
        yield embeddings.FragmentRows(split, ids, rows["image_id"].to_numpy(), lengths, vectors)


def _flat(side: Tensor | Words) -> tuple[np.ndarray, np.ndarray]:
    if isinstance(side, Words):
        return side.vectors.numpy(), side.lengths.numpy()
    return side.flatten(0, 1).numpy(), torch.full((len(side),), side.shape[1]).numpy()
