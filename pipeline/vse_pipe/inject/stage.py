"""inject: pair every caption with an image; only train pairs can be mismatched."""

import time
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Int

from vse_pipe.artifacts import captions, images, joins, pairs
from vse_pipe.core.console import say
from vse_pipe.core.files import whole_folder
from vse_pipe.core.locks import claim
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Member, Params
from vse_pipe.project.registry import PROTOCOLS

UNKNOWN = "unknown"


def inject(params: Params, noise: str) -> Path:
    """Write data/inject/<dataset>/<noise>/pairs.parquet. With rate 0 all pairs stay as they are.

    A data set without captions has no pairs; runs that train nothing need none. Raises MissingResource, IntegrityError
    or InputError when protocol ``file`` cannot use its index file."""
    started = time.monotonic()
    node = params.noises[noise]
    out = paths.injected(node.dataset, noise)
    source = paths.prepared(node.dataset)
    with claim(out):
        caption_table = captions.read(source, columns=("caption_id", "image_id", "split"))
        table = _pairs(images.read(source), caption_table, node.protocol, params.seed)
        train = int(pc.sum(pc.equal(table["split"], "train")).as_py() or 0)
        column = table.filter(pc.equal(table["split"], "train"))["mismatched"]
        share = UNKNOWN if column.null_count else f"{pc.mean(column.cast(pa.int8())).as_py() or 0.0:.5f}"
        about = {"protocol": node.protocol.name, "seed": str(params.seed), "mismatched": share}
        with whole_folder(out, [pairs.NAME]) as folder:
            pairs.write(folder, table, about | joins.made_of(source))
    paths.record_seconds(out, time.monotonic() - started)
    if not table.num_rows:
        say(f"inject {noise}: data set '{node.dataset}' has no captions, so there are no pairs")
        return out
    mismatched = f"{float(share):.2%}" if share != UNKNOWN else "an unknown share"
    say(f"inject {noise}: {train} train pairs, {mismatched} mismatched (protocol {node.protocol.name})")
    return out


def _pairs(image_table: pa.Table, caption_table: pa.Table, protocol: Member, seed: int) -> pa.Table:
    """The rows of pairs.parquet."""
    true = caption_table["image_id"].to_numpy()
    train_images = image_table["image_id"].to_numpy()[pc.equal(image_table["split"], "train").to_numpy()]
    train = np.flatnonzero(pc.equal(caption_table["split"], "train").to_numpy())
    member = PROTOCOLS.load(protocol.name)
    image_ids, unknown = true.copy(), np.zeros(len(true), bool)
    if len(train):
        basis = _basis(protocol, len(train_images), len(train))
        image_ids[train] = shown_images(true[train], train_images, member, basis, seed)
        unknown[train] = not PROTOCOLS.traits(protocol.name).knows_truth
    columns = {
        "caption_id": caption_table["caption_id"],
        "image_id": image_ids,
        "true_image_id": pa.array(true, mask=unknown),
        "mismatched": pa.array(image_ids != true, mask=unknown),
        "split": caption_table["split"],
    }
    return pa.table(columns)


def shown_images(
    owners: Int[np.ndarray, " captions"],
    images: Int[np.ndarray, " images"],
    member: ModuleType,
    basis: float | np.ndarray | None,
    seed: int,
) -> Int[np.ndarray, " captions"]:
    """The image that each caption is shown with. owners: its own image; images: all, each once; member: a protocol;
    basis: the rate or the index of the protocol.

    Protocols use positions in ``images``, the order of the data set, as the authors' loaders do."""
    order = np.argsort(images)
    positions = order[np.searchsorted(images, owners, sorter=order)]
    return images[member.corrupt(positions, len(images), basis, np.random.RandomState(seed))]


def _basis(protocol: Member, n_images: int, n_captions: int) -> float | np.ndarray | None:
    """The index file or the rate that the protocol uses; None for a protocol without both."""
    decides_by = PROTOCOLS.traits(protocol.name).decides_by
    if decides_by == "index":
        return pairs.read_noise_index(Path(protocol.params.path), protocol.params.sha256, n_images, n_captions)
    return protocol.params.rate if decides_by == "rate" else None
