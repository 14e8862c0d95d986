"""A prepared data set of a few captions, and parameters with one node under ``texts:``."""

from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa

from vse_pipe.artifacts import captions
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Member
from vse_pipe.project.registry import TEXT_FEATURES

TEXTS = ["a red ball", "the blue ball", "a big dog", "a small dog runs", "red dogs run", "zzz"]
SPLITS = ["train", "train", "train", "train", "val", "test"]
IDS = [60, 50, 40, 30, 20, 10]


def prepared(texts: list[str] = TEXTS, splits: list[str] = SPLITS) -> None:
    folder = paths.prepared("tiny")
    folder.mkdir(parents=True, exist_ok=True)
    columns = {"caption_id": IDS[: len(texts)], "image_id": list(range(len(texts))), "text": texts}
    captions.write(folder, pa.table({**columns, "split": splits}, captions.SCHEMA))


def params(method: str = "words", seed: int = 1, **options) -> SimpleNamespace:
    """texts.node: ``method`` with ``options``; what the stage reads of the whole parameters."""
    member = Member(method, TEXT_FEATURES.options(method)(**options))
    return SimpleNamespace(seed=seed, texts={"node": SimpleNamespace(dataset="tiny", method=member)})


OUT = Path("data/extract/tiny/node")
