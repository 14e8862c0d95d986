"""A file's bytes with one thing wrong, the same ones for the same seed."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from vse_pipe.core.errors import PipelineError


def refusals(path: Path, contents: Iterable[bytes], read: Callable[[], object]) -> list[PipelineError]:
    """What ``read`` raises while ``path`` holds each of ``contents``, as far as it is the pipeline's own and one line that names
    a file; anything else comes out of here."""
    found = []
    for content in contents:
        path.write_bytes(content)
        try:
            read()
        except PipelineError as error:
            if path.stem not in str(error) or "\n" in str(error):
                raise
            found.append(error)
    return found


def mutants(whole: bytes, count: int, first: int = 0, last: int | None = None, seed: int = 0) -> Iterator[bytes]:
    """A bit is flipped, a byte replaced, some are cut out or doubled, the end is cut off, or a number is one at the edge of
    its width; between ``first`` and ``last``."""
    random = np.random.default_rng(seed)
    for number in range(count):
        content = bytearray(whole)
        place, length = int(random.integers(first, last or len(whole))), int(random.integers(1, 30))
        match number % 6:
            case 0:
                content[place] ^= 1 << int(random.integers(8))
            case 1:
                content[place] = int(random.integers(256))
            case 2:
                del content[place : place + length]
            case 3:
                content[place:place] = content[place : place + length]
            case 4:
                del content[place:]
            case 5:
                width = int(random.choice((1, 2, 4, 8)))
                edge = int(random.choice((1, 2 ** (4 * width), 2 ** (8 * width - 1)))) - int(random.integers(2))
                content[place : place + width] = edge.to_bytes(width, str(random.choice(("little", "big"))))
        yield bytes(content)
