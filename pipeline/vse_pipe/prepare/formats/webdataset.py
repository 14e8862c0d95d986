"""Tar shards in webdataset's layout: ``<key>.jpg`` beside ``<key>.txt`` or ``<key>.json``, the files of a key in a row."""

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
    """source: the folder of the shards. ``file`` is the address of a member, read in place; ids of images are as ``ids`` says, those
    of captions running numbers.

    Keys must be unique within a shard. Other members (``.cls``, ``.npy``) are not read. Raises InputError naming shard and
    key: a damaged shard, keys that are interleaved or repeated, a sample without image or caption or with two images, a
    caption that is empty or not UTF-8.
    """
    root, shards = files(source, params, ".tar")
    found = Assembly(root, out)
    for path, split in track(iter(shards), len(shards), "reading shards"):
        count = found.count
        for member, key, texts in _samples(root, path, params):
            chosen = drawn(params, key, seed) if split == "train" else split
            found.add(str(member), chosen, f"{path.name} key '{key}'", texts)
            if params.ids == "key":
                found.name(key, f"{path.name} key '{key}'")
        if found.count == count:
            raise InputError(f"{path}: holds no samples")
    return found.source()


def _samples(root: Path, path: Path, params: Params) -> Iterator[tuple[TarMember, str, list[str]]]:
    shard = path.relative_to(root).as_posix()
    with remote.open_remote(path) as file:
        for sample in shards.samples(path, file):
            where = f"{path} key '{sample.key}'"
            found = [ending for ending in params.images if ending.lower() in sample.members]
            if len(found) != 1 or params.caption.lower() not in sample.members:
                raise InputError(
                    f"{where}: has the files {', '.join(f'.{ending}' for ending in sample.members)}; expected one image and "
                    f".{params.caption}"
                )
            written = shards.text(path, file, sample.members[params.caption.lower()])
            image = replace(sample.members[found[0].lower()], shard=shard)
            yield image, sample.key, [caption_text(one, where) for one in _captions(written, params, where)]


def _captions(written: str, params: Params, where: str) -> list[str]:
    if params.caption.lower().rpartition(".")[2] != "json":
        return [line.removesuffix("\r") for line in written.split("\n")] if params.lines else [written]
    try:
        content = json.loads(written)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: .{params.caption} is no JSON ({error})") from error
    found = content.get(params.field) if isinstance(content, dict) else None
    texts = [found] if isinstance(found, str) else found
    if not isinstance(texts, list) or not texts or not all(isinstance(one, str) for one in texts):
        raise InputError(
            f"{where}: .{params.caption} has no string, or list of strings, '{params.field}'; set `field` to the captions' key"
        )
    return texts
