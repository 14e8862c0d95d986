"""What a search gives back."""

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Hit:
    """rank: from 1; score: under the criterion, larger is closer; caption_id: None where images are searched.

    text: the caption found, or the image's first caption (empty where it has none); file: as images.parquet names it,
    relative to the data set's root.
    """

    rank: int
    score: float
    image_id: int
    caption_id: int | None
    text: str
    file: str


@dataclass(frozen=True)
class Answer:
    """query: the sentence, the file or the image asked with; hits: best first; unknown: words of the sentence that the
    run's vocabulary does not hold; seconds: from the query to the hits; notes: what else to know about the query."""

    query: str
    run: str
    inference: str
    hits: tuple[Hit, ...]
    unknown: tuple[str, ...]
    seconds: float
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict:
        """For JSON."""
        return asdict(self)
