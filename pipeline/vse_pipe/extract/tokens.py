"""Words and their ids: the tokenizer of vsepp and its descendants, with an order that can be reproduced."""

import re
from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np
from jaxtyping import Float32
from scipy.sparse import csr_array

from vse_pipe.core.arrays import read_word_vectors
from vse_pipe.core.text import END, SPECIAL, START, UNK, Tokens
from vse_pipe.extract.params import WordVectorParams
from vse_pipe.extract.text_methods import Corpus

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


_ARTICLES = "a an the"
_PRONOUNS = """
i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his himself she her hers herself
it its itself they them their theirs themselves oneself who whom whose which what that this these those
someone somebody something anyone anybody anything everyone everybody everything nobody nothing each other another
"""
_AUXILIARIES = """
am is are was were be been being have has had having do does did doing done will would shall should can could may might
must ought 's 're 've 'd 'll 'm n't not no ca wo sha
"""
_CONNECTIVES = """
and or but nor so yet if because as while when where whether although though unless until since than then also too very
just there here both either neither only own same such some any all more most few how why again once
"""
_PREPOSITIONS = """
of in on at by for with about against between among into through during before after above below to from up down out off
over under onto upon within without along across around behind beside besides near toward towards
"""
STOP_WORDS = frozenset(" ".join([_ARTICLES, _PRONOUNS, _AUXILIARIES, _CONNECTIVES, _PREPOSITIONS]).split())


def bags(texts: Iterable[Iterable[str]], words: list[str]) -> csr_array:
    """(captions, words) float64: how often each word of ``words`` occurs in each tokenised caption; others count nowhere."""
    ids = {word: place for place, word in enumerate(words)}
    counts = [Counter(ids[token] for token in tokens if token in ids) for tokens in texts]
    ends = np.cumsum([0, *map(len, counts)])
    columns = np.fromiter((word for count in counts for word in count), np.int64, ends[-1])
    values = np.fromiter((number for count in counts for number in count.values()), np.float64, ends[-1])
    return csr_array((values, columns, ends), shape=(len(counts), len(words)))


def splitter(params: WordVectorParams) -> Callable[[str], list[str]]:
    """The tokenizer that a method's options ask for."""
    return lambda text: split(text.lower() if params.lower else text)


def known_words(corpus: Corpus, params: WordVectorParams) -> tuple[list[str], Float32[np.ndarray, "words dim"], dict]:
    """Words of all captions that have a vector, in word order, their vectors, and how many there are for meta.json.

    Of all splits: a word is looked up, nothing is learnt from it here.
    """
    tokens = splitter(params)
    counts = Counter(token for text in corpus.texts for token in tokens(text))
    words, vectors = read_word_vectors(params.path, counts.keys(), params.names)
    if params.unit:
        # In float64: the square of 1e20 is infinite as float32, and the vector would be zero.
        lengths = np.sqrt(np.einsum("wd,wd->w", vectors, vectors, dtype=np.float64))
        vectors = (vectors / np.where(lengths > 0, lengths, 1.0)[:, None]).astype(np.float32)
    found = sum(counts[word] for word in words)
    about = {
        "known_words": len(words),
        "unknown_words": len(counts) - len(words),
        "known_share_of_text": found / counts.total(),
    }
    return words, vectors, {"words": about}
