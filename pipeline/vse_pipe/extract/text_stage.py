"""extract --texts: the text features of every caption, computed once and read by every run."""

import time
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from itertools import chain, islice
from pathlib import Path
from types import ModuleType

import numpy as np

from vse_pipe.artifacts import captions, digests, texts
from vse_pipe.core import weights
from vse_pipe.core.console import say, track, warn
from vse_pipe.core.errors import InputError, IntegrityError, MissingResource, missing_package
from vse_pipe.core.files import read_json, require, sha256
from vse_pipe.core.locks import claim
from vse_pipe.extract.text_methods import Corpus, State
from vse_pipe.project import code, paths
from vse_pipe.project.params.typed import Member, Params
from vse_pipe.project.registry import TEXT_FEATURES

# Captions in memory at a time, for methods without an option for it.
_TOKENS = 2**14


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
        return texts.read(out).meta.get("fingerprint") == digest
    except (InputError, IntegrityError) as error:
        warn(f"{error}; they are made again now")
        return False


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
