"""extract --texts: the text features of every caption, computed once and read by every run."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from itertools import chain, islice
from pathlib import Path
from string import punctuation
from types import ModuleType
from typing import Any, cast

import numpy as np

from vse_pipe.artifacts import captions, digests, texts
from vse_pipe.core import weights
from vse_pipe.core.console import say, track, warn
from vse_pipe.core.errors import InputError, IntegrityError, MissingResource, missing_package
from vse_pipe.core.files import read_json, require, require_digests, sha256
from vse_pipe.core.locks import claim
from vse_pipe.core.text import Tokens
from vse_pipe.extract.text_methods import Corpus, State
from vse_pipe.extract.texts.options import EncoderParams, TextParams
from vse_pipe.project import code, paths
from vse_pipe.project.params.typed import Member, Params
from vse_pipe.project.registry import TEXT_FEATURES, TextFeatureTraits

# Captions in memory at a time, for methods without an option for it.
_TOKENS = 2**14
_MARKS = set(punctuation)


def extract_texts(params: Params, name: str) -> Path:
    """Write data/extract/<dataset>/<name>/ for the node ``texts.<name>``: a row for each row of
    captions.parquet, in its order.

    A call returns at once when the same text features exist; a killed call leaves the folder
    unchanged. Raises InputError, MissingResource or IntegrityError for captions, word vectors and
    models that cannot be used."""
    started = time.monotonic()
    node = params.texts[name]
    out = paths.extracted(node.dataset, name)
    with claim(out):
        method, options = TEXT_FEATURES.load(node.method.name), node.method.params
        about = _describe(node.dataset, node.method, params.seed)
        about["fingerprint"] = digests.of_values(about)
        if _finished(out, about["fingerprint"]):
            say(f"extract {name}: {out} is up to date")
            return out
        traits = TEXT_FEATURES.traits(node.method.name)
        learns = traits.terms or traits.mixes or traits.gives != "vectors"
        prepared, needed = paths.prepared(node.dataset), f"extract {name}" if learns else ""
        ids = captions.read(prepared, needed, ["caption_id"])["caption_id"].to_numpy()
        columns = (captions.CaptionColumn(prepared, column) for column in ("text", "split"))
        corpus = Corpus(*columns)
        state = method.fit(corpus, options, params.seed)
        result = write(out, ids, corpus.texts, method, options, state, {**about, **state.about})
    seconds = time.monotonic() - started
    paths.record_seconds(out, seconds)
    say(f"extract {name}: {len(ids)} captions, {result}, {seconds:.1f} s")
    return out


def _describe(dataset: str, method: Member, seed: int) -> dict:
    """Everything that the text features depend on."""
    name, options = method.name, method.params
    prepared = paths.prepared(dataset)
    methods = [name, *(member.name for member in options.further())]
    packages = {package: method for method in methods for package in TEXT_FEATURES.traits(method).libraries}
    return {
        "dataset": dataset,
        "method": name,
        "options": options.model_dump(mode="json"),
        "seed": seed,
        "captions_sha256": sha256(require(prepared / captions.NAME)),
        "files_sha256": [_digest(path, digest, name) for path, digest in options.files().items()],
        "code_sha256": code.digest(code.closure([__name__, *map(TEXT_FEATURES.module, methods)])),
        "libraries": {package: _version(package, user) for package, user in {"numpy": name, **packages}.items()},
    }


def _digest(path: Path, expected: str, name: str) -> str:
    """The digest of the file. Raises MissingResource, or IntegrityError for another digest."""
    if not path.is_file():
        raise MissingResource(f"{path.absolute()}: no such file; text features of method '{name}' need it")
    return weights.check(path, expected)


def _version(package: str, name: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError as error:
        raise missing_package(f"text features of method '{name}'", package) from error


def _finished(out: Path, digest: str) -> bool:
    if not (out / texts.META).is_file():
        return False
    try:
        if read_json(out / texts.META).get("fingerprint") != digest:
            return False
        texts.read(out)
    except (InputError, IntegrityError) as error:
        warn(f"{error}; they are made again now")
        return False
    return True


def write(
    out: Path, ids: np.ndarray, lines: Iterable[str], method: ModuleType, options, state: State, about: dict
) -> str:
    """Transform captions by what the method has learnt, and write. Returns a few words about the
    result.

    ids: of the captions ``lines``, of which a block is in memory at a time."""
    gives = TEXT_FEATURES.traits(about["method"]).gives
    block = _TOKENS if gives == "tokens" else options.block
    count = -(-len(ids) // block)
    remaining = iter(lines)
    parts = (
        (number * block, method.transform(list(islice(remaining, block)), state, options))
        for number in track(range(count), count, f"extract {out.name}, blocks of {block}")
    )
    if gives == "tokens":
        tokens = ((part.tokens.astype(np.int32), part.lengths, cut) for _, (part, cut) in parts)
        cut = texts.write(out, gives, ids, tokens, about, state.words)
        return f"{len(state.words)} words, {cut} cut"
    if gives == "fragments":
        fragments = (
            (_stored(rows, options.store, out.name, "token"), lengths, len(rows)) for _, (rows, lengths) in parts
        )
        count = texts.write(out, gives, ids, fragments, about)
        return f"{count} tokens of {read_json(out / texts.META)['shape'][1]} dimensions"
    # A data set without captions has zero rows of the right width.
    empty = [method.transform(["a"], state, options)[:0].astype(options.store)] if not len(ids) else []
    blocks = chain(empty, (_stored(rows, options.store, out.name, "caption row", start) for start, rows in parts))
    zeros = texts.write(out, gives, ids, map(texts.of_vectors, blocks), about, state.words, state.arrays)
    if zeros:
        warn(f"extract {out.name}: {zeros} of {len(ids)} captions hold no known word; their vectors are zero")
    return f"{read_json(out / texts.META)['shape'][1]} dimensions"


def _stored(rows: np.ndarray, store: str, name: str, kind: str, first: int = 0) -> np.ndarray:
    """``rows`` in the type on disk. Raises InputError for NaN or infinite rows in it."""
    with np.errstate(over="ignore"):
        rows = rows.astype(store)
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if len(bad):
        raise InputError(
            f"extract {name}: the vector of {kind} {first + bad[0]} is NaN or infinite as "
            f"{rows.dtype}; if float16 is too narrow for it, set store: float32"
        )
    return rows


@dataclass(frozen=True)
class Fitted:
    """The text features of a run. name: under texts; state: what the method has learnt; meta: of
    the folder in data/extract/."""

    name: str
    method: ModuleType
    options: Any
    state: State
    meta: dict

    @classmethod
    def of_folder(cls, folder: Path, meta: dict, options: dict, words: list[str]) -> "Fitted":
        """meta: meta.json of ``folder``; options: those in it, with the paths to use; words: of the
        model. Raises InputError for missing files, IntegrityError for other ones."""
        from safetensors.numpy import load_file

        params = cast(TextParams, TEXT_FEATURES.options(meta["method"]).model_validate(options))
        require_encoder(params, meta, str(folder))
        state = State(words=words if meta["kind"] == "tokens" else [])
        if meta["kind"] == "vectors":
            require_digests(folder, texts.META, meta["sha256"], (texts.VOCABULARY, texts.STATE))
            state = State(read_json(folder / texts.VOCABULARY, list), load_file(folder / texts.STATE))
        return cls(folder.name, TEXT_FEATURES.load(meta["method"]), params, state, meta)

    @property
    def traits(self) -> TextFeatureTraits:
        return TEXT_FEATURES.traits(self.meta["method"])

    def unknown_share(self, sentences: Iterable[str]) -> float | None:
        """The share of unknown words among all words of the sentences. None for a method without
        words, and for sentences without a word."""
        vocabulary = set(self.state.words)
        unknown = np.fromiter((word not in vocabulary for text in sentences for word in self.words(text)), bool)
        return float(unknown.mean()) if len(unknown) else None

    def words(self, sentence: str) -> list[str]:
        """The words that the method reads one by one, without punctuation."""
        terms = self.method.terms(sentence, self.options) if self.traits.terms else []
        return [word for word in terms if not set(word) <= _MARKS]

    def treated(self, folder: Path, ids: np.ndarray, sentences: Iterable[str]) -> texts.Texts:
        """Further sentences, treated as the run's own captions were. They are written to
        ``folder``, because vectors may be larger than memory. ids: int64, one for each sentence."""
        about = {"method": self.meta["method"]}
        write(folder, ids, sentences, self.method, self.options, self.state, about)
        return texts.read(folder, verify=False)

    def transformed(self, sentences: list[str]) -> texts.Texts:
        """As ``treated``, in memory."""
        places = np.arange(len(sentences))
        output = self.method.transform(sentences, self.state, self.options)
        if self.traits.gives == "tokens":
            return texts.Texts("tokens", places, self.meta, output[0], self.state.words, None, None)
        if self.traits.gives == "fragments":
            rows, lengths = output[0].astype(self.options.store), output[1]
            fragments = Tokens(rows, lengths.cumsum() - lengths, lengths)
            return texts.Texts("fragments", places, self.meta, fragments, [], rows, None)
        array = output.astype(self.options.store)
        return texts.Texts("vectors", places, self.meta, None, self.state.words, array, places)


def require_encoder(options: TextParams, meta: dict, where: str) -> None:
    """Raises IntegrityError if a pre-trained sentence encoder has other files than those that
    ``meta`` was written with. Word vectors are no such files: they are part of what was learnt."""
    methods = (options, *(part.params for part in options.further()))
    encoders = [method for method in methods if isinstance(method, EncoderParams)]
    present = {sha256(path) if path.is_file() else "" for encoder in encoders for path in encoder.files()}
    if encoders and (len(options.files()) != len(meta["files_sha256"]) or not present <= set(meta["files_sha256"])):
        names = ", ".join(encoder.model for encoder in encoders)
        raise IntegrityError(
            f"{where}: made with other files of sentence encoder {names} than there are now; put those back"
        )
