"""The options that methods of text features share."""

from pathlib import Path
from typing import Literal

from pydantic import PositiveInt

from pipeline.params.strict import Strict


class TextParams(Strict):
    """The base of every method's options."""

    def files(self) -> list[Path]:
        """Files outside the project that the result depends on."""
        return []


class VectorParams(TextParams):
    """store: the type on disk; block: captions in memory at a time."""

    store: Literal["float32", "float16"] = "float32"
    block: PositiveInt = 256
