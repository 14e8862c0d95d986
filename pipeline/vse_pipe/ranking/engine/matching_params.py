"""The options that matchings share."""

from typing import Literal

from vse_pipe.core.strict import Strict

Mode = Literal["rows", "literal", "captions"]


class MatchingParams(Strict):
    """Options of matchings of queries and items."""

    mode: Mode = "rows"
    """``rows``: every query gets its k items; ``literal``: Algorithm 1 as printed; ``captions``: text to image matches
    the first captions of all images, then the second and so on ([criteria.md](criteria.md#matchings-of-captions))"""

    def lambdas(self) -> list[float]:
        """The relaxation factors to choose from."""
        return [1.0]
