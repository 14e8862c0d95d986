"""What a search gives back, as a document for programs and in words."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from vse_pipe.core.console import plain
from vse_pipe.tools.search.query import TO_IMAGES

# Of the items that are alike to a hit so many are named; and of the unknown words, each cut after so many characters.
SHOWN, _WORDS, _WIDEST = 20, 20, 40


@dataclass(frozen=True)
class Hit:
    """rank: from 1; score: under the criterion, larger is closer; image_id, caption_id: as the data set has them, numbers or text;
    caption_id: None where images are searched.

    text: the caption found, or the image's first caption (empty where it has none); file: as images.parquet names it,
    relative to the data set's root; alike: ids of the items that are all but the same and stand behind this one, better
    first, the first SHOWN, empty without groups, and alike_count, how many there are; probability: of a match, None where it is not wanted.
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
    """query: the sentence, or the name of the file or image; hits: best first; unknown: words of the sentence that the
    run's vocabulary does not hold; seconds: from the query to the hits; notes: what else to know about the query.

    parts: kind, value and weight of each part of a query of several, empty for one part; narrowed: what limits the
    hits, if anything: ``where`` with ``left``, the number of items that it leaves, ``group`` and ``min_probability``; calibration: where
    probabilities come from, see ``Calibration``, empty without them."""

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


class Searcher(Protocol):
    """What an answer and the web page need of ``vse_pipe.tools.search.engine.Engine``."""

    run: str
    inference: str
    split: str
    counts: dict[str, int]
    left_out: dict[str, int]
    named: bool

    def ask(self, parts: Any, wanted: Any) -> Any: ...

    def picture(self, image_id: int | str) -> Path | None: ...

    def correction(self, direction: str) -> Any: ...


def document(engine: Searcher, answer: Answer, direction: str, why: str) -> dict:
    """The answer, with what was searched and what corrected it: what ``vse-pipe search --json`` prints and what the page of
    ``vse-pipe serve`` answers to programs. why: how the run was chosen."""
    return {
        **asdict(answer),
        "chosen": why,
        "split": engine.split,
        "direction": direction,
        "searched": engine.counts[_kind(direction)],
        "left_out": engine.left_out,
        "correction": engine.correction(direction).about,
    }


def remarks(content: dict) -> list[str]:
    """What to know beside the hits, a sentence each. content: as of ``document``."""
    lines = [f"run {content['run']} ({content['chosen']})"]
    if content["unknown"]:
        words = [plain(shortened(word)) for word in content["unknown"][:_WORDS]]
        more = len(content["unknown"]) - len(words)
        lines.append(f"not in the vocabulary: {', '.join(words)}" + (f" and {more} more" if more else ""))
    lines += content["notes"]
    if (where := content["narrowed"].get("where")) is not None:
        lines.append(
            f"{content['narrowed']['left']:,} of {content['searched']:,} {_kind(content['direction'])} fit {where}"
        )
    if content["calibration"]:
        lines.append(_calibrated(content))
    if not content["hits"]:
        least = content["narrowed"].get("min_probability")
        lines.append("nothing fits" + ("" if least is None else f" with a probability of {least:g} or more"))
    if content["left_out"]:
        images, captions = (content["left_out"][kind] for kind in ("images", "captions"))
        nor = f", nor their {captions:,} captions" if captions else ""
        lines.append(f"{images:,} images that could not be read are not searched{nor}")
    return lines + ([_corrected(content)] if content["correction"] else [])


def shortened(word: str) -> str:
    return word if len(word) <= _WIDEST else f"{word[:_WIDEST]}..."


def _kind(direction: str) -> str:
    return "images" if direction == TO_IMAGES else "captions"


def _corrected(content: dict) -> str:
    """Whose queries corrected the scores, and when that was computed."""
    about = content["correction"]
    kind = "captions" if content["direction"] == TO_IMAGES else "images"
    when = f"on {about['computed']}" if about["kept"] else "now"
    return (
        f"{content['inference']}: corrected by {about['queries']:,} {kind} of {about['bank']}, computed {when} in "
        f"{about['seconds']:.1f} s and kept"
    )


def _calibrated(content: dict) -> str:
    """What a probability is of."""
    about = content["calibration"]
    query, item = ("sentence", "image") if content["direction"] == TO_IMAGES else ("image", "caption")
    whose = "" if about["run"] == content["run"] else f" of run {about['run']}"
    return (
        f"probability that one of the {about['candidates']} best of a {query} is its own {item}: {about['method']} on "
        f"{about['queries']:,} queries of {about['split']}{whose}, where {about['base_rate']:.1%} are"
    )
