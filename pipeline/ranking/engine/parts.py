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
    rescore: what was made of the product's part since, given in the shape of these scores with its rows and columns; means:
    of the best k of every image and of every caption, by k, where they are known."""

    product: Callable[[Some, Some], Tensor]
    turned: bool = False
    rescore: RescorePart | None = None
    means: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)

    def of(self, product: Tensor, images: Some, captions: Some) -> Tensor:
        """Scores, images along rows, of what ``product`` gave for these."""
        if self.rescore is None:
            return product
        if self.turned:
            return self.rescore(product.T, captions, images).T.contiguous()
        return self.rescore(product, images, captions)
