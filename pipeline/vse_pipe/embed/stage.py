"""embed: every image and caption of a run's data set, or of another one, in the run's space."""

import json
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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
from vse_pipe.project.params.schema import TransferNode
from vse_pipe.project.params.typed import Params
from vse_pipe.ranking.codes import check_width, cut_short
from vse_pipe.ranking.fragments import Words
from vse_pipe.train import model as encoder
from vse_pipe.train.inputs import trained_on
from vse_pipe.train.model import BATCH
from vse_pipe.train.pictures import Pictures, same_weights
from vse_pipe.train.trained import Trained, TrainedNetwork


def embed(params: Params, name: str, device: str = "auto") -> Path:
    """Write data/embed/<name>/images.parquet and captions.parquet. name: of a run, or of a transfer
    to another data set, which has the vocabulary and the options of the run's training.

    Vectors are written for every split, because train captions can serve as a query bank. Fragments
    take about 100 times the space, so only val and test are written. ``embed.splits`` overrides
    both. Images that could not be read are left out with their captions, and the footer has their
    numbers. The weights of a similarity that learns lie beside the files. For a run of two
    networks, peer/ holds the files of the second.

    For a transfer the footer names both data sets and the share of words that the run does not
    know, by split. Raises IntegrityError for features that were made differently from those of the
    training, InputError for missing text features of the training."""
    started, run, out = time.monotonic(), params.trained(name), paths.embedded(name)
    with claim(out), tempfile.TemporaryDirectory(prefix="vse-pipe-") as folder:
        read = _identities(params, name)
        trained = Trained.open(paths.trained(run), device)
        if name in params.transfers:
            material = _transferred(params, name, trained, Path(folder))
        else:
            node = params.runs[run]
            material = Material(node.dataset, *trained_on(node, run))
        _write(params, name, trained, material, read)
    paths.record_seconds(out, time.monotonic() - started)
    return out


@dataclass(frozen=True)
class Material:
    """The inputs of the encoders from one data set. dataset: its name; texts: None without
    captions; about: further entries of the footer."""

    dataset: str
    features: Features
    texts: Texts | None
    about: dict[str, str] = field(default_factory=dict)


def _write(params: Params, run: str, trained: Trained, material: Material, read: identity.Inputs) -> None:
    """Write data/embed/<run>/, whole or not at all. read: what it is made from."""
    prepared, source = paths.prepared(material.dataset), material.features
    tables_read = images.read(prepared), captions.read(prepared)
    masks = [source.readable(table["image_id"].to_numpy()) for table in tables_read]
    lost = [table.filter(pa.array(~mask)) for table, mask in zip(tables_read, masks, strict=True)]
    rows = [
        table if mask.all() else table.filter(pa.array(mask))  # a filter copies
        for table, mask in zip(tables_read, masks, strict=True)
    ]
    data = digests.by_split(*rows)
    about = {embeddings.DATA: json.dumps(data, sort_keys=True), **material.about}
    if len(lost[0]):
        about[embeddings.LEFT_OUT] = _counts(*lost)
        warn(f"embed {run}: {len(lost[0])} images that could not be read are left out, with {len(lost[1])} captions")
    if splits := params.embed.splits or (HELD_OUT if trained.has_fragments else None):
        rows = [_of_splits(table, splits) for table in rows]
    if not len(rows[0]):
        raise InputError(f"embed {run}: no picture that can be read is of the splits of embed.splits")
    full = trained.networks[0].width
    dim = _dim(params.embed.dim, trained.config, run)
    about |= {embeddings.CUT_FROM: str(full)} if dim < full else {}
    inputs: np.ndarray | Pictures = source.array
    if trained.tests_on_pixels:
        inputs = Pictures.join(material.dataset, source, trained.config["backbone"], trained.device)
    encoding = Encoding(material, inputs, trained.device, dim, params.embed.memory)
    with whole_folder(paths.embedded(run)) as folder:
        if (text_ids := names.read(prepared)) is not None:
            names.write(folder, text_ids)
        for place, network in zip((folder, folder / embeddings.PEER), trained.networks, strict=False):
            place.mkdir(exist_ok=True)
            footer = about_model(run, network.files.config) | about
            schema = embeddings.schema
            if trained.has_fragments:
                footer |= _about_fragments(place, network)
                schema = embeddings.fragment_schema
            for side, table in zip(("images", "captions"), rows, strict=True):
                parts = encoding.parts(network, side, table)
                embeddings.write_each(place / f"{side}.parquet", schema(side, dim), parts, footer)
        identity.write(folder, read, {"vectors": embeddings.digest(folder)})
    say(f"embed {run}: {len(rows[0])} images and {len(rows[1])} captions, {dim} dimensions")


def _of_splits(table: pa.Table, splits: Sequence[str]) -> pa.Table:
    return pa.concat_tables(table.filter(pc.equal(table["split"], split)) for split in dict.fromkeys(splits))


def _counts(*lost: pa.Table) -> str:
    """The numbers of the images and captions in ``lost``, by split."""
    rows = [Counter(table["split"].to_pylist()) for table in lost]
    splits = {*rows[0], *rows[1]}
    counts = {split: {"images": rows[0][split], "captions": rows[1][split]} for split in splits}
    return json.dumps(counts, sort_keys=True)


def _identities(params: Params, name: str) -> identity.Inputs:
    """What embeddings are made from. Features are named for a transfer alone: those of a run belong
    to its model."""
    read = identity.parts_of(paths.prepared(params.dataset(name)), *images.SPLITS, "names")
    read |= identity.parts_of(paths.trained(params.trained(name)), "weights")
    if name in params.transfers:
        node = params.transfers[name]
        read |= identity.parts_of(paths.extracted(node.dataset, str(node.features)))
    return read


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


def _about_fragments(folder: Path, network: TrainedNetwork) -> dict[str, str]:
    """Footer entries about fragments. Writes learned weights of a similarity to ``folder``."""
    about = {}
    if (similarity := network.model.sim.network) is not None:
        weights = {name: value.cpu().contiguous() for name, value in similarity.state_dict().items()}
        save_tensors(folder / embeddings.WEIGHTS, weights)
        about["weights_sha256"] = sha256(folder / embeddings.WEIGHTS)
    regions = network.files.config["feature_shape"][0]
    return about | {"regions": str(regions), "dim": str(network.width)}


def _transferred(params: Params, name: str, trained: Trained, folder: Path) -> Material:
    """The features and the treated captions of the other data set, and the shares of unknown words
    by split. folder: for the captions."""
    node = params.transfers[name]
    run_texts = trained.texts
    source, prepared = _features(params, node), paths.prepared(node.dataset)
    sentences = captions.CaptionColumn(prepared, "text")
    ids = captions.read(prepared, columns=["caption_id"])["caption_id"].to_numpy()
    treated = run_texts.treated(folder / run_texts.name, ids, sentences) if len(ids) else None
    corpus = Corpus(sentences, captions.CaptionColumn(prepared, "split"))
    shares = {split: run_texts.unknown_share(corpus.texts_of(split)) for split in sorted(set(corpus.splits))}
    unknown = {split: round(share, 6) for split, share in shares.items() if share is not None}
    if unknown:
        listed = ", ".join(f"{split} {share:.1%}" for split, share in unknown.items())
        say(f"embed {name}: words that run '{node.run}' does not know: {listed}")
    about = {
        "run": node.run,
        "trained_on": params.runs[node.run].dataset,
        "dataset": node.dataset,
        "unknown_words": unknown,
    }
    footer = {embeddings.TRANSFER: json.dumps(about, sort_keys=True)}
    return Material(node.dataset, source, treated, footer)


def _features(params: Params, node: TransferNode) -> features.Features:
    """The features of the transfer's data set. Raises IntegrityError if they were made differently
    from those of the training."""
    run = params.runs[node.run]
    first, moved = paths.extracted(run.dataset, run.features), paths.extracted(node.dataset, str(node.features))
    ours, theirs = (_settings(read_json(require(folder / features.META))) for folder in (first, moved))
    identity.require_current(paths.trained(node.run), places=[first])
    if differences := sorted(key for key in {*ours, *theirs} if ours.get(key) != theirs.get(key)):
        raise IntegrityError(
            f"{moved}: made with other {', '.join(differences)} than {first}, on which run '{node.run}' was trained; give "
            f"features.{moved.name} the options of features.{first.name} and run `vse-pipe extract --features {moved.name}`"
        )
    identity.require_current(moved)
    return features.read(moved)


def _settings(meta: dict) -> dict:
    """What shows that features were made differently. meta: content of meta.json."""
    options = {key: value for key, value in meta.get("params", {}).items() if key not in _FREE_OPTIONS}
    settings = {key: same_weights(value) for key, value in meta.items() if key not in _FREE}
    return settings | {"params": options, "the shape of a row": list(meta.get("shape", ()))[1:]}


HELD_OUT = ("val", "test")
# Keys of meta.json that may differ between two data sets. Code, libraries and devices change a last
# bit only.
_FREE = {*features.WRITTEN, "dataset", "images_sha256", "code_sha256", "libraries", "device", "files"}
# Options that may differ: the place of features that were computed elsewhere, and a size that
# changes a last bit only.
_FREE_OPTIONS = {"tsv", "batch_size"}
# Bytes of a number in the encoded vector, in Parquet's unfinished row group, and in the copies in
# between.
_COPIES = 3 * 4
# Images or captions whose fragments are encoded and written at a time.
_BLOCK = 1024


@dataclass(frozen=True)
class Encoding:
    """The data set whose rows are encoded. inputs: of the image encoder; device: of the networks;
    dim: the first dimensions of a vector that count; memory: MiB."""

    material: Material
    inputs: np.ndarray | Pictures
    device: torch.device
    dim: int
    memory: int

    def parts(self, network: TrainedNetwork, side: str, table: pa.Table) -> Iterator[embeddings.Side]:
        """The rows of a file in row groups. side: ``images`` or ``captions``."""
        fragments, title = network.model.fragments, f"embedding {side}"
        # A row group of fragments holds rows of one split.
        splits = table["split"].unique().to_pylist() if fragments else []
        blocks = [
            whole.slice(part.start, part.stop - part.start)
            for whole in [_of_splits(table, [split]) for split in splits] or [table]
            for part in parts_of(len(whole), self.dim, self.memory, _BLOCK if fragments else tables.ROWS)
        ]
        for rows in track(blocks, len(blocks), title) if fragments else blocks:
            ids = rows[f"{side[:-1]}_id"].to_numpy()
            encoded = self._encoded(network, side, ids, "" if fragments else f"{title}, batches")
            vectors, lengths = flat(encoded) if fragments else (cut_short(encoded, self.dim).numpy(), None)
            row_splits = rows["split"].to_numpy(zero_copy_only=False)
            yield embeddings.Side(ids, rows["image_id"].to_numpy(), row_splits, vectors, {}, lengths)

    def _encoded(self, network: TrainedNetwork, side: str, ids: np.ndarray, title: str) -> Any:
        if side == "captions":
            texts = self.material.texts
            assert texts is not None
            return encoder.captions(network.model, texts, texts.places_of(ids), self.device, title)
        rows = self.material.features.rows_of(ids)
        if not network.model.fragments:
            # The last batch is filled up, because last bits may depend on the size of a batch.
            size = BATCH if isinstance(self.inputs, np.ndarray) else min(BATCH, self.inputs.batch_size)
            rows = np.concatenate([rows, np.repeat(rows[-1:], -len(rows) % size)])
        return encoder.images(network.model, self.inputs, rows, self.device, title)[: len(ids)]


def _dim(dim: int | None, config: dict, run: str) -> int:
    """The dimensions of a vector of the run. config: content of config.json. Raises UsageError
    where ``embed.dim`` would cut vectors that are no unit vectors, or have fewer dimensions."""
    if dim is None:
        return config["embed_size"]
    if config["similarity"]["name"] != "cosine" or config["image"]["params"].get("no_imgnorm"):
        raise UsageError(f"embed.dim {dim} cuts unit vectors that a cosine compares; run '{run}' has none")
    check_width(dim, config["embed_size"], "embed.dim", f"run '{run}'")
    return dim


def parts_of(count: int, dim: int, memory: int, rows: int = tables.ROWS) -> list[slice]:
    """Consecutive rows in whole batches, each part at most ``rows`` and ``memory`` MiB."""
    size = min(rows, max(1, memory * 2**20 // (_COPIES * dim * BATCH)) * BATCH)
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]


def flat(side: Tensor | Words) -> tuple[np.ndarray, np.ndarray]:
    """All vectors of regions or words, and how many each image or caption has."""
    if isinstance(side, Words):
        return side.vectors.numpy(), side.lengths.numpy()
    return side.flatten(0, 1).numpy(), np.full(len(side), side.shape[1])
