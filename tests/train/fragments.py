"""A small model of image regions and words: what is tested on any model is tested on fragments too."""

import torch
from torch import Tensor, nn

from vse_pipe.ranking.fragments import Words
from vse_pipe.train.data import Batch
from vse_pipe.train.model import DualEncoder


class FragmentModel(DualEncoder):
    """Two regions an image and a vector a word; the score is the mean over words of the best region, times a learned scale."""

    trains_on_pixels = tests_on_pixels = False
    loss = None

    def __init__(self, features: int, words: int, dim: int = 6) -> None:
        nn.Module.__init__(self)
        self.img, self.txt, self.sim = nn.Linear(features, 2 * dim), nn.Embedding(words, dim), nn.Linear(1, 1)
        generator = torch.Generator().manual_seed(0)
        for weight in self.parameters():
            nn.init.normal_(weight, generator=generator)

    def start(self, epoch: int) -> None:
        pass

    def encode(self, batch: Batch, device: torch.device, precision: str = "float32") -> tuple[Tensor, Words]:
        regions = self.img(batch.features).unflatten(1, (2, -1))
        tokens, lengths = batch.texts
        words = Words.from_padded(self.txt(tokens), lengths)
        unit = nn.functional.normalize
        return unit(regions, dim=2), Words(unit(words.vectors, dim=1), words.lengths)

    def score(self, images: Tensor, texts: Words) -> Tensor:
        best = torch.einsum("ird,wd->iwr", images, texts.vectors).amax(dim=2)
        means = [part.mean(dim=1) for part in best.split(texts.lengths.tolist(), dim=1)]
        return self.sim(torch.stack(means, dim=1)[..., None])[..., 0]
