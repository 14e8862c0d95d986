"""Every kind of file that this package writes, and what reads it.

``digested`` are those whose content another file or their own pages answer for. The documents that say what lies beside
them (meta.json, config.json, metrics.json, history.csv) have nobody but DVC, which keeps digests of them; a change in
them may be accepted, as one by an editor would be.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from tests import made
from tests.faults.fuzz.child import Reader
from vse_pipe.artifacts import captions, embeddings, evaluation, features, images, model_files, pairs, texts
from vse_pipe.extract.job import Output, Shard
from vse_pipe.extract.shards import Shards, read
from vse_pipe.train.trained import TrainedNetwork

_RUN = Path("data/train/sum")


def make() -> None:
    """A small project in the working directory, in which every stage has run, and a shard."""
    made.build(Path.cwd())
    made.record()
    _shards().write(0, Shard(Output(np.ones((3, 2), np.float32)), {7: "y"}))


def _shards() -> Shards:
    return Shards(Path("shards"), SimpleNamespace(shards_digest="a" * 64, places=lambda number: range(4)))


def _model(folder: Path) -> object:
    network = TrainedNetwork.load(folder)
    return network.model.state_dict(), network.files.words, network.files.config


def _on(read: Callable[[Path], object], *files: Path, digested: bool = True) -> list[Reader]:
    """A reader of a folder, once for each file that it reads there."""
    return [Reader(f"own {file}", file, partial(read, file.parent), digested) for file in files]


def _texts_read(folder: Path) -> object:
    found = texts.read(folder)
    tokens = found.tokens and (found.tokens.tokens, found.tokens.starts, found.tokens.lengths)
    return found.kind, found.caption_ids, tokens, found.words, found.array, found.rows


def _rows_read(folder: Path) -> object:
    found = features.read(folder)
    return found.array, found.image_ids, found.rows, found.failed


def _vectors_read(name: str, folder: Path) -> object:
    found = embeddings.read(folder / name)
    return found.ids, found.image_ids, found.splits, found.vectors


def readers() -> list[Reader]:
    prepared, embedded, ranked = Path("data/prepare/toy"), Path("data/embed/sum"), Path("data/evaluate/sum/csls")
    plain, words = Path("data/extract/toy/plain"), Path("data/extract/toy/words")
    return [
        *_on(images.read, prepared / images.NAME),
        *_on(captions.read, prepared / captions.NAME),
        *_on(_rows_read, *(plain / name for name in ("features.npy", "index.parquet", "meta.json"))),
        *_on(_texts_read, *(words / name for name in (texts.TOKENS, texts.INDEX, texts.VOCABULARY))),
        *_on(_texts_read, words / texts.META, digested=False),
        *_on(pairs.read, Path("data/inject/toy/half") / pairs.NAME),
        *_on(_model, _RUN / model_files.MODEL, _RUN / model_files.VOCABULARY),
        *_on(_model, _RUN / model_files.CONFIG, digested=False),
        *_on(model_files.read_history, _RUN / model_files.HISTORY, digested=False),
        *_on(partial(_vectors_read, "images.parquet"), embedded / "images.parquet"),
        *_on(partial(_vectors_read, "captions.parquet"), embedded / "captions.parquet"),
        *_on(evaluation.read_ranks, ranked / evaluation.RANKS),
        *_on(evaluation.read_occurrence, ranked / evaluation.OCCURRENCE),
        *_on(evaluation.read_metrics, ranked / evaluation.METRICS, digested=False),
        *_on(lambda _: read(_shards().files()[0]), *sorted(Path("shards/shards/aaaaaaaaaaaaaaaa").iterdir())),
    ]
