"""embed: every image and caption of a run's data set, or of another one, in the run's space, as a vector or as fragments."""

import json
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from vse_pipe.artifacts import captions, digests, embeddings, features, identity, images, model_files, names
from vse_pipe.artifacts.features import Features
from vse_pipe.artifacts.texts import Texts
from vse_pipe.core import tables
from vse_pipe.core.console import say, track, warn
from vse_pipe.core.errors import InputError, IntegrityError, UsageError
from vse_pipe.core.files import read_json, require, save_tensors, sha256, whole_folder
from vse_pipe.core.locks import claim
from vse_pipe.extract.text_methods import Corpus
from vse_pipe.project import paths
from vse_pipe.project.params.schema import EmbedParams, TransferNode
from vse_pipe.project.params.typed import Params
from vse_pipe.ranking.codes import check_width, cut_short
from vse_pipe.ranking.fragments import Words
from vse_pipe.train.inputs import trained_on
from vse_pipe.train.pictures import Pictures, same_weights
from vse_pipe.train.trained import BATCH, Trained, TrainedNetwork

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
        read = _identities(params, name)
        trained = Trained.open(paths.trained(run), device)
        unknown: dict[str, float] = {}
        if name in params.transfers:
            material, unknown = _transferred(params, params.transfers[name], trained, Path(folder))
        else:
            node = params.runs[run]
            material = Material(node.dataset, *trained_on(node, run))
        write(params, name, trained, material, read)
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


def write(params: Params, run: str, trained: Trained, material: Material, read: identity.Inputs) -> None:
    """Write data/embed/<run>/, whole or not at all, and print a line. read: what it is made from."""
    prepared, source = paths.prepared(material.dataset), material.features
    inputs: np.ndarray | Pictures = source.array
    if trained.tests_on_pixels:
        # The data set may be another one than that of the training.
        backbone = {**trained.config["backbone"], "images_sha256": source.meta["images_sha256"]}
        inputs = Pictures.join(material.dataset, source, backbone, trained.device)
    all_rows = images.read(prepared), captions.read(prepared, columns=("caption_id", "image_id", "split"))
    masks = [source.readable(table["image_id"].to_numpy()) for table in all_rows]
    # A filter copies the table, so a table without unreadable images is used as it is.
    image_rows, caption_rows = readable = [
        table if mask.all() else table.filter(pa.array(mask)) for table, mask in zip(all_rows, masks, strict=True)
    ]
    missing = left_out(all_rows, readable)
    data = digests.by_split(image_rows, partial(captions.blocks, prepared, mask=masks[1]))
    about = {**missing, embeddings.DATA: json.dumps(data, sort_keys=True), **material.about}
    with whole_folder(paths.embedded(run), paths.output_patterns(FILES)) as folder:
        if (text_ids := names.read(prepared)) is not None:
            names.write(folder, text_ids)
            about[names.NAME] = sha256(folder / names.NAME)
        full = trained.networks[0].width
        dim = _dim(params.embed.dim, trained.config, run)
        cut = {embeddings.CUT_FROM: str(full)} if dim not in (None, full) else {}
        for place, network in zip((folder, folder / embeddings.PEER), trained.networks, strict=False):
            place.mkdir(exist_ok=True)
            encoding = Encoding(network, image_rows, caption_rows, source, inputs, material.texts, dim or full)
            footer = {**about_model(run, network.files.config), **about, **cut}
            if trained.has_fragments:
                counts, width = write_fragments(place, encoding, footer, params.embed.splits)
            else:
                counts, width = write_vectors(place, encoding, footer, params.embed, run), encoding.dim
        identity.write(folder, read, {"vectors": embeddings.digest(folder)})
    if missing:
        lost = [len(before) - len(after) for before, after in zip(all_rows, readable, strict=True)]
        warn(f"embed {run}: {lost[0]} images that could not be read are left out, with {lost[1]} captions")
    captions_text = f" and {counts[1]} captions" if counts[1] else ""
    splits = f" of {' and '.join(params.embed.splits or HELD_OUT)}" if trained.has_fragments else ""
    networks = ", by two networks" if len(trained.networks) > 1 else ""
    cut_text = f" of {full}" if cut else ""
    say(f"embed {run}: {counts[0]} images{captions_text}{splits}, {width}{cut_text} dimensions{networks}")


def _identities(params: Params, name: str) -> identity.Inputs:
    """What embeddings are made from. Features are named for a transfer alone: those of a run belong to its model."""
    read = identity.parts_of(paths.prepared(params.dataset(name)), *images.SPLITS, "names")
    read |= identity.parts_of(paths.trained(params.trained(name)))
    if name in params.transfers:
        node = params.transfers[name]
        read |= identity.parts_of(paths.extracted(node.dataset, str(node.features)))
    return read


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
    params: Params, node: TransferNode, trained: Trained, folder: Path
) -> tuple[Material, dict[str, float]]:
    """The features and the treated captions of the other data set, and the shares of unknown words by split. folder:
    for the captions."""
    run_texts = trained.texts
    source, prepared = _features(params, node, trained.config), paths.prepared(node.dataset)
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


def _features(params: Params, node: TransferNode, config: dict) -> features.Features:
    """The features of the transfer's data set. Raises IntegrityError if they were made differently from those of the
    training."""
    run = params.runs[node.run]
    first, moved = paths.extracted(run.dataset, run.features), paths.extracted(node.dataset, str(node.features))
    ours, theirs = (read_json(require(folder / features.META)) for folder in (first, moved))
    identity.require_current(paths.trained(node.run), places=[first])
    if differences := changed(ours, theirs):
        raise IntegrityError(
            f"{moved}: made with other {', '.join(differences)} than {first}, on which run '{node.run}' was trained; give "
            f"features.{moved.name} the options of features.{first.name} and run `vse-pipe extract --features {moved.name}`"
        )
    identity.require_current(moved)
    return features.read(moved)


def changed(ours: dict, theirs: dict) -> list[str]:
    """The keys whose values show that features were made differently. ours, theirs: content of meta.json."""
    left, right = map(_settings, (ours, theirs))
    return sorted(key for key in {*left, *right} if left.get(key) != right.get(key))


def _settings(meta: dict) -> dict:
    options = {key: value for key, value in meta.get("params", {}).items() if key not in _FREE_OPTIONS}
    settings = {key: same_weights(value) for key, value in meta.items() if key not in _FREE}
    return settings | {"params": options, "the shape of a row": list(meta.get("shape", ()))[1:]}


_NAMES, _KEYS = (embeddings.IMAGES, embeddings.CAPTIONS), ("image_id", "caption_id")
HELD_OUT = ("val", "test")
# Keys of meta.json that may differ between two data sets. Code, libraries and devices change a last bit only.
_FREE = {*features.WRITTEN, "dataset", "images_sha256", "code_sha256", "libraries", "device", "files"}
# Options that may differ: the place of features that were computed elsewhere, and a size that changes a last bit only.
_FREE_OPTIONS = {"tsv", "batch_size"}
# Bytes of a number in the encoded vector, in Parquet's unfinished row group, and in the copies in between.
_COPIES = 3 * 4
# Images or captions whose fragments are encoded and written at a time.
_BLOCK = 1024


@dataclass(frozen=True)
class Encoding:
    """A network, and the data set whose rows it encodes. images, captions: tables; inputs: of the image encoder; texts:
    None without captions; dim: the first dimensions of a vector that count."""

    network: TrainedNetwork
    images: pa.Table
    captions: pa.Table
    features: Features
    inputs: np.ndarray | Pictures
    texts: Texts | None
    dim: int

    def encode(self, side: str, ids: np.ndarray, title: str = "") -> Tensor | Words:
        """(n, dim), or fragments. side: ``images`` or ``captions``; title: of the progress, none if empty."""
        if side == "images":
            rows, is_even = self.features.rows_of(ids), not self.network.model.fragments
            vectors: Tensor | Words = self.network.images(self.inputs, rows, title, is_even)
        else:
            assert self.texts is not None
            vectors = self.network.captions(self.texts, self.texts.places_of(ids), title)
        is_cut = isinstance(vectors, Tensor) and self.dim < self.network.width
        return cut_short(vectors, self.dim) if is_cut else vectors  # type: ignore[arg-type]


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


def write_vectors(folder: Path, encoding: Encoding, about: dict[str, str], params: EmbedParams, run: str) -> list[int]:
    """Write both files; returns the numbers of images and captions. Raises InputError if no picture is left."""
    tables_of = [_of_splits(table, params.splits) for table in (encoding.images, encoding.captions)]
    if not len(tables_of[0]):
        lack = "left none that could be read" if params.splits is None else f"of split {', '.join(params.splits)}"
        raise InputError(f"embed {run}: the data set has no picture {lack}; embed.splits says which are embedded")
    for name, key, table in zip(_NAMES, _KEYS, tables_of, strict=True):
        parts = parts_of(len(table), encoding.dim, params.memory)
        full = embeddings.schema(Path(name).stem, encoding.dim)
        embeddings.write_each(folder / name, full, _sides(encoding, name, key, table, parts, about), about)
    return [len(table) for table in tables_of]


def _of_splits(table: pa.Table, splits: Sequence[str] | None) -> pa.Table:
    return table if splits is None else table.filter(pc.is_in(table["split"], pa.array(splits, pa.string())))


def parts_of(count: int, dim: int, memory: int) -> list[slice]:
    """Consecutive rows in whole batches, each part at most a row group and ``memory`` MiB."""
    size = min(tables.ROWS, max(1, memory * 2**20 // (_COPIES * dim * BATCH)) * BATCH)
    return [slice(start, min(start + size, count)) for start in range(0, max(count, 1), size)]


def _sides(
    encoding: Encoding, name: str, key: str, table: pa.Table, parts: Sequence[slice], about: dict[str, str]
) -> Iterator[embeddings.Side]:
    side = name.removesuffix(".parquet")
    for number, part in enumerate(parts, start=1):
        suffix = f" of part {number} of {len(parts)}" if len(parts) > 1 else ""
        rows = table.slice(part.start, part.stop - part.start)
        ids, vectors = rows[key].to_numpy(), np.empty((0, encoding.dim), np.float32)
        if len(ids):
            encoded = encoding.encode(side, ids, f"embedding {side}, batches{suffix}")
            assert isinstance(encoded, Tensor)
            vectors = encoded.numpy()
        split = rows["split"].to_numpy(zero_copy_only=False)
        yield embeddings.Side(ids, rows["image_id"].to_numpy(), split, vectors, about)


def write_fragments(
    folder: Path, encoding: Encoding, about: dict[str, str], splits: Sequence[str] | None
) -> tuple[list[int], int]:
    """Write both files, and the weights of a similarity that learns. Returns the numbers of images and captions, and
    the dimensions of a vector."""
    network = encoding.network.model.sim.network
    if network is not None:
        weights = {name: value.cpu().contiguous() for name, value in network.state_dict().items()}
        save_tensors(folder / embeddings.WEIGHTS, weights)
        about = {**about, "weights_sha256": sha256(folder / embeddings.WEIGHTS)}
    regions = encoding.encode("images", encoding.images["image_id"].to_numpy()[:1])
    assert isinstance(regions, Tensor)
    about = {**about, "regions": str(regions.shape[1]), "dim": str(regions.shape[2])}
    tables_of = dict(zip(_NAMES, zip(_KEYS, (encoding.images, encoding.captions), strict=True), strict=True))
    distinct = list(dict.fromkeys(splits or HELD_OUT))
    for name in _NAMES:
        full = embeddings.fragment_schema(Path(name).stem, regions.shape[2])
        embeddings.write_each(folder / name, full, _blocks(encoding, name, *tables_of[name], distinct), about)
    return [len(_of_splits(table, distinct)) for _, table in tables_of.values()], regions.shape[2]


def _blocks(
    encoding: Encoding, name: str, key: str, table: pa.Table, splits: Sequence[str]
) -> Iterator[embeddings.FragmentRows]:
    side = name.removesuffix(".parquet")
    parts = [(split, _of_splits(table, [split])) for split in splits]
    work = [(split, rows.slice(start, _BLOCK)) for split, rows in parts for start in range(0, len(rows), _BLOCK)]
    for split, rows in track(work, len(work), f"embedding {side}"):
        ids = rows[key].to_numpy()
        vectors, lengths = flat(encoding.encode(side, ids))
        yield embeddings.FragmentRows(split, ids, rows["image_id"].to_numpy(), lengths, vectors)


def flat(side: Tensor | Words) -> tuple[np.ndarray, np.ndarray]:
    """All vectors of regions or words, and how many each image or caption has."""
    if isinstance(side, Words):
        return side.vectors.numpy(), side.lengths.numpy()
    return side.flatten(0, 1).numpy(), torch.full((len(side),), side.shape[1]).numpy()
