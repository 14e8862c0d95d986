"""A pool that does in this process what worker processes would: work goes there and comes back as bytes, in any order."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import cloudpickle
import numpy as np


class Elsewhere:
    """count: workers that it says it has; block: parts at once; asked: how many parts it has done, by pass."""

    def __init__(self, count: int = 3, block: int = 2) -> None:
        self.count, self._block, self.asked = count, block, []

    def run(self, stream: Callable, parts: Iterable[Any], cost: int = 0, ordered: bool = True) -> Iterator[Any]:
        sent, rest = cloudpickle.dumps(stream), iter(parts)
        blocks = [cloudpickle.dumps(block) for block in iter(lambda: list(islice(rest, self._block)), [])]
        found = {}
        for place in np.random.default_rng(len(blocks)).permutation(len(blocks)):
            found[place] = list(cloudpickle.loads(sent)(cloudpickle.loads(blocks[place])))
        self.asked.append(sum(map(len, found.values())))
        for place in range(len(blocks)):
            yield from cloudpickle.loads(cloudpickle.dumps(found[place]))
