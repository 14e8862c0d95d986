"""The answer of a search, as a document for programs and in words."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from vse_pipe.core.console import plain
from vse_pipe.tools.search.query import TO_IMAGES

# Numbers of similar items of a hit and of unknown words in an answer, and characters of an unknown word.
SHOWN, _WORDS, _WIDEST = 20, 20, 40


@dataclass(frozen=True)
class Hit:
    """rank: from 1; score: under the criterion, larger is closer; image_id, caption_id: ids of the data set, numbers or text;
    caption_id: None if images are searched.

    text: the caption, or the image's first caption (may be empty); file: name in images.parquet, relative to the data set's root;
    alike: ids of at most SHOWN near duplicates with lower scores, best first, empty without groups; alike_count: their number;
    probability: of a match, None unless requested.
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
    """query: the sentence, or the name of the file or image; hits: best first; unknown: words that the run's vocabulary lacks;
    seconds: from the query to the hits; notes: remarks on the query.

    parts: kind, value and weight of each part, empty for a query of one part; narrowed: the limits of the hits: ``where`` with
    ``left``, the number of items that fit it, ``group`` and ``min_probability``; calibration: origin of the probabilities, see
    ``Calibration``, empty without them."""

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
    """The part of ``vse_pipe.tools.search.engine.Engine`` that answers and the web page use."""

    run: str
    inference: str
    split: str
    counts: dict[str, int]
    left_out: dict[str, int]
    named: bool

    def ask(self, parts: Any, limits: Any) -> Any: ...

    def picture(self, image_id: int | str) -> Path | None: ...

    def correction(self, direction: str) -> Any: ...


def document(engine: Searcher, answer: Answer, direction: str, reason: str) -> dict:
    """The answer with facts about the search and its correction, as ``vse-pipe search --json`` and the API of ``vse-pipe serve``
    have it. reason: why the run was chosen."""
    return {
        **asdict(answer),
        "chosen": reason,
        "split": engine.split,
        "direction": direction,
        "searched": engine.counts[_kind(direction)],
        "left_out": engine.left_out,
        "correction": engine.correction(direction).about,
    }


def remarks(content: dict) -> list[str]:
    """Remarks on the search, one sentence in each line. content: result of ``document``."""
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
    """A remark on the queries of the correction and its date."""
    about = content["correction"]
    kind = "captions" if content["direction"] == TO_IMAGES else "images"
    when = f"on {about['computed']}" if about["kept"] else "now"
    return (
        f"{content['inference']}: corrected by {about['queries']:,} {kind} of {about['bank']}, computed {when} in "
        f"{about['seconds']:.1f} s and kept"
    )


def _calibrated(content: dict) -> str:
    """A remark on the meaning of the probabilities."""
    about = content["calibration"]
    query, item = ("sentence", "image") if content["direction"] == TO_IMAGES else ("image", "caption")
    source = "" if about["run"] == content["run"] else f" of run {about['run']}"
    return (
        f"probability that one of the {about['candidates']} best of a {query} is its own {item}: {about['method']} on "
        f"{about['queries']:,} queries of {about['split']}{source}, where {about['base_rate']:.1%} are"
    )
