"""Boxes cut out of decoded pictures, each picture decoded once for the boxes that are asked for one after the other."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future

from PIL import Image

from vse_pipe.core.errors import UnreadableImage
from vse_pipe.pictures.address import Box

# Readers work at once on as many rows as a batch has: on one picture with many boxes, or on many with few.
MOST = 32
# Of the pictures kept together; one that is larger is kept alone.
LARGEST = 2**28
_OF_PIXEL = 4  # bytes, in Pillow's memory


def cropped(image: Image.Image, box: Box, name: str) -> Image.Image:
    """A copy of ``box`` of an upright picture. Raises UnreadableImage when it has no area or reaches outside."""
    right, bottom = box.left + box.width, box.top + box.height
    told = f"{box.width} x {box.height} at {box.left},{box.top}"
    if not box.width or not box.height:
        raise UnreadableImage(name, f"names a box of no area ({told})")
    if right > image.width or bottom > image.height:
        raise UnreadableImage(
            name, f"names a box ({told}) that reaches outside the picture of {image.width} x {image.height}"
        )
    return image.crop((box.left, box.top, right, bottom))


class Decoded:
    """Pictures that threads decode and share. most: how many are kept; largest: their bytes together, but for one picture."""

    def __init__(self, most: int = MOST, largest: int = LARGEST) -> None:
        self._most, self._largest = most, largest
        self._kept: OrderedDict[Hashable, Future[Image.Image]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], Image.Image]) -> Image.Image:
        """The picture of ``key``, made by whoever asks first while the others wait for it. What ``make`` raises is raised and
        not kept: each has its own message. Nobody may change the picture."""
        with self._lock:
            waiting = self._kept.get(key)
            mine: Future[Image.Image] | None = Future() if waiting is None else None
            if mine is not None:
                self._kept[key] = mine
            self._kept.move_to_end(key)
        if mine is None:
            assert waiting is not None
            return make() if waiting.exception() else waiting.result()
        try:
            made = make()
        except BaseException as error:
            with self._lock:
                self._kept.pop(key, None)
            mine.set_exception(error)
            raise
        mine.set_result(made)
        self._forget()
        return made

    def _forget(self) -> None:
        with self._lock:
            while len(self._kept) > self._most or (len(self._kept) > 1 and self._bytes() > self._largest):
                self._kept.popitem(last=False)

    def _bytes(self) -> int:
        done = [one.result() for one in self._kept.values() if one.done() and not one.exception()]
        return sum(_OF_PIXEL * image.width * image.height for image in done)
