"""Tar shards in webdataset's layout: ``<key>.jpg`` beside ``<key>.txt`` or ``<key>.json``, the files of a key in a row."""

from typing import Annotated

from pydantic import Field

from pipeline.prepare.engine.shard_params import Part, ShardParams

_IMAGES = ("jpg", "jpeg", "png", "webp", "gif", "bmp", "tif", "tiff")
Ending = Annotated[str, Field(min_length=1)]


class Params(ShardParams):
    """train, val, test: see ``ShardParams``. images: endings of image files; caption: the ending of the captions' file; field:
    of a json file, the key whose string or list of strings they are; lines: every line of a text file is a caption.
    """

    train: str = "train*.tar"
    val: Part = "val*.tar"
    test: Part = "test*.tar"
    images: Annotated[list[Ending], Field(min_length=1, default_factory=lambda: list(_IMAGES))]
    caption: Ending = "txt"
    field: str = "caption"
    lines: bool = False
