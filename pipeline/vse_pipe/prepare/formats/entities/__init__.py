"""Flickr30k Entities: ``Sentences/<id>.txt``, ``Annotations/<id>.xml``, the ids in ``train.txt``, ``val.txt`` and ``test.txt``.

Plummer et al., "Flickr30k Entities: Collecting Region-to-Phrase Correspondences for Richer Image-to-Sentence Models", ICCV
2015. A phrase with several boxes gets the one that encloses them, as the authors' pl-clc has it (``Entity.getGTBox``), and
coordinates count from 0: 1 less than in the files, as in their Python interface.
"""

from collections.abc import Iterator
from pathlib import Path

from vse_pipe.core.strict import Strict
from vse_pipe.project.sources import SourceFiles

SPLITS = ("train", "val", "test")


class Params(Strict):
    images: str = "flickr30k-images"
    """the folder of the pictures ``<id>.jpg``, relative to ``source``"""

    def reads(self, source: Path) -> list[SourceFiles]:
        """The lists of pictures, their sentences and annotations, and the pictures."""
        lists = tuple(source / f"{split}.txt" for split in SPLITS)
        parts = ("Sentences/{}.txt", "Annotations/{}.xml")
        texts = SourceFiles(
            source, listed_in=lists, names=lambda: (part.format(one) for one in _ids(lists) for part in parts)
        )
        pictures = SourceFiles(
            source / self.images, listed_in=lists, names=lambda: (f"{one}.jpg" for one in _ids(lists))
        )
        return [SourceFiles(source, patterns=tuple(path.name for path in lists)), texts, pictures]


def _ids(lists: tuple[Path, ...]) -> Iterator[str]:
    for path in lists:
        yield from filter(None, map(str.strip, path.read_text(encoding="utf-8-sig").splitlines()))
