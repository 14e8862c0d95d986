"""Tar shards of webdataset: ``<key>.jpg`` beside ``<key>.txt`` or ``<key>.json``, adjacent."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from vse_pipe.core import remote
from vse_pipe.core.console import track
from vse_pipe.core.errors import InputError
from vse_pipe.pictures.address import TarMember
from vse_pipe.prepare import shards
from vse_pipe.prepare.assembly import Assembly
from vse_pipe.prepare.captions import cell_captions
from vse_pipe.prepare.formats.options import ENDINGS
from vse_pipe.prepare.formats.options import WebdatasetOptions as Params
from vse_pipe.prepare.shards import files
from vse_pipe.prepare.source import Source


def read(source: Path, out: Path, params: Params, seed: int) -> Source:
    """source: the folder of the shards. ``file`` is the address of a member, read in place. The
    option ``ids`` chooses the ids of images; captions have running numbers.

    Keys must be unique within a shard. Other members (``.cls``, ``.npy``) are not read; samples
    without an image are left out. Raises InputError naming shard and key for a
    damaged shard, interleaved or repeated keys, a sample with two images, a caption that is not
    UTF-8."""
    root, shards = files(source, params, ".tar")
    assembly = Assembly(root, in_shards=True)
    for path, split in track(iter(shards), len(shards), "reading shards"):
        for member, key, texts in _samples(root, path, params, assembly):
            chosen = params.drawn(key, seed) if split == "train" else split
            image_id = key if params.ids == "key" else None
            image = assembly.image(str(member), chosen, f"{path.name} key '{key}'", image_id)
            for text in texts:
                assembly.caption(image, text)
    return assembly.source()


def _samples(root: Path, path: Path, params: Params, assembly: Assembly) -> Iterator[tuple[TarMember, str, list[str]]]:
    shard = path.relative_to(root).as_posix()
    with remote.open_remote(path) as file:
        for key, sample in shards.samples(path, file).items():
            where = f"{path} key '{key}'"
            endings = [ending for ending in sample if f".{ending}" in ENDINGS]
            members = f"has the files {', '.join(f'.{ending}' for ending in sample)}"
            if len(endings) > 1:
                raise InputError(f"{where}: {members}; expected one image and .{params.caption}")
            if not endings:
                assembly.left_out.append(f"{where}: {members}, no image")
                continue
            written = sample.get(params.caption.lower())
            value = None if written is None else _captions(shards.text(path, file, written), params, where)
            image = replace(sample[endings[0]], file=shard)
            yield image, key, cell_captions(value, where, params.separator)


def _captions(written: str, params: Params, where: str) -> object:
    if params.caption.lower().rpartition(".")[2] != "json":
        return written
    try:
        content = json.loads(written)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: .{params.caption} is no JSON ({error})") from error
    if not isinstance(content, dict) or params.field not in content:
        raise InputError(f"{where}: .{params.caption} has no '{params.field}'; set `field` to the captions' key")
    return content[params.field]
