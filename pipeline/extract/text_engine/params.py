"""The options that methods of text features share."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import PositiveInt, StringConstraints

from pipeline.core.strict import Strict

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class TextParams(Strict):
    """The base of every method's options."""

    def files(self) -> dict[Path, str]:
        """Files outside the project that the result depends on, each with the sha256 it must have, or nothing."""
        return {}


class VectorParams(TextParams):
    """store: the type on disk; block: captions in memory at a time."""

    store: Literal["float32", "float16"] = "float32"
    block: PositiveInt = 256


class WordVectorParams(VectorParams):
    """vectors: a file of word vectors (.bin, .txt, .vec, each also .gz, or .npz); sha256: what it must have.

    lower: captions are lower-cased before words are looked up. unit: word vectors are scaled to unit length first.
    """

    vectors: str
    sha256: Digest | None = None
    lower: bool = True
    unit: bool = False

    @property
    def path(self) -> Path:
        """The file, ``~`` and all."""
        return Path(self.vectors).expanduser()

    def files(self) -> dict[Path, str]:
        return {self.path: self.sha256 or ""}
