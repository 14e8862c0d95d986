"""A table with the header ``image,caption`` or ``image,caption,split``, maybe ``image_id`` and ``caption_id``: one row a
caption, RFC 4180 quoting, UTF-8."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from vse_pipe.core.strict import Strict
from vse_pipe.project.sources import SourceFiles

_Share = Annotated[float, Field(ge=0, lt=1)]


class Params(Strict):
    images: str = "."
    """folder of the images, relative to the folder of the table"""
    val: _Share = 0.1
    """shares when there is no split column"""
    test: _Share = 0.1
    """shares when there is no split column"""

    @model_validator(mode="after")
    def _leave_some_to_train(self) -> "Params":
        if self.val + self.test >= 1:
            raise ValueError(f"val and test must leave a share to train, got {self.val} + {self.test}")
        return self

    def reads(self, source: Path) -> list[SourceFiles]:
        """The table, and the pictures that it names."""
        pictures = SourceFiles(source.parent / self.images, listed_in=(source,), names=lambda: _named(source))
        return [SourceFiles(source), pictures]


def _named(source: Path) -> Iterator[str]:
    """The pictures in a table's rows. Raises ValueError for a table without them; `prepare` says what is wrong in it."""
    with source.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file)
        column = next(rows, []).index("image")
        yield from (cells[column] for cells in rows if len(cells) > column)
