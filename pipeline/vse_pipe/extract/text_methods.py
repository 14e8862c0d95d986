"""The corpus and the state of methods of text features, and shared functions: sentence encoders,
words and their ids.

A method has ``Params``, ``fit(corpus, params, seed) -> State`` and ``transform(texts, state,
params)``. ``transform`` treats any captions with what ``fit`` learnt and returns (n, D) float32
vectors, or token ids and the number of captions that were cut. A method with a vocabulary also has
``terms(text, params)``: the words that it looks up, in their order.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float32

from vse_pipe.core.errors import MissingResource, first_line, missing_package
from vse_pipe.core.text import END, SPECIAL, START, UNK, Tokens
from vse_pipe.core.word_vectors import read_word_vectors
from vse_pipe.extract.texts.options import EncoderParams, WordVectorParams

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True)
class Corpus:
    """The captions of a data set and their splits, in the order of captions.parquet. Both can be
    iterated several times and need not be in memory."""

    texts: Iterable[str]
    splits: Iterable[str]

    def texts_of(self, *splits: str) -> Iterator[str]:
        """The captions of these splits, in order."""
        return (text for text, split in zip(self.texts, self.splits, strict=True) if split in splits)


@dataclass(frozen=True)
class State:
    """words: in the order of the arrays' rows; arrays: learnt, by name; about: for meta.json."""

    words: list[str] = field(default_factory=list)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    about: dict = field(default_factory=dict)


# Files of a model on the hub; no pickles.
_FILES = ["*.json", "*.txt", "*.model", "*.safetensors"]


def load_encoder(params: EncoderParams) -> State:
    """The state of an encoder, which learns nothing. Raises MissingResource without its weights."""
    from vse_pipe.core.console import warn

    model = encoder(params)
    if params.revision is None and not Path(params.model).expanduser().is_dir():
        warn(f"the model {params.model} is not pinned; set revision to a commit of its repository")
    about = {"device": model.device.type, "longest": model.max_seq_length}
    return State(about={key: value for key, value in about.items() if value is not None})


@lru_cache(maxsize=4)  # a mixture has several
def encoder(params: EncoderParams):
    """The encoder, loaded once: from safetensors only, without code of the model."""
    from vse_pipe.core.devices import resolve_device

    chosen = resolve_device(params.device)
    try:
        from huggingface_hub import snapshot_download
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise missing_package("text features of a sentence encoder", "sentence-transformers") from error
    name, folder = params.model, Path(params.model).expanduser()
    try:
        # All files at once, because the encoder would wait half a minute for each file that cannot
        # be fetched.
        path = folder if folder.is_dir() else snapshot_download(name, revision=params.revision, allow_patterns=_FILES)
        kwargs = {"use_safetensors": True}
        return SentenceTransformer(str(path), device=str(chosen), trust_remote_code=False, model_kwargs=kwargs)
    except (OSError, ValueError) as error:
        raise MissingResource(
            f"sentence encoder '{name}' cannot be loaded ({first_line(error)}); model is a folder with a sentence-transformers model "
            "in safetensors files, or a name on the model hub that can be reached or is in its cache"
        ) from error


# Captions of letters, digits, single hyphens, commas behind words and a full stop at the end,
# without words that the rules take apart. The other rules change no such caption, but nltk tries
# all sixty: 540 us instead of 23. The quantifiers are possessive, so that a caption with many
# spaces fails after one pass.
_WORD = "[a-z0-9]++(?:-[a-z0-9]++)*+"
_PLAIN = re.compile(
    rf"(?!.*(?:cannot|gimme|gonna|gotta|lemme|wanna))(?:{_WORD},?+ ++)*+(?:{_WORD})?+ *+\.?+ *+",
    re.IGNORECASE | re.ASCII,
)


def tokenize(caption: str) -> list[str]:
    """Lower case, then Treebank rules.

    The authors first split sentences with punkt, which needs downloaded data. Here a caption is one
    line, so a full stop inside a caption stays with its word."""
    caption = caption.lower()
    if _PLAIN.fullmatch(caption):
        return caption.replace(",", " ,").replace(".", " .").split()
    from nltk.tokenize import word_tokenize  # imports scikit-learn, scipy and pandas

    return word_tokenize(caption, preserve_line=True)


def build_vocabulary(captions: Iterable[str], min_count: int) -> list[str]:
    """The special four, then words with at least ``min_count`` occurrences, most frequent first,
    ties in word order.

    The authors have the same set (count >= 4 over train and dev captions). Their order was Python
    2's hash order, which cannot be reproduced."""
    counts = Counter(word for caption in captions for word in tokenize(caption))
    frequent = [word for word, count in counts.items() if count >= min_count and word not in SPECIAL]
    return SPECIAL + sorted(frequent, key=lambda word: (-counts[word], word))


def encode(captions: Iterable[str], words: list[str], max_words: int) -> tuple[Tokens, int]:
    """The ids of ``<start>`` words ``<end>``, with ``<unk>`` for unknown words, and the number of
    captions that were cut at ``max_words``."""
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


def bags(texts: Iterable[Iterable[str]], words: list[str]) -> "csr_array":
    """(captions, words) float64: the occurrences of ``words`` in each tokenised caption."""
    from scipy.sparse import csr_array  # which `embed` does without

    ids = {word: place for place, word in enumerate(words)}
    counts = [Counter(ids[token] for token in tokens if token in ids) for tokens in texts]
    ends = np.cumsum([0, *map(len, counts)])
    columns = np.fromiter((word for count in counts for word in count), np.int64, ends[-1])
    values = np.fromiter((number for count in counts for number in count.values()), np.float64, ends[-1])
    return csr_array((values, columns, ends), shape=(len(counts), len(words)))


def known_words(corpus: Corpus, params: WordVectorParams) -> tuple[list[str], Float32[np.ndarray, "words dim"], dict]:
    """The words of all captions that have a vector, in word order, their vectors, and counts for
    meta.json.

    Captions of all splits are used, because words are only looked up and nothing is learnt from
    them."""
    counts = Counter(token for text in corpus.texts for token in tokenize(text))
    words, vectors = read_word_vectors(params.path, counts.keys())
    if params.unit:
        # In float64: the square of 1e20 is infinite as float32, and the vector would be zero.
        lengths = np.sqrt(np.einsum("wd,wd->w", vectors, vectors, dtype=np.float64))
        vectors = (vectors / np.where(lengths > 0, lengths, 1.0)[:, None]).astype(np.float32)
    about = {
        "known_words": len(words),
        "unknown_words": len(counts) - len(words),
        "known_share_of_text": sum(counts[word] for word in words) / counts.total(),
    }
    return words, vectors, {"words": about}
