"""A folder of pictures, and those in it, without captions: what is embedded and searched, never trained on or measured."""

from pathlib import Path

from vse_pipe.core.strict import Strict
from vse_pipe.project.sources import SourceFiles

_KINDS = "jpg jpeg jpe jfif png webp gif bmp tif tiff ppm pgm pbm pnm jp2 j2k avif heic heif"
ENDINGS = tuple(f".{kind}" for kind in _KINDS.split())


class Params(Strict):
    def reads(self, source: Path) -> list[SourceFiles]:
        return [SourceFiles(source, endings=ENDINGS)]
