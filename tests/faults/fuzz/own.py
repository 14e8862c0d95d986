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
import pandas as pd
import pyarrow as pa

from tests import made
from tests.artifacts.test_pairs import PHRASE, REGION, WHOLE
from tests.faults.fuzz.child import Reader
from vse_pipe.artifacts import (
    audit,
    captions,
    embeddings,
    evaluation,
    features,
    images,
    localisation,
    model_files,
    pairs,
    regions,
    texts,
)
from vse_pipe.extract.job import Output, Shard
from vse_pipe.extract.shards import Shards
from vse_pipe.project import paths
from vse_pipe.train import restore

_TOY, _RUN = Path("data/extract/toy"), Path("data/train/sum")
_OF_AUDIT = (audit.HISTOGRAM_COLUMNS, audit.COSTS_COLUMNS)
_MARK = "a" * 64


def make() -> None:
    """A small project in the working directory, in which every stage has run, and the files that it has none of."""
    made.build(Path.cwd())
    made.record()
    _shards().write(0, Shard(Output(np.ones((3, 2), np.float32)), {7: "y"}))
    _texts(Path("vectors"))
    _regions(Path("regions"))
    pairs.write_rematching(Path(), [WHOLE])
    regions.write_phrases(Path("boxes"), pa.Table.from_pylist([PHRASE]))
    regions.write(Path("boxes"), pa.Table.from_pylist([REGION]), "whole")
    _audit(Path("audit"))
    _localised(Path("localize"))
    images.write_unreadable(Path("errors"), pa.table({"image_id": [1], "file": ["a"], "reason": ["is empty"]}))


def _texts(folder: Path) -> None:
    ids = np.arange(3, dtype=np.int64)
    blocks = [texts.of_vectors(np.eye(3, 4, dtype=np.float32))]
    texts.write(folder, "vectors", ids, blocks, {"method": "x"}, ["a", "b"], {"mean": np.ones(4)})


def _regions(folder: Path) -> None:
    rows, ids = np.arange(3), np.arange(3, dtype=np.int64)
    table = {"image_id": rows, "row": rows, "status": ["ok"] * 3, "detail": [""] * 3}
    table |= {"boxes": features.lists(np.ones((3, 2, 4))), "scores": features.lists(np.ones((3, 2)))}
    features.write(folder, np.ones((3, 2, 5), np.float32), pa.table(table), {})
    block = embeddings.FragmentRows("test", ids, ids, np.array([1, 2, 1]), np.ones((4, 5), np.float32))
    embeddings.write_each(folder / "images.parquet", embeddings.fragment_schema("images", 5), [block], {"run": "x"})


def _audit(folder: Path) -> None:
    values = {field.name: [False] if pa.types.is_boolean(field.type) else [1] for field in audit.SCHEMA}
    histogram, costs = (pd.DataFrame([range(len(names))], columns=names) for names in _OF_AUDIT)
    audit.write(folder, pa.table(values), {"a": 1.0}, histogram, costs)


def _localised(folder: Path) -> None:
    values = {field.name: ["a"] if pa.types.is_string(field.type) else [1] for field in localisation.SCHEMA}
    localisation.write(folder, pa.table(values), {"a": 1.0}, "data/prepare/toy")


def _shards() -> Shards:
    return Shards(Path("shards"), SimpleNamespace(shards_digest=_MARK, places=lambda number: range(4)))


def _boxes() -> object:
    found = features.read(Path("regions"))
    return found.array, found.boxes, found.scores, found.rows


def _model() -> object:
    model, files = restore.load(_RUN)
    return model.state_dict(), files.words, files.config


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


def _fragments_read(folder: Path) -> object:
    found = embeddings.read_fragments(folder / "images.parquet")
    return found.ids, found.splits, found.split("test")


def _vectors_read(name: str, folder: Path) -> object:
    found = embeddings.read(folder / name)
    return found.ids, found.image_ids, found.splits, found.vectors


def readers() -> list[Reader]:
    prepared, embedded, ranked = Path("data/prepare/toy"), Path("data/embed/sum"), Path("data/evaluate/sum/csls")
    tokens, vectors = _TOY / "words", Path("vectors")
    shard = Path("shards/shards/aaaaaaaaaaaaaaaa")
    found = [
        *_on(images.read, prepared / images.NAME),
        *_on(captions.read, prepared / captions.NAME),
        *_on(regions.read_phrases, Path("boxes") / regions.PHRASES),
        *_on(regions.read, Path("boxes") / regions.NAME),
        *_on(_rows_read, *(_TOY / "plain" / name for name in ("features.npy", "index.parquet", "meta.json"))),
        *_on(lambda _: _boxes(), Path("regions/index.parquet")),
        *_on(_texts_read, *(tokens / name for name in (texts.TOKENS, texts.INDEX, texts.VOCABULARY))),
        *_on(_texts_read, *(vectors / name for name in (texts.ARRAY, texts.INDEX, texts.STATE))),
        *_on(_texts_read, tokens / texts.META, vectors / texts.META, digested=False),
        *_on(pairs.read, Path("data/inject/toy/half") / pairs.NAME),
        *_on(lambda _: _model(), _RUN / model_files.MODEL, _RUN / model_files.VOCABULARY),
        *_on(lambda _: _model(), _RUN / model_files.CONFIG, digested=False),
        *_on(model_files.read_history, _RUN / model_files.HISTORY, digested=False),
        *[one for name in ("images.parquet", "captions.parquet") for one in _on(partial(_vectors_read, name), embedded / name)],
        *_on(_fragments_read, Path("regions/images.parquet")),
        *_on(evaluation.read_ranks, ranked / evaluation.RANKS),
        *_on(evaluation.read_occurrence, ranked / evaluation.OCCURRENCE),
        *_on(evaluation.read_metrics, ranked / evaluation.METRICS, digested=False),
        *_on(localisation.read_ranks, Path("localize") / localisation.RANKS),
        *_on(audit.read_pairs, Path("audit") / audit.PAIRS),
        *_on(audit.read_histogram, Path("audit") / audit.HISTOGRAM, digested=False),
        *_on(audit.read_costs, Path("audit") / audit.COSTS, digested=False),
        *_on(images.read_unreadable, Path("errors") / images.UNREADABLE),
        *_on(pairs.read_rematching, Path(pairs.REMATCHING), digested=False),
        *_on(lambda _: paths.recorded_seconds(_RUN), paths.timing_file(_RUN), digested=False),
    ]  # fmt: skip
    return [*found, *_on(lambda _: _shards().read(0), *sorted(shard.iterdir()))]
