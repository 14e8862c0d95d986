"""Tar shards in webdataset's layout: ``<key>.jpg`` beside ``<key>.txt`` or ``<key>.json``, the files of a key in a row."""

from typing import Annotated, Literal

from pydantic import Field

from vse_pipe.prepare.engine.shard_params import Part, ShardParams

_IMAGES = ("jpg", "jpeg", "png", "webp", "gif", "bmp", "tif", "tiff")
Ending = Annotated[str, Field(min_length=1)]


class Params(ShardParams):
    train: str = "train*.tar"
    val: Part = "val*.tar"
    test: Part = "test*.tar"
    images: Annotated[list[Ending], Field(min_length=1, default_factory=lambda: list(_IMAGES))]
    """endings of image files"""
    caption: Ending = "txt"
    """the ending of the captions' file"""
    field: str = "caption"
    """of a json file, the key whose string or list of strings they are"""
    lines: bool = False
    """every line of a text file is a caption"""
    ids: Literal["running", "key"] = "running"
    """of images: numbers in the order of the shards, or the samples' keys, which must be unique among all shards"""
