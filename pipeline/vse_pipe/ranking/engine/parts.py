"""How any rows and columns of a score matrix are computed without the rest of their strips."""

from collections.abc import Callable
from dataclasses import dataclass, field

from torch import Tensor

# Rows or columns: a slice of them, or their numbers.
Some = slice | Tensor
RescorePart = Callable[[Tensor, Some, Some], Tensor]


@dataclass(frozen=True)
class Parts:
    """product: of images and captions, the same object for both directions; turned: the rows of these scores are its columns;
    rescore: what was made of the product's part since, given in the shape of these scores with its rows and columns; memory: MiB for
    all of an evaluation, 0 for no limit; means: of the best k of every image and of every caption, by k, where they are known; fits:
    what ``tiles.fit`` found, once it was asked."""

    product: Callable[[Some, Some], Tensor]
    turned: bool = False
    rescore: RescorePart | None = None
    memory: int = 0
    means: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)
    fits: list[bool] = field(default_factory=list)

    def room(self, size: int) -> bool:
        """Do so many bytes take less than half of the memory?"""
        return not self.memory or 2 * size <= self.memory << 20

    def of(self, product: Tensor, images: Some, captions: Some) -> Tensor:
        """Scores, images along rows, of what ``product`` gave for these."""
        if self.rescore is None:
            return product
        if self.turned:
            return self.rescore(product.T, captions, images).T.contiguous()
        return self.rescore(product, images, captions)
