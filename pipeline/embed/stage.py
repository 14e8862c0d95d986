"""embed: every image and caption of a run's data set as a vector in the run's space."""

import json
import time
from pathlib import Path

import numpy as np

from pipeline import paths, timing
from pipeline.artifacts import captions, embeddings, features, images, model_files, texts
from pipeline.artifacts._files import whole_folder
from pipeline.artifacts.embeddings import Side
from pipeline.console import say
from pipeline.device import resolve
from pipeline.errors import IntegrityError, UnknownMember
from pipeline.locks import claim
from pipeline.params.typed import Params
from pipeline.registry import IMAGE_ENCODERS, SIMILARITIES, TEXT_ENCODERS
from pipeline.train import backbone, encode
from pipeline.train.model import DualEncoder, build, restore
from pipeline.train.pictures import Pictures


def embed(params: Params, run: str, device: str = "auto") -> Path:
    """Write data/embed/<run>/images.parquet and captions.parquet; all splits, so that train captions can be a bank."""
    started = time.monotonic()
    node = params.runs[run]
    out = paths.embedded(run)
    with claim(out):
        files = model_files.read(paths.trained(run))
        source = features.read(paths.extracted(node.dataset, node.features))
        prepared = paths.prepared(node.dataset)
        texts.require_captions(paths.extracted(node.dataset, node.texts), prepared)
        words = texts.read(paths.extracted(node.dataset, node.texts))
        for what, found in [("features", source.meta["sha256"]), ("texts", words.digest)]:
            if found != files.config.get(f"{what}_sha256"):
                raise IntegrityError(
                    f"run {run} was trained on other {what} than data/extract now holds; run `vse-pipe train --run {run}` again"
                )
        where = resolve(device)
        model = _fitting(files, paths.trained(run)).to(where).eval()
        about = _about(run, files)
        inputs = source.array
        if model.tests_on_pixels:
            inputs = Pictures.of(node.dataset, source, files.config["backbone"], where)
        image_side = _images(model, images.read(prepared), source, inputs, about)
        caption_side = _captions(model, captions.read(prepared), words, about)
        with whole_folder(out) as folder:
            embeddings.write(folder / embeddings.IMAGES, image_side)
            embeddings.write(folder / embeddings.CAPTIONS, caption_side)
    timing.record(out, time.monotonic() - started)
    say(
        f"embed {run}: {len(image_side.ids)} images and {len(caption_side.ids)} captions, {image_side.vectors.shape[1]} dimensions"
    )
    return out


def _fitting(files: model_files.ModelFiles, folder: Path) -> DualEncoder:
    """The model. Raises IntegrityError when config.json describes another one than the weights are of."""
    try:
        return _model(files)
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, UnknownMember) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise IntegrityError(
            f"{folder / model_files.CONFIG}: does not fit {model_files.MODEL} or this version; train the run again "
            f"({reason})"
        ) from error


def _model(files: model_files.ModelFiles) -> DualEncoder:
    config = files.config
    members = {
        "image": restore(IMAGE_ENCODERS, config["image"]),
        "text": restore(TEXT_ENCODERS, config["text"]),
        "similarity": restore(SIMILARITIES, config["similarity"]),
    }
    described = config.get("backbone")
    model = build(
        **members,
        backbone=described and backbone.restore(described),
        feature_shape=tuple(config["feature_shape"]),
        text_inputs=config["text_inputs"],
        embed_size=config["embed_size"],
        seed=0,
    )
    model.load_state_dict(files.weights)
    return model


def _about(run: str, files: model_files.ModelFiles) -> dict[str, str]:
    normalised = not files.config["image"]["params"].get("no_imgnorm", False)
    similarity = files.config["similarity"]
    return {
        "run": run,
        "model_sha256": files.digest,
        "similarity": similarity["name"],
        "similarity_params": json.dumps(similarity["params"], sort_keys=True),
        "normalised": json.dumps(normalised),
    }


def _images(
    model: DualEncoder,
    table,
    source: features.Features,
    inputs: np.ndarray | Pictures,
    about: dict[str, str],
) -> Side:
    ids = table["image_id"].to_numpy()
    device = next(model.parameters()).device
    vectors = encode.images(model, inputs, source.rows_of(ids), device)
    return Side(ids, ids, table["split"].to_numpy(zero_copy_only=False), vectors, about)


def _captions(model: DualEncoder, table, words: texts.Texts, about: dict[str, str]) -> Side:
    ids = table["caption_id"].to_numpy()
    device = next(model.parameters()).device
    vectors = encode.captions(model, words, words.places_of(ids), device)
    split = table["split"].to_numpy(zero_copy_only=False)
    return Side(ids, table["image_id"].to_numpy(), split, vectors, about)
