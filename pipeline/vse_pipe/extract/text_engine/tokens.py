"""Words and their ids: the tokenizer of vsepp and its descendants, with an order that can be reproduced."""

import re
from collections import Counter
from collections.abc import Iterable

import numpy as np

from vse_pipe.core.text import END, SPECIAL, START, UNK, Tokens

# Words of letters, digits and single hyphens, commas behind words, a full stop at the end, and none of the words that
# the rules take apart. None of the other rules changes such a caption, and nltk tries all sixty: 540 us in place of 23.
# The quantifiers are possessive, so a caption that does not match is left after one pass, however many spaces it has.
_WORD = "[a-z0-9]++(?:-[a-z0-9]++)*+"
_PLAIN = re.compile(
    rf"(?!.*(?:cannot|gimme|gonna|gotta|lemme|wanna))(?:{_WORD},?+ ++)*+(?:{_WORD})?+ *+\.?+ *+",
    re.IGNORECASE | re.ASCII,
)


def tokenize(caption: str) -> list[str]:
    """Lower case, then Treebank rules.

    The authors split sentences with punkt first, which needs downloaded data; here the caption is one line, so a full
    stop inside a caption stays with its word.
    """
    return split(caption.lower())


def split(caption: str) -> list[str]:
    """Treebank rules alone, the case kept."""
    if _PLAIN.fullmatch(caption):
        return caption.replace(",", " ,").replace(".", " .").split()
    from nltk.tokenize import word_tokenize  # imports scikit-learn, scipy and pandas

    return word_tokenize(caption, preserve_line=True)


def build(captions: Iterable[str], min_count: int) -> list[str]:
    """The words seen at least ``min_count`` times, most frequent first, ties in word order, after the special four.

    The set is the authors' (count >= 4 over train and dev captions); their order came from Python 2's hash order and
    cannot be had again.
    """
    counts = Counter(word for caption in captions for word in tokenize(caption))
    kept = [word for word, count in counts.items() if count >= min_count and word not in SPECIAL]
    return SPECIAL + sorted(kept, key=lambda word: (-counts[word], word))


def encode(captions: Iterable[str], words: list[str], max_words: int) -> tuple[Tokens, int]:
    """``<start>`` words ``<end>`` as ids, unknown words as ``<unk>``; captions beyond ``max_words`` are cut.

    Returns the ids and how many captions were cut.
    """
    ids = {word: place for place, word in enumerate(words)}
    rows, cut = [], 0
    for caption in captions:
        tokens = tokenize(caption)
        cut += len(tokens) > max_words
        rows.append([START, *(ids.get(token, UNK) for token in tokens[:max_words]), END])
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    starts = np.concatenate([[0], lengths.cumsum()[:-1]]).astype(np.int64)
    return Tokens(np.array([token for row in rows for token in row], dtype=np.int64), starts, lengths), cut
