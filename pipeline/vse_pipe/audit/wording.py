"""Captions that say nothing, in another language or of many pictures, and captions that one picture
has twice.

A word is looked up once, however many captions have it."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from vse_pipe.core.text import in_plain_form
from vse_pipe.extract.text_methods import STOP_WORDS

_FILE = (
    r"(?i)^\s*(\S+\.(jpe?g|png|gif|webp|bmp|tiff?|heic|avif|svg)"
    r"|(img|dsc|dscn|dscf|pict|pxl|image|photo|screenshot)[_ -]?\d[\d_ -]*)\s*$"
)
# Doubt, pattern and reason of captions without content.
_PATTERNS = (
    (1.0, r"^[^\p{L}\p{N}]*$", "no words"),
    (0.95, r"(?i)^\s*(https?://|www\.)\S+\s*$", "an address and no words"),
    (0.95, _FILE, "a file name"),
)
_PICTURE = "image images photo photos photograph picture pictures pic pics img foto bild thumbnail caption description"
_GENERIC = STOP_WORDS.union(_PICTURE.split(" "), ["untitled", "unknown", "none", "null", "nan", "na", "placeholder"])
# Languages in Latin letters whose words simplemma has.
_LANGUAGES = {"en": "English", "de": "German", "fr": "French", "es": "Spanish", "it": "Italian"}
_LANGUAGES |= {"nl": "Dutch", "pt": "Portuguese"}
# A caption is of another language from so many words on that the main language lacks.
_UNKNOWN = 3

# The doubt of each caption, and why.
Reason = tuple[np.ndarray, str | np.ndarray]


def style(doubt: np.ndarray) -> float:
    """1, falling to 0.5 where a fifth of the data set has it: a style. doubt: of all rows."""
    return float(np.interp((doubt >= 0.3).mean() if len(doubt) else 0.0, [0.02, 0.2], [1, 0.5]))


@dataclass(frozen=True)
class PlainWords:
    """Captions in plain form, their vocabulary, and counts (captions, words)."""

    plain: pa.Array
    vocabulary: pa.Array
    bags: sparse.csr_array

    @classmethod
    def of(cls, texts: pa.Array) -> "PlainWords":
        plain = in_plain_form(texts)
        lists = pc.split_pattern(plain, " ")
        words = lists.flatten().dictionary_encode()
        ends = np.cumsum([0, *pc.list_value_length(lists).to_pylist()])
        ones, shape = np.ones(len(words.indices)), (len(plain), len(words.dictionary))
        bags = sparse.csr_array((ones, words.indices.to_numpy(), ends), shape=shape)
        bags.sum_duplicates()
        return cls(plain, words.dictionary, bags)

    def share(self, is_counted: np.ndarray) -> np.ndarray:
        """The share of each caption's words that are counted. is_counted: of the vocabulary."""
        return self.bags @ is_counted.astype(float) / self.bags.sum(axis=1)

    def codes(self) -> np.ndarray:
        """Equal for captions that say the same."""
        return self.plain.dictionary_encode().indices.to_numpy()


def findings(captions: pa.Table) -> pd.DataFrame:
    """Rows of the kinds ``caption`` and ``duplicate_caption``."""
    if not captions.num_rows:
        return pd.DataFrame({"kind": [], "id": [], "doubt": [], "why": [], "proposal": []})
    texts, ids = captions["text"].combine_chunks(), captions["caption_id"].to_numpy()
    words, images = PlainWords.of(texts), pd.Series(captions["image_id"].to_numpy())
    reasons = [*_empty(words, texts), _letters(words), _language(words), _common(words, images)]
    doubts = np.stack([doubt for doubt, _ in reasons])
    whys = np.stack([np.broadcast_to(np.asarray(why, object), len(ids)) for _, why in reasons])
    surest, places = doubts.argmax(axis=0), np.flatnonzero(doubts.max(axis=0))
    rows = {"kind": "caption", "id": ids[places], "doubt": doubts.max(axis=0)[places]}
    rows |= {"why": whys[surest[places], places], "proposal": "drop"}
    return pd.concat([pd.DataFrame(rows), _repeated(words, images.to_numpy(), ids)])


def _empty(words: PlainWords, texts: pa.Array) -> list[Reason]:
    """Captions without content: doubt 1 without a word, else 0.95, less if common."""

    def matches(column: pa.Array, pattern: str) -> np.ndarray:
        return pc.match_substring_regex(column, pattern).to_numpy(zero_copy_only=False).astype(float)

    reasons: list[Reason] = [(doubt * matches(texts, pattern), why) for doubt, pattern, why in _PATTERNS]
    is_generic = pc.is_in(words.vocabulary, pa.array(sorted(_GENERIC))).to_numpy(zero_copy_only=False)
    digits, generic = matches(words.plain, r"^[\p{N} ]+$"), (words.share(is_generic) == 1).astype(float)
    reasons.append((0.95 * digits * style(digits), "only digits"))
    reasons.append((0.95 * generic * style(generic), "says nothing of the picture"))
    return reasons


def _letters(words: PlainWords) -> Reason:
    """Captions in Latin letters among others, and in other letters among Latin ones: up to 0.95, by
    their share of letters."""
    counts = [pc.count_substring_regex(words.plain, pattern).to_numpy() for pattern in (r"\p{Latin}", r"\p{L}")]
    latin, letters = counts
    share = latin / letters.clip(1)
    share = 1 - share if 2 * latin.sum() > letters.sum() else share
    doubt = 0.95 * np.clip((share - 0.3) / 0.4, 0, 1) * (letters > 0)
    return doubt * style(doubt), "in other letters than the rest"


def _language(words: PlainWords) -> Reason:
    """Captions with three words or more that the main language lacks and another one has, by three
    tenths of their words at least; doubt by that difference, up to 0.95. Names and misspellings are
    in no dictionary and count for none."""
    from simplemma import is_known

    vocabulary, counts = words.vocabulary.to_pylist(), words.bags.sum(axis=1)
    shares = np.zeros((len(_LANGUAGES), len(counts)))
    for place, language in enumerate(_LANGUAGES):
        is_in = [word != "" and is_known(word, lang=language, low_memory=True) for word in vocabulary]
        shares[place] = words.share(np.array(is_in))
    main = shares.mean(axis=1).argmax()
    best, unknown = shares.max(axis=0), counts * (1 - shares[main])
    is_foreign = (shares[main].mean() >= 0.6) & (best > 0.6) & (unknown >= _UNKNOWN)
    doubt = 0.95 * np.clip((best - shares[main] - 0.2) / 0.4, 0, 1) * is_foreign
    names = np.array([*_LANGUAGES.values()], object)[shares.argmax(axis=0)]
    return doubt * style(doubt), "in another language than the rest: " + names


def _common(words: PlainWords, images: pd.Series) -> Reason:
    """Captions that three pictures or more have: doubt 0.2 for 3, 0.5 for 10, 0.9 for 50."""
    count = images.groupby(words.codes()).transform("nunique").to_numpy()
    doubt = np.interp(np.log(count), np.log([2, 3, 10, 50]), [0, 0.2, 0.5, 0.9])
    return doubt, count.astype(str).astype(object) + " pictures have this caption"


def _repeated(words: PlainWords, images: np.ndarray, ids: np.ndarray) -> pd.DataFrame:
    """``duplicate_caption``: doubt 1 for the words of another caption of the image, 0.85 in
    another order."""
    table = pd.DataFrame({"id": ids, "image": images, "text": words.plain.to_pylist()}).sort_values("id")
    table["words"] = [" ".join(sorted(text.split(" "))) for text in table["text"]]
    first = table.groupby(["image", "words"]).transform("first")
    is_same = first["text"] == table["text"]
    whys = "caption " + first["id"].astype(str) + " of this picture says the same"
    whys += np.where(is_same, "", " in another order")
    rows = table.assign(other=first["id"], doubt=np.where(is_same, 1.0, 0.85), why=whys)
    rows = rows[rows["id"] != rows["other"]]
    return rows.assign(kind="duplicate_caption", proposal="merge")
