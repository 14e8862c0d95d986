"""The options that matchings share."""

from typing import Literal

from vse_pipe.core.strict import Strict

Mode = Literal["rows", "literal", "captions"]


class MatchingParams(Strict):
    """A matching of queries and items with quotas on either side."""

    mode: Mode = "rows"
    """``rows`` gives every query its k items, ``literal`` stops where Algorithm 1 as printed does; ``captions`` is ``rows`` but
    matches text to image once for the first captions of all images, once for the second and so on: five N x N matrices with
    five captions an image, the reading of Table 4 under which a one-to-one matching can reach its figures"""

    def lambdas(self) -> list[float]:
        """The relaxation factors to choose from."""
        return [1.0]
