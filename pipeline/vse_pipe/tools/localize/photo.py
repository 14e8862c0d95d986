"""A photo as a row of images.parquet names one, decoded once for all who look at it."""

import contextlib
import hashlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from vse_pipe.core.errors import UnreadableImage
from vse_pipe.pictures import images
from vse_pipe.pictures.address import Box
from vse_pipe.pictures.images import Item

_FILE = "photo"


@dataclass(frozen=True)
class Photo:
    """folder: where it lies, until ``unpacked`` ends; picture: upright, in RGB."""

    folder: Path
    digest: str
    name: str
    picture: Image.Image

    def item(self, box: Box | None = None) -> Item:
        """A box of it, or all of it as one: boxes of a picture share what was decoded."""
        return Item(0, (box or Box(0, 0, *self.picture.size)).of(_FILE), self.digest, self.name)


@contextlib.contextmanager
def unpacked(content: bytes, name: str) -> Iterator[Photo]:
    """name: for messages. Raises UnreadableImage when ``content`` is no picture that can be read."""
    with tempfile.TemporaryDirectory(prefix="vse-pipe-") as given:
        folder, digest = Path(given), hashlib.sha256(content).hexdigest()
        (folder / _FILE).write_bytes(content)
        try:
            size = images.upright_size(folder, Item(0, _FILE, digest, name))
            picture = images.load(folder, Item(0, Box(0, 0, *size).of(_FILE), digest, name))
        except UnreadableImage as error:
            raise UnreadableImage(name, error.reason) from error
        yield Photo(folder, digest, name, picture)
