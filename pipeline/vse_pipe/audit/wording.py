"""Captions that say nothing, in another language or of many pictures, and captions that one picture has twice.

Work is done on columns and on the vocabulary: a word is looked up once, however many captions have it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.audit.duplicates import grouped, pairs_of
from vse_pipe.core.text import in_plain_form
from vse_pipe.extract.text_methods import STOP_WORDS

_URL = r"(?i)^\s*(https?://|www\.)\S+\s*$"
_FILE = (
    r"(?i)^\s*(\S+\.(jpe?g|png|gif|webp|bmp|tiff?|heic|avif|svg)"
    r"|(img|dsc|dscn|dscf|pict|pxl|image|photo|screenshot)[_ -]?\d[\d_ -]*)\s*$"
)
_GENERIC = frozenset(
    [
        "image",
        "images",
        "photo",
        "photos",
        "photograph",
        "picture",
        "pictures",
        "pic",
        "pics",
        "img",
        "foto",
        "bild",
        "untitled",
        "unknown",
        "none",
        "null",
        "nan",
        "na",
        "placeholder",
        "thumbnail",
        "caption",
        "description",
    ]
)
# Writing systems; those of East Asia are mixed within a sentence.
_SCRIPTS = {
    "Latin": r"\p{Latin}",
    "East Asian": r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}]",
    **{name: rf"\p{{{name}}}" for name in ("Cyrillic", "Greek", "Arabic", "Hebrew", "Devanagari", "Thai")},
}
# Languages in Latin letters whose words simplemma has; its dictionaries take 0.2 to 3 s each to load.
LANGUAGES = {
    "en": "English",
    "de": "German",
    "fr": "French",
    "es": "Spanish",
    "it": "Italian",
    "nl": "Dutch",
    "pt": "Portuguese",
}
# Writing systems without spaces between words.
_UNSPACED = r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}]"
# Captions of an image that are compared with each other.
_NEIGHBOURS = 20
_LEAST_WORDS = 4
_COMMON = 500
# Words outside of the main language, from which a caption is looked up in other languages.
_UNKNOWN = 3


def style(doubt: np.ndarray) -> float:
    """1, falling to 0.5 where a fifth of the data set has the defect: that is its style. doubt: of all rows."""
    return float(np.interp((doubt >= 0.3).mean() if len(doubt) else 0.0, [0.02, 0.2], [1, 0.5]))


@dataclass(frozen=True)
class PlainWords:
    """Captions in plain form.

    plain: one text a caption; vocabulary: the words; codes: int, the words of all captions; owners: the caption of each."""

    plain: pa.Array
    vocabulary: pa.Array
    codes: np.ndarray
    owners: np.ndarray

    @classmethod
    def of(cls, texts: pa.Array) -> "PlainWords":
        plain = in_plain_form(texts)
        lists = pc.split_pattern(plain, " ")
        words = lists.flatten()
        owners = np.repeat(np.arange(len(plain)), pc.list_value_length(lists).to_numpy())
        is_word = pc.not_equal(words, "").to_numpy(zero_copy_only=False)
        encoded = words.filter(pa.array(is_word)).dictionary_encode()
        return cls(plain, encoded.dictionary, encoded.indices.to_numpy(), owners[is_word])

    def share(self, mask: np.ndarray) -> np.ndarray:
        """For each caption, the share of its words for which ``mask`` of the vocabulary is true; NaN without words."""
        with np.errstate(invalid="ignore"):
            return np.bincount(self.owners, mask[self.codes], len(self.plain)) / self.counts

    @cached_property
    def counts(self) -> np.ndarray:
        return np.bincount(self.owners, minlength=len(self.plain))


def findings(captions: pa.Table, copies: Mapping[int, int]) -> pd.DataFrame:
    """Rows of the kinds ``caption`` and ``duplicate_caption``. copies: the image_id that stays of each copy, so that a
    caption of two copies is no caption of two pictures."""
    if not captions.num_rows:
        return pd.DataFrame({"kind": [], "id": [], "doubt": [], "why": [], "proposal": []})
    words = PlainWords.of(captions["text"].combine_chunks())
    images = pd.Series(captions["image_id"].to_numpy())
    ids = captions["caption_id"].to_numpy()
    repeated = _repeated(words, images.to_numpy(), ids)
    reasons = [
        *_empty(words, captions["text"].combine_chunks()),
        _foreign(words),
        _common(words, images.replace(dict(copies)).to_numpy()),
    ]
    doubts = np.stack([doubt for doubt, _ in reasons])
    surest, doubt = doubts.argmax(axis=0), doubts.max(axis=0)
    places = np.flatnonzero(doubt > 0)
    whys = [reasons[reason][1] for reason in surest[places].tolist()]
    whys = [why if isinstance(why, str) else why[place] for why, place in zip(whys, places.tolist(), strict=True)]
    rows = pd.DataFrame({"kind": "caption", "id": ids[places], "doubt": doubt[places], "why": whys, "proposal": "drop"})
    return pd.concat([rows, repeated])


Reason = tuple[np.ndarray, str | np.ndarray]


def _empty(words: PlainWords, texts: pa.Array) -> list[Reason]:
    """Captions without content: doubt 1 without a word, 0.95 for addresses, file names, numbers and "a photo", 0.7 for
    function words alone, 0.4 for a single word, less where the data set has many such captions."""

    def matches(column: pa.Array, pattern: str) -> np.ndarray:
        return pc.match_substring_regex(column, pattern).to_numpy(zero_copy_only=False).astype(float)

    def within(names: frozenset[str]) -> np.ndarray:
        return pc.is_in(words.vocabulary, pa.array(sorted(names))).to_numpy(zero_copy_only=False)

    function_words = words.share(within(STOP_WORDS)) == 1
    generic = (words.share(within(STOP_WORDS | _GENERIC)) == 1) & ~function_words
    lone = (words.counts == 1) * (1 - matches(words.plain, _UNSPACED))
    no_letters = (words.counts > 0) * (1 - matches(words.plain, r"\p{L}"))
    return [
        ((words.counts == 0).astype(float), "no words"),
        (0.95 * matches(texts, _URL), "an address and no words"),
        (0.95 * matches(texts, _FILE), "a file name"),
        (0.95 * no_letters * style(no_letters), "only digits"),
        (0.95 * generic * style(generic), "says nothing of the picture"),
        (0.7 * function_words * style(function_words), "only function words"),
        (0.4 * lone * style(lone), "a single word"),
    ]


def _foreign(words: PlainWords) -> Reason:
    """Captions in other letters or in another language than most.

    Letters: 0.95 where most are of another writing system. Language: among captions with three words or more, and
    half or more, that the main language lacks, those with more words, by three tenths at least, of another one; doubt by that
    difference, up to 0.95. Names and misspellings are in no dictionary and count for none. Languages as ``LANGUAGES``."""
    counts = np.stack([pc.count_substring_regex(words.plain, pattern).to_numpy() for pattern in _SCRIPTS.values()])
    main = int(counts.sum(axis=1).argmax())
    with np.errstate(invalid="ignore"):
        share = np.nan_to_num(1 - counts[main] / counts.sum(axis=0))
    doubt = 0.95 * np.clip((share - 0.3) / 0.4, 0, 1)
    names = np.array([f"{name} letters" for name in _SCRIPTS], object)[counts.argmax(axis=0)]
    if main == 0:
        other_doubt, languages = _other_language(words)
        names, doubt = np.where(other_doubt > doubt, languages, names), np.maximum(doubt, other_doubt)
    return doubt * style(doubt), "in another language than the rest: " + names


def _other_language(words: PlainWords) -> Reason:
    vocabulary = np.array(words.vocabulary.to_pylist(), object)
    frequency = np.bincount(words.codes, minlength=len(vocabulary))
    common = np.argsort(-frequency, kind="stable")[:_COMMON]
    shares: dict[str, float] = {}
    for language in LANGUAGES:  # English first: mostly no other dictionary is loaded
        shares[language] = (
            _in_dictionary(vocabulary[common], language) @ frequency[common] / max(frequency[common].sum(), 1)
        )
        if shares[language] > 0.85:
            break
    main = max(shares, key=shares.__getitem__)
    doubt, names = np.zeros(len(words.plain)), np.full(len(words.plain), "", object)
    main_share = words.share(_in_dictionary(vocabulary, main)) if shares[main] >= 0.6 else np.ones(len(doubt))
    # Other dictionaries have many English words.
    odd = np.flatnonzero((main_share <= (0.5 if main == "en" else 0.8)) & (words.counts * (1 - main_share) >= _UNKNOWN))
    codes = np.unique(words.codes[np.isin(words.owners, odd)])
    for language in LANGUAGES.keys() - {main} if len(odd) else ():
        mask = np.zeros(len(vocabulary))
        mask[codes] = _in_dictionary(vocabulary[codes], language)
        share = words.share(mask)[odd]
        better = 0.95 * np.clip((share - main_share[odd] - 0.2) / 0.4, 0, 1) * (share > 0.6)
        names[odd] = np.where(better > doubt[odd], LANGUAGES[language], names[odd])
        doubt[odd] = np.maximum(doubt[odd], better)
    return doubt, names


def _in_dictionary(words: Iterable[str], language: str) -> np.ndarray:
    from simplemma import is_known

    return np.array([is_known(word, lang=language, low_memory=True) for word in words], dtype=float)


def _common(words: PlainWords, images: np.ndarray) -> Reason:
    """Captions that three pictures or more have: doubt 0.2 for 3, 0.5 for 10, 0.9 for 50."""
    codes = words.plain.dictionary_encode().indices.to_numpy()
    table = pd.DataFrame({"code": codes, "image": images})
    count = table.groupby("code")["image"].transform("nunique").to_numpy()
    doubt = np.interp(np.log(count), np.log([2, 3, 10, 50]), [0, 0.2, 0.5, 0.9]) * (words.counts > 0)
    return doubt, pd.Series(count).astype(str).to_numpy(object) + " pictures have this caption"


def _repeated(words: PlainWords, images: np.ndarray, ids: np.ndarray) -> pd.DataFrame:
    """``duplicate_caption``: doubt 1 for the same words, 0.85 in another order, 0.3 to 0.7 where four fifths or more of
    all their words are in both captions of an image."""
    from scipy.sparse import csr_array

    order = np.lexsort((ids, images))
    plain = words.plain.dictionary_encode().indices.to_numpy()
    bags = csr_array(
        (np.ones(len(words.codes)), (words.owners, words.codes)), shape=(len(ids), max(len(words.vocabulary), 1))
    )
    none = np.zeros(0)
    sizes, parts = words.counts, [pairs_of(none, none, none, "")]
    longest = min(int(np.unique(images, return_counts=True)[1].max()) - 1, _NEIGHBOURS)
    for step in range(1, longest + 1):
        left, right = order[:-step], order[step:]
        inside = (images[left] == images[right]) & (sizes[left] > 0)
        left, right = left[inside], right[inside]
        shared = bags[left].minimum(bags[right]).sum(axis=1)
        overlap = shared / (sizes[left] + sizes[right] - shared)
        near = np.interp(overlap, [0.8, 1], [0.3, 0.7]) * (overlap >= 0.8) * (shared >= _LEAST_WORDS)
        is_same = plain[left] == plain[right]
        doubt = np.select([is_same, overlap == 1], [1.0, 0.85], near)
        reason = np.select(
            [is_same, overlap == 1], ["says the same", "says the same in another order"], "says nearly the same"
        )
        is_copy = doubt > 0
        parts.append(pairs_of(left[is_copy], right[is_copy], doubt[is_copy], reason[is_copy]))
    rows = grouped(pd.concat(parts), ids, np.full(len(ids), "train", object))
    whys = "caption " + rows["other"].astype(str) + " of this picture " + rows["why"]
    return rows.assign(kind="duplicate_caption", why=whys)
