"""What a search gives back."""

from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

# Of what is alike to a hit so many are named.
SHOWN = 20


@dataclass(frozen=True)
class Hit:
    """rank: from 1; score: under the criterion, larger is closer; image_id, caption_id: as the data set has them, numbers or text;
    caption_id: None where images are searched.

    text: the caption found, or the image's first caption (empty where it has none); file: as images.parquet names it,
    relative to the data set's root; alike: ids of the items that are all but the same and stand behind this one, better
    first, the first SHOWN, empty unless it was asked to group them, and alike_count, how many there are; probability: of a match, None unless it was asked for.
    """

    rank: int
    score: float
    image_id: int | str
    caption_id: int | str | None
    text: str
    file: str
    alike: tuple[int | str, ...] = ()
    alike_count: int = 0
    probability: float | None = None


@dataclass(frozen=True)
class Answer:
    """query: the sentence, the file or the image asked with; hits: best first; unknown: words of the sentence that the
    run's vocabulary does not hold; seconds: from the query to the hits; notes: what else to know about the query.

    parts: kind, value and weight of each part of a query of several, empty for one thing alone; narrowed: what limits the
    hits, each where it was asked for: ``where`` with ``left``, the number of items that it leaves, ``group`` and
    ``min_probability``; calibration: what probabilities come from, see ``Calibration``, empty without them."""

    query: str
    run: str
    inference: str
    hits: tuple[Hit, ...]
    unknown: tuple[str, ...]
    seconds: float
    notes: tuple[str, ...] = ()
    parts: tuple[dict, ...] = ()
    narrowed: dict = field(default_factory=dict)
    calibration: dict = field(default_factory=dict)

    def as_dict(self) -> dict:
        """For JSON."""
        return asdict(self)


class Searched(Protocol):
    """What ``document`` needs of ``vse_pipe.tools.search.engine.Engine``."""

    split: str
    counts: dict[str, int]
    left_out: dict[str, int]

    def correction(self, direction: str) -> Any: ...


def document(engine: Searched, answer: Answer, direction: str, why: str) -> dict:
    """The answer, with what was searched and what corrected it: what ``vse-pipe search --json`` prints and what the page of
    ``vse-pipe serve`` answers to programs. why: how the run was chosen."""
    return {
        **answer.as_dict(),
        "chosen": why,
        "split": engine.split,
        "direction": direction,
        "searched": engine.counts["images" if direction == "text_to_image" else "captions"],
        "left_out": engine.left_out,
        "correction": engine.correction(direction).about,
    }
