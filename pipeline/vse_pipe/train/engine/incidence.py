"""Which texts belong to which images, in the training pairs and besides, where texts that read alike are one text."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from vse_pipe.train.engine.batch import Matches

_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Incidence:
    """ids: (images,) what the numbers of images stand for, rising; images, texts: (pairs,) number of each pair's image and
    text; by_image: (images, texts) how often they are known together, a sparse array of scipy; by_text: the same, texts first.
    """

    ids: np.ndarray
    images: np.ndarray
    texts: np.ndarray
    by_image: Any
    by_text: Any

    @classmethod
    def of(
        cls, owners: np.ndarray, texts: np.ndarray, more_owners: np.ndarray = _NONE, more_texts: np.ndarray = _NONE
    ) -> "Incidence":
        """owners, texts: (pairs,) anything that tells images and texts apart; more: that belong together and are no pairs."""
        from scipy import sparse  # not needed where a text has one image

        ids, images = np.unique(np.concatenate([owners, more_owners]), return_inverse=True)
        _, texts = np.unique(np.concatenate([texts, more_texts]), return_inverse=True)
        cells, pairs = sparse.csr_array((np.ones(len(images), np.int32), (images, texts))), len(owners)
        return cls(ids, images[:pairs], texts[:pairs], cells, cells.T.tocsr())

    def belong(self, pairs: np.ndarray, others: np.ndarray) -> np.ndarray:
        """bool (pairs, others): whether the text of each of ``others`` belongs to the image of each of ``pairs``."""
        return self.by_image[self.images[pairs]][:, self.texts[others]].toarray() > 0

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
