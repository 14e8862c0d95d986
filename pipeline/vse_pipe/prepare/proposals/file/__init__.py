"""Boxes that somebody has, of EdgeBoxes for one: ``.npz`` or ``.mat`` with arrays, ``.csv`` with columns."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from vse_pipe.core.strict import Digest, Strict
from vse_pipe.project.sources import SourceFiles
from vse_pipe.project.traits import ProposalTraits

TRAITS = ProposalTraits(reads="path")


class Params(Strict):
    path: Annotated[str, Field(pattern=r"\.(npz|mat|csv)$")]
    """of arrays ``image`` (n), ``boxes`` (n, 4) and, where there are any, ``scores`` (n), or a table
    ``image,x1,y1,x2,y2[,score]``; without scores the first boxes are the best"""
    sha256: Digest | None = None
    """the digest of that file; any other is refused"""
    by: Literal["stem", "file", "image_id"] = "stem"
    """what ``image`` says of a picture: its file's name without folder and ending, ``file`` as images.parquet has it, or its id"""
    form: Literal["corners", "sizes"] = "corners"
    """of a box: x1, y1, x2, y2, both corners inside, or x, y, width, height"""
    first_pixel: Literal[0, 1] = 0
    """the number of the first pixel, 1 in MATLAB"""

    def reads(self) -> list[SourceFiles]:
        return [SourceFiles(Path(self.path))]
