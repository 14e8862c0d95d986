"""The options that methods of text features share."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import PositiveInt, StringConstraints

from vse_pipe.core.strict import Strict
from vse_pipe.project.params.typed import Member
from vse_pipe.project.sources import SourceFiles

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class TextParams(Strict):
    """The base of every method's options."""

    def files(self) -> dict[Path, str]:
        """Files outside the project that the result depends on, each with the sha256 it must have, or nothing."""
        return {}

    def reads(self) -> list[SourceFiles]:
        """The same for DVC: files that the folders do not hold yet are seen when they come."""
        return [SourceFiles(path) for path in self.files()]

    def further(self) -> list[Member]:
        """Other methods that take part."""
        return []


class VectorParams(TextParams):
    """Options of methods with a vector a caption."""

    store: Literal["float32", "float16"] = "float32"
    """type on disk"""
    block: PositiveInt = 256
    """captions in memory at a time"""


class WordVectorParams(VectorParams):
    """Options of methods that read word vectors."""

    vectors: str
    """file of word vectors: .bin, .txt, .vec, each also .gz, .npz, or .npy with ``words``"""
    words: str | None = None
    """for .npy: file of the words, one a line, or Parquet with one text column"""
    sha256: Digest | None = None
    """required digest of ``vectors``"""
    lower: bool = True
    """lower-cases captions before words are looked up"""
    unit: bool = False
    """scales word vectors to unit length first"""

    @property
    def path(self) -> Path:
        """The file, ``~`` and all."""
        return Path(self.vectors).expanduser()

    @property
    def names(self) -> Path | None:
        """The file of the words, where they have one of their own."""
        return None if self.words is None else Path(self.words).expanduser()

    def files(self) -> dict[Path, str]:
        return {self.path: self.sha256 or ""} | ({} if self.names is None else {self.names: ""})
