"""Random numbers that are the same on every machine."""

import hashlib

import numpy as np


def derive_seed(seed: int, *names: str | int) -> int:
    """A 63-bit seed from ``seed`` and any number of names, the same on every machine and Python."""
    text = "\x1f".join([str(seed), *map(str, names)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(seed: int, *names: str | int) -> np.random.Generator:
    """A numpy generator for one purpose: ``generator(seed, "order", epoch)``."""
    return np.random.default_rng(derive_seed(seed, *names))
