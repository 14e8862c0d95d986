"""Small files of word vectors in every form."""

from pathlib import Path

import numpy as np

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
