"""Which texts were seen with which images over all training pairs, where texts that read alike are one text."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from pipeline.train.engine.loss.matches import Matches


@dataclass(frozen=True)
class Incidence:
    """images, texts: (pairs,) number of each pair's image and text; by_image: (images, texts) how many pairs join them, a
    sparse array of scipy; by_text: the same, texts first."""

    images: np.ndarray
    texts: np.ndarray
    by_image: Any
    by_text: Any

    @classmethod
    def of(cls, owners: np.ndarray, texts: np.ndarray) -> "Incidence":
        """owners, texts: (pairs,) anything that tells images and texts apart."""
        from scipy import sparse  # not needed where a text has one image

        images, texts = (np.unique(side, return_inverse=True)[1] for side in (owners, texts))
        cells = sparse.csr_array((np.ones(len(images), np.int32), (images, texts)))
        return cls(images, texts, cells, cells.T.tocsr())

    def of_batch(self, pairs: np.ndarray, device: torch.device) -> Matches:
        """Of the batch that has these pairs. Two images are kin when any text is known of both, be it in the batch or not;
        so are texts."""
        (images, image), (texts, text) = (
            np.unique(side[pairs], return_inverse=True) for side in (self.images, self.texts)
        )
        seen, read = self.by_image[images], self.by_text[texts]
        cells = (seen[:, texts], seen @ seen.T, read @ read.T)
        masks = (torch.from_numpy(cell.toarray() > 0).to(device) for cell in cells)
        numbers = (torch.from_numpy(number).to(device) for number in (image, text))
        return Matches(*numbers, *masks)
