"""Tar shards in webdataset's layout: ``<key>.jpg`` beside ``<key>.txt`` or ``<key>.json``, adjacent for each key."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from vse_pipe.core import remote
from vse_pipe.core.console import track
from vse_pipe.core.errors import InputError
from vse_pipe.pictures.address import TarMember
from vse_pipe.prepare import shards
from vse_pipe.prepare.formats.options import WebdatasetOptions as Params
from vse_pipe.prepare.shards import Assembly, drawn, files
from vse_pipe.prepare.source import Source, caption_text


def read(source: Path, out: Path, params: Params, seed: int) -> Source:
    """source: the folder of the shards. ``file`` is the address of a member, read in place. The option ``ids`` chooses
    the ids of images; captions have running numbers.

    Keys must be unique within a shard. Other members (``.cls``, ``.npy``) are not read. Raises InputError naming shard
    and key for a damaged shard, interleaved or repeated keys, a sample without image or caption or with two images, a
    caption that is empty or not UTF-8."""
    root, shards = files(source, params, ".tar")
    assembly = Assembly(root, out)
    for path, split in track(iter(shards), len(shards), "reading shards"):
        count = assembly.count
        for member, key, texts in _samples(root, path, params):
            chosen = drawn(params, key, seed) if split == "train" else split
            assembly.add(str(member), chosen, f"{path.name} key '{key}'", texts)
            if params.ids == "key":
                assembly.name(key, f"{path.name} key '{key}'")
        if assembly.count == count:
            raise InputError(f"{path}: holds no samples")
    return assembly.source()


def _samples(root: Path, path: Path, params: Params) -> Iterator[tuple[TarMember, str, list[str]]]:
    shard = path.relative_to(root).as_posix()
    with remote.open_remote(path) as file:
        for sample in shards.samples(path, file):
            where = f"{path} key '{sample.key}'"
            endings = [ending for ending in params.images if ending.lower() in sample.members]
            if len(endings) != 1 or params.caption.lower() not in sample.members:
                raise InputError(
                    f"{where}: has the files {', '.join(f'.{ending}' for ending in sample.members)}; expected one image and .{params.caption}"
                )
            written = shards.text(path, file, sample.members[params.caption.lower()])
            image = replace(sample.members[endings[0].lower()], shard=shard)
            yield image, sample.key, [caption_text(caption, where) for caption in _captions(written, params, where)]


def _captions(written: str, params: Params, where: str) -> list[str]:
    if params.caption.lower().rpartition(".")[2] != "json":
        return [line.removesuffix("\r") for line in written.split("\n")] if params.lines else [written]
    try:
        content = json.loads(written)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: .{params.caption} is no JSON ({error})") from error
    value = content.get(params.field) if isinstance(content, dict) else None
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not texts or not all(isinstance(entry, str) for entry in texts):
        raise InputError(
            f"{where}: .{params.caption} has no string, or list of strings, '{params.field}'; set `field` to the captions' key"
        )
    return texts
