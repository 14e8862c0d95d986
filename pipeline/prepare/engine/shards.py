"""Which files a data set of shards consists of, and which split each of them belongs to."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from pipeline.artifacts.names import TextIds
from pipeline.core.errors import InputError
from pipeline.core.inside import inside
from pipeline.pictures.address import path_of
from pipeline.prepare.engine.scan import scan
from pipeline.prepare.engine.shard_params import ShardParams
from pipeline.prepare.engine.source import Source, caption_table, drawn_split, existing, image_table, numbered


def drawn(params: ShardParams, name: str, seed: int) -> str:
    """The split of an image of a train file."""
    val, test = (one if isinstance(one, int | float) else 0.0 for one in (params.val, params.test))
    return drawn_split(name, val, test, seed)


def files(source: Path, params: ShardParams, suffix: str) -> tuple[Path, list[tuple[Path, str]]]:
    """The image root, and each file with its split, by split and name. source: their folder, or a file that is all of
    train. Raises InputError for a pattern without files, a file of two splits, another suffix, a file outside of the folder.
    """
    if existing(source).is_file():
        found = {"train": [source]}
        root = source.parent
    else:
        root = source
        found = {
            split: sorted(path for path in root.glob(pattern) if path.is_file())
            for split in ("train", "val", "test")
            if isinstance(pattern := getattr(params, split), str)
        }
    pairs = [(path, split) for split, group in found.items() for path in group]
    for split, group in found.items():
        if not group:
            advice = "" if split == "train" else "; name others, or the share of train that is to be drawn for it"
            raise InputError(f"{root}: no file matches {split}: '{getattr(params, split)}'{advice}")
    seen: dict[Path, str] = {}
    for path, split in pairs:
        if path in seen:
            raise InputError(f"{path}: the patterns of {seen[path]} and {split} both match it")
        seen[path] = split
        if path.suffix != suffix:
            raise InputError(f"{path}: expected a file that ends in {suffix}, unpacked: images are read in place")
        name = str(path.relative_to(root))
        if path_of(name) != name:
            raise InputError(f"{path}: its name reads as a place in {path_of(name)!r}; rename it")
        inside(root, name, str(root))
    return root, pairs


def assembled(
    root: Path,
    images: Sequence[tuple[str, str, str]],
    captions: Sequence[Sequence[str]],
    ids: Sequence[int | str] | None = None,
) -> Source:
    """images: address, split and where it stands, of each image; captions: its texts. ids: of the images, running numbers where
    there are none, as captions always have."""
    scanned = scan(root, [file for file, _, _ in images], lambda number: images[number][2], in_shards=True)
    splits = [split for _, split, _ in images]
    sizes = scanned.widths, scanned.heights, scanned.digests
    keys, named = numbered(range(len(images)) if ids is None else ids, "image_id", lambda number: images[number][2])
    table = image_table(keys, [file for file, _, _ in images], splits, *sizes)
    owners = [number for number, texts in enumerate(captions) for _ in texts]
    texts = [text for group in captions for text in group]
    described = [keys[owner] for owner in owners], texts, [splits[owner] for owner in owners]
    told: pa.Table = caption_table(range(len(texts)), *described)
    return Source(table, told, str(root), scanned.broken, names=TextIds.of(**named) if named else None)
