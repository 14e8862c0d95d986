"""extract --texts: the text features of every caption of a data set, computed once and read by every run."""

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from itertools import chain, islice
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from vse_pipe.artifacts import captions, texts
from vse_pipe.core.console import say, track, warn
from vse_pipe.core.errors import InputError, IntegrityError, MissingResource, missing_extra
from vse_pipe.core.files import read_json, require, sha256
from vse_pipe.core.locks import claim
from vse_pipe.core.text import SPECIAL
from vse_pipe.extract.text_methods import Corpus, State
from vse_pipe.project import code, paths
from vse_pipe.project.params.typed import Member, Params
from vse_pipe.project.registry import TEXT_FEATURES

# Captions in memory at a time, for methods without an option for it.
_TOKENS = 2**14
# Captions by which the losses of a method are measured, and the share from which a loss is warned about.
_HELD_OUT, _MUCH = 2**16, 0.1


def extract_texts(params: Params, name: str) -> Path:
    """Write data/extract/<dataset>/<name>/ for the node ``texts.<name>``: a row for each row of captions.parquet, in
    its order.

    A call returns at once when the same text features exist; a killed call leaves the folder unchanged. Raises
    InputError, MissingResource or IntegrityError for captions, word vectors and models that cannot be used."""
    started = time.monotonic()
    node = params.texts[name]
    out = paths.extracted(node.dataset, name)
    with claim(out):
        method = TEXT_FEATURES.load(node.method.name)
        about = _describe(node.dataset, node.method, params.seed)
        digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
        if _finished(out, digest):
            say(f"extract {name}: {out} is up to date")
            return out
        traits = TEXT_FEATURES.traits(node.method.name)
        learns = traits.terms or traits.mixes or traits.gives != "vectors"
        prepared, needed = paths.prepared(node.dataset), f"extract {name}" if learns else ""
        ids = captions.read(prepared, needed, ["caption_id"])["caption_id"].to_numpy()
        corpus = Corpus(captions.CaptionColumn(prepared, "text"), captions.CaptionColumn(prepared, "split"))
        result = _write(out, ids, corpus, method, node.method.params, params.seed, {**about, "fingerprint": digest})
    seconds = time.monotonic() - started
    paths.record_seconds(out, seconds)
    say(f"extract {name}: {len(ids)} captions, {result}, {seconds:.1f} s")
    return out


def _describe(dataset: str, method: Member, seed: int) -> dict:
    """Everything that the text features depend on."""
    name, options = method.name, method.params
    prepared = paths.prepared(dataset)
    methods = [name, *(member.name for member in options.further())]
    libraries = {package: method for method in methods for package in TEXT_FEATURES.traits(method).libraries}
    return {
        "dataset": dataset,
        "method": name,
        "options": options.model_dump(mode="json"),
        "seed": seed,
        "captions_sha256": sha256(require(prepared / captions.NAME)),
        "files_sha256": [_checked(path, digest, name) for path, digest in options.files().items()],
        "code_sha256": code.digest(code.closure([__name__, *map(TEXT_FEATURES.module, methods)])),
        "libraries": {package: _version(package, method) for package, method in {"numpy": name, **libraries}.items()},
    }


def _checked(path: Path, expected: str, name: str) -> str:
    """The digest of the file. Raises MissingResource, or IntegrityError for another digest than expected."""
    if not path.is_file():
        raise MissingResource(f"{path.absolute()}: no such file; text features of method '{name}' need it")
    digest = sha256(path)
    if expected and digest != expected:
        raise IntegrityError(f"{path}: sha256 is {digest}, expected {expected}; put the right file there")
    return digest


def _version(package: str, name: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError as error:
        extra = TEXT_FEATURES.traits(name).extra or name
        raise missing_extra(f"text features of method '{name}'", package, extra) from error


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


def _write(out: Path, ids: np.ndarray, corpus: Corpus, method: ModuleType, options, seed: int, about: dict) -> str:
    """Fit, transform and write. Returns a few words about the result for the log."""
    state = method.fit(corpus, options, seed)
    if state.words == SPECIAL and TEXT_FEATURES.traits(about["method"]).gives == "tokens":
        warn(
            f"extract {out.name}: no word of the train and val captions is kept (there are none, or none is seen "
            "min_count times), so every word of every caption is unknown"
        )
    result = write(out, ids, corpus.texts, method, options, state, {**about, **state.about})
    parts = method.parts(state, options) if TEXT_FEATURES.traits(about["method"]).mixes else [(method, options, state)]
    _tell_losses(out, corpus, parts)
    return result


def _tell_losses(out: Path, corpus: Corpus, parts: Iterable[tuple[ModuleType, Any, State]]) -> None:
    """Say what the methods do not take in of held-out captions: unknown words, ends of long captions, and differences
    between captions that get the same input."""
    splits = np.array(list(corpus.splits))
    split = next((name for name in ("test", "val", "train") if (splits == name).any()), None)
    if split is None:
        return
    places = np.flatnonzero(splits == split)[:_HELD_OUT]
    lines = list(islice(corpus.texts_of(split), _HELD_OUT))
    for method, options, state in parts:
        losses = _losses(method, options, state, lines)
        _tell(out.name, losses, f"{len(lines)} {split} captions ({method.__name__.rpartition('.')[2]})")
    same = len(set(lines)) - _inputs(texts.read(out), places)
    _tell(out.name, {"have the input of another caption": same / len(lines)}, f"{len(lines)} {split} captions")


def _losses(method: ModuleType, options, state: State, lines: list[str]) -> dict[str, float]:
    """Shares of the captions ``lines`` by what is lost of them."""
    losses = {}
    if hasattr(method, "terms"):
        vocabulary = set(state.words)
        words = [word for line in lines for word in method.terms(line, options)]
        losses["of their words are unknown"] = sum(word not in vocabulary for word in words) / max(len(words), 1)
    if hasattr(method, "cut_captions"):
        losses["are cut"] = method.cut_captions(lines, options) / len(lines)
    return losses


def _tell(name: str, losses: dict[str, float], captions_: str) -> None:
    shares = ", ".join(f"{share:.1%} {what}" for what, share in losses.items() if share > 0)
    if shares:
        message = warn if max(losses.values()) >= _MUCH else say
        message(f"extract {name}: of {captions_}, {shares}")


def _inputs(stored: texts.Texts, places: np.ndarray) -> int:
    """The number of different inputs of the captions at ``places``."""
    if stored.array is not None and stored.rows is not None:
        return len({stored.array[row].tobytes() for row in stored.rows[places].tolist()})
    assert stored.tokens is not None
    source = stored.tokens.tokens
    spans = zip(stored.tokens.starts[places].tolist(), stored.tokens.lengths[places].tolist(), strict=True)
    return len({source[start : start + length].tobytes() for start, length in spans})


def write(
    out: Path, ids: np.ndarray, lines: Iterable[str], method: ModuleType, options, state: State, about: dict
) -> str:
    """Transform captions by what the method has learnt, and write. Returns a few words about the result.

    ids: of the captions ``lines``, of which a block is in memory at a time."""
    gives = TEXT_FEATURES.traits(about["method"]).gives
    block = _TOKENS if gives == "tokens" else options.block
    parts = _parts(
        lines, -(-len(ids) // block), block, partial(method.transform, state=state, params=options), out.name
    )
    if gives == "tokens":
        cut = texts.write_tokens(out, ids, (part for _, part in parts), state.words, about)
        return f"{len(state.words)} words, {cut} cut"
    if gives == "fragments":
        fragments = ((_stored(rows, options.store, out.name, "token"), lengths) for _, (rows, lengths) in parts)
        count = texts.write_fragments(out, ids, fragments, about)
        return f"{count} tokens of {read_json(out / texts.META)['shape'][1]} dimensions"
    # A data set without captions has zero rows of the right width.
    empty = [method.transform(["a"], state, options)[:0].astype(options.store)] if not len(ids) else []
    blocks = chain(empty, (_stored(rows, options.store, out.name, "caption row", start) for start, rows in parts))
    zeros = texts.write_vectors(out, ids, blocks, state.words, state.arrays, about)
    if zeros:
        warn(f"extract {out.name}: {zeros} of {len(ids)} captions hold no known word; their vectors are zero")
    return f"{read_json(out / texts.META)['shape'][1]} dimensions"


def _parts(
    lines: Iterable[str], count: int, block: int, transform: Callable[[list[str]], Any], name: str
) -> Iterator[tuple[int, Any]]:
    """The number of the first caption of each of ``count`` blocks, and the transformed block."""
    remaining = iter(lines)
    for number in track(range(count), count, f"extract {name}, blocks of {block}"):
        yield number * block, transform(list(islice(remaining, block)))


def _stored(rows: np.ndarray, store: str, name: str, kind: str, first: int = 0) -> np.ndarray:
    """``rows`` in the type on disk. Raises InputError for a row that is NaN or infinite in that type."""
    with np.errstate(over="ignore"):
        rows = rows.astype(store)
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if len(bad):
        raise InputError(
            f"extract {name}: the vector of {kind} {first + bad[0]} is NaN or infinite as {rows.dtype}; if float16 is too narrow for it, set store: float32"
        )
    return rows
