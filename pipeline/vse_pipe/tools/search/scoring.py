"""The score of every item for one query, before a criterion corrects it."""

from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from vse_pipe.artifacts import embeddings
from vse_pipe.tools.search.network import Network
from vse_pipe.tools.search.query import TO_IMAGES
from vse_pipe.tools.search.together import Together

if TYPE_CHECKING:
    from vse_pipe.ranking.engine.scores import Similarity

# Numbers of items that are compared at once, where a similarity makes copies of them, and items with fragments.
_NUMBERS, _TILE = 1 << 24, 2048


class Scoring:
    """Of a network, from several threads at once. What is loaded is loaded when it is first needed."""

    def __init__(self, network: Network | Together) -> None:
        self._network = network
        self._similarity: Similarity | None = None
        self._lock = Lock()

    @property
    def light(self) -> bool:
        """Are scores inner products of one vector each, computed in numpy?"""
        return isinstance(self._network, Network) and self._network.light

    def vectors(self, direction: str) -> Float[np.ndarray, "items dim"]:
        """Of what is searched, where the network is light."""
        assert isinstance(self._network, Network)
        return self._network.vectors(embeddings.IMAGES if direction == TO_IMAGES else embeddings.CAPTIONS)

    def __call__(self, direction: str, side: Any) -> Float[np.ndarray, " items"]:
        """side: one row, as ``Asked`` has it. Images are the first argument of a similarity, captions the second."""
        if self.light:
            return self.vectors(direction) @ side[0]
        return self._by_torch(direction, side)

    def units(self, direction: str, joint: bool) -> Any:
        """What is searched at unit length, (items, dim), of fragments their means. joint: are vectors so already?"""
        if self.light:
            return self.vectors(direction)
        import torch

        from vse_pipe.ranking.engine.fragments import pooled

        units = pooled(self._items(direction))
        return (units if joint else torch.nn.functional.normalize(units, dim=1)).cpu().numpy()

    def _items(self, direction: str) -> Any:
        return self._network.images() if direction == TO_IMAGES else self._network.captions()

    def _by_torch(self, direction: str, side: Any) -> Float[np.ndarray, " items"]:
        import torch

        from vse_pipe.ranking.engine.fragments import plain

        items = self._items(direction)
        with self._lock:
            self._similarity = self._similarity or self._network.similarity()
        similarity = self._similarity
        size = max(1, _NUMBERS // items.shape[1]) if plain(items) else _TILE
        tiles = [items[start : start + size] for start in range(0, len(items), size)]
        with torch.inference_mode():
            if direction == TO_IMAGES:
                scores = torch.cat([similarity(tile, side)[:, 0] for tile in tiles])
            else:
                scores = torch.cat([similarity(side, tile)[0] for tile in tiles])
        return scores.cpu().numpy()
