"""inject: decide which image every caption is shown with; only train pairs are ever mismatched."""

import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from pipeline import paths, timing
from pipeline.artifacts import captions, images, pairs
from pipeline.artifacts._files import whole_folder
from pipeline.console import say
from pipeline.locks import claim
from pipeline.params.typed import Params
from pipeline.registry import PROTOCOLS


def inject(params: Params, noise: str) -> Path:
    """Write data/inject/<dataset>/<noise>/pairs.parquet. Rate 0 passes every pair through."""
    started = time.monotonic()
    node = params.noises[noise]
    out = paths.injected(node.dataset, noise)
    source = paths.prepared(node.dataset)
    with claim(out):
        table = _pairs(images.read(source), captions.read(source), node.protocol, params.seed)
        train = np.asarray(table["split"]) == "train"
        share = float(np.asarray(table["mismatched"])[train].mean()) if train.any() else 0.0
        with whole_folder(out) as folder:
            pairs.write(
                folder,
                table,
                {"protocol": node.protocol.name, "seed": str(params.seed), "mismatched": f"{share:.5f}"},
            )
    timing.record(out, time.monotonic() - started)
    say(f"inject {noise}: {train.sum()} train pairs, {share:.2%} mismatched ({node.protocol.name} level)")
    return out


def _pairs(image_table: pa.Table, caption_table: pa.Table, protocol, seed: int) -> pa.Table:
    """The member sees positions among the train images, in the data set's order, as the authors' loaders do."""
    true = caption_table["image_id"].to_numpy()
    split = caption_table["split"].to_numpy(zero_copy_only=False)
    image_split = image_table["split"].to_numpy(zero_copy_only=False)
    train_images = image_table["image_id"].to_numpy()[image_split == "train"]
    train = np.flatnonzero(split == "train")
    shown = true.copy()
    if len(train):
        order = np.argsort(train_images)
        positions = order[np.searchsorted(train_images, true[train], sorter=order)]
        corrupt = PROTOCOLS.load(protocol.name).corrupt
        moved = corrupt(positions, len(train_images), protocol.params.rate, np.random.RandomState(seed))
        shown[train] = train_images[moved]
    columns = {
        "caption_id": caption_table["caption_id"],
        "image_id": shown,
        "true_image_id": true,
        "mismatched": shown != true,
        "split": caption_table["split"],
    }
    return pa.table(columns)
