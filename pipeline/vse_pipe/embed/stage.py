"""embed: every image and caption of a run's data set in the run's space, as a vector or as fragments."""

import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pyarrow as pa
import torch

from vse_pipe.artifacts import captions, embeddings, images, joins, model_files, names
from vse_pipe.artifacts.features import Features
from vse_pipe.artifacts.texts import Texts
from vse_pipe.core import mapped
from vse_pipe.core.console import say, warn
from vse_pipe.core.devices import resolve_device
from vse_pipe.core.files import sha256, whole_folder
from vse_pipe.core.locks import claim
from vse_pipe.embed import vectors
from vse_pipe.embed.earlier import EarlierVectors, made
from vse_pipe.embed.vectors import Sources
from vse_pipe.project import paths, repetitions, step
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import IMAGE_ENCODERS
from vse_pipe.train import restore
from vse_pipe.train.model import DualEncoder

Model = tuple[DualEncoder, model_files.ModelFiles]
FILES = (embeddings.IMAGES, embeddings.CAPTIONS, joins.NAME, names.NAME, embeddings.WEIGHTS, f"{embeddings.PEER}/*")


def embed(params: Params, run: str, device: str = "auto") -> Path:
    """Write data/embed/<run>/images.parquet and captions.parquet.

    Of vectors all splits, so that train captions can be a bank; of fragments, which take a hundred times the room, val and
    test; ``embed.splits`` says otherwise. Images that could not be read are left out with their captions, and counted in
    the footer. A similarity that learns has its weights beside them. A run of two networks has
    what the second made of them in peer/.
    """
    started = time.monotonic()
    node = params.runs[run]
    out = paths.embedded(run)
    with claim(out):
        models = restore.load_all(paths.trained(run))
        source, words = restore.inputs(node, run, models[0][1])
        write(params, run, models, Material(node.dataset, source, words), resolve_device(device))
    step.record(out, time.monotonic() - started)
    return out


@dataclass(frozen=True)
class Material:
    """A data set by its name, with what the encoders read of it, texts None where it has no captions. about: more to say of it in
    the files' footer."""

    dataset: str
    features: Features
    texts: Texts | None
    about: dict[str, str] = field(default_factory=dict)


def write(params: Params, run: str, models: Sequence[Model], material: Material, where: torch.device) -> None:
    """data/embed/<run>/, whole or not at all, and a line about it. models: as of ``restore.load_all``."""
    prepared, source = paths.prepared(material.dataset), material.features
    inputs = source.array
    if models[0][0].tests_on_pixels:
        config = models[0][1].config
        pictures = IMAGE_ENCODERS.load(config["image"]["name"]).Pictures
        backbone = {**config["backbone"], "images_sha256": source.meta["images_sha256"]}  # of whichever data set
        inputs = pictures.join(material.dataset, source, backbone, where)
    whole = images.read(prepared), captions.read(prepared, columns=("caption_id", "image_id", "split"))
    kept = [source.readable(table["image_id"].to_numpy()) for table in whole]
    # Filtered only where something is left out: it would be all of it a second time.
    seen, read = tables = [
        table if own.all() else table.filter(pa.array(own)) for table, own in zip(whole, kept, strict=True)
    ]
    missing = left_out(whole, tables)
    digests = joins.by_split(seen, partial(captions.blocks, prepared, kept=kept[1]))
    data = {embeddings.DATA: json.dumps(digests, sort_keys=True)}
    if missing:
        data[embeddings.PREPARED] = json.dumps(joins.digests(prepared), sort_keys=True)
    about = {**missing, **data, **joins.made_of(prepared), **material.about}
    with whole_folder(paths.embedded(run), repetitions.patterns(FILES)) as folder:
        if (named := names.read(prepared)) is not None:
            names.write(folder, named)
            about[names.NAME] = sha256(folder / names.NAME)
        for place, (model, files) in zip((folder, folder / embeddings.PEER), models, strict=False):
            place.mkdir(exist_ok=True)
            sources = Sources(model.to(where), seen, read, source, inputs, material.texts, where)
            footer = {**about_model(run, files.config), **about}
            if model.fragments:
                counts, dim = vectors.write_fragments(place, sources, footer, params.embed.splits)
            else:
                there = paths.embedded(run) / place.relative_to(folder)
                earlier = EarlierVectors(there, made(params, run, files, source, where.type), files.digest)
                dim = files.config["embed_size"]
                counts = vectors.write_vectors(place, sources, dim, footer, params.embed, earlier, run)
        for array in (source.array, *([] if material.texts is None else [material.texts.array])):
            if array is not None:
                mapped.require_unchanged(array)
    if missing:
        images_, captions_ = (len(was) - len(now) for was, now in zip(whole, tables, strict=True))
        warn(f"embed {run}: {images_} images that could not be read are left out, with {captions_} captions")
    of = f" of {' and '.join(params.embed.splits or vectors.HELD_OUT)}" if model.fragments else ""
    twice = ", by two networks" if len(models) > 1 else ""
    say(
        f"embed {run}: {counts[0]} images{f' and {counts[1]} captions' if counts[1] else ''}{of}, {dim} dimensions{twice}"
    )


def left_out(whole: Sequence[pa.Table], kept: Sequence[pa.Table]) -> dict[str, str]:
    """How many rows of each table are missing in ``kept``, by split, for the files' footer; nothing where none are."""
    counts = []
    for was, now in zip(whole, kept, strict=True):
        before, after = (Counter(dict(_counted(table["split"]))) for table in (was, now))
        counts.append(before - after)
    splits = sorted(set().union(*counts))
    found = {split: {"images": counts[0][split], "captions": counts[1][split]} for split in splits}
    return {embeddings.LEFT_OUT: json.dumps(found, sort_keys=True)} if found else {}


def _counted(column: pa.ChunkedArray) -> list[tuple[str, int]]:
    found = column.value_counts()
    return list(zip(found.field("values").to_pylist(), found.field("counts").to_pylist(), strict=True))


def about_model(run: str, config: dict) -> dict[str, str]:
    """What the files' footer says of the model, by its config.json."""
    normalised = not config["image"]["params"].get("no_imgnorm", False)
    similarity = config["similarity"]
    peer = {"peer_sha256": config["peer_sha256"]} if "peer_sha256" in config else {}
    return peer | {
        "run": run,
        "model_sha256": config["sha256"][model_files.MODEL],
        "similarity": similarity["name"],
        "similarity_params": json.dumps(similarity["params"], sort_keys=True),
        "normalised": json.dumps(normalised),
    }
