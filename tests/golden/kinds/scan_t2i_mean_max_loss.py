"""MAX over SCAN's text-to-image scores: the loss and its gradients in regions and words."""

import numpy as np
import torch

from tests.golden.compare import compare
from vse_pipe.project.registry import LOSSES, SIMILARITIES
from vse_pipe.ranking.fragments import Words
from vse_pipe.train.batch import Scored


def check(arrays: dict[str, np.ndarray]) -> list[tuple[str, float, float]]:
    images = torch.tensor(arrays["images"], requires_grad=True)
    captions = torch.tensor(arrays["captions"], requires_grad=True)
    similarity, loss = SIMILARITIES.load("scan_t2i"), LOSSES.load("max")
    words = Words.from_padded(captions, torch.tensor(arrays["cap_lens"]))
    scores = similarity.score(images, words, similarity.Params(temperature=9.0))
    total = loss.loss(Scored.of(scores), loss.Params(margin=0.2)).total()
    total.backward()
    return [
        compare("loss", total.detach(), arrays["loss"]),
        compare("grad_images", images.grad, arrays["grad_images"]),
        compare("grad_captions", captions.grad, arrays["grad_captions"]),
    ]
