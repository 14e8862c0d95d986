"""Selective search of OpenCV: segments of a picture, merged into larger and larger ones."""

from typing import Literal

from pydantic import PositiveInt

from vse_pipe.core.strict import Strict
from vse_pipe.project.sources import SourceFiles


class Params(Strict):
    mode: Literal["fast", "quality"] = "fast"
    """``quality`` segments in more colour spaces and sizes: more boxes, several times the time"""
    longer: PositiveInt = 500
    """a picture whose longer side has more pixels is scaled to so many"""

    def reads(self) -> list[SourceFiles]:
        return []
