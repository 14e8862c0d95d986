"""A data set of a few captions with an entry under texts, and word vectors in files."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
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


WORDS = ["dog", "red", "big", "ball", "run", "caf\u00e9", "unused"]


def vectors(words: list[str] = WORDS, dim: int = 4, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((len(words), dim)).astype(np.float32)


def as_text(words: list[str], array: np.ndarray, header: bool = False) -> bytes:
    lines = [f"{len(words)} {array.shape[1]}"] if header else []
    lines += [" ".join([word, *map(str, row)]) for word, row in zip(words, array, strict=True)]
    return "".join(f"{line}\n" for line in lines).encode()


def as_binary(words: list[str], array: np.ndarray, newline: bytes = b"\n") -> bytes:
    entries = [word.encode() + b" " + row.tobytes() + newline for word, row in zip(words, array, strict=True)]
    return f"{len(words)} {array.shape[1]}\n".encode() + b"".join(entries)


def as_npz(path: Path, words: list[str], array: np.ndarray) -> Path:
    np.savez(path, words=np.array(words), vectors=array)
    return path
