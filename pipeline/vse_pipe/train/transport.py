"""Partial optimal transport between the images and captions of a batch, and its cost (L2RM, CVPR
2024)."""

from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy import ndarray
from torch import Tensor, nn
from torch.nn.functional import normalize

from vse_pipe.core.errors import InputError
from vse_pipe.ranking.fragments import Words
from vse_pipe.train import checkpoint
from vse_pipe.train.data import Batch
from vse_pipe.train.model import evaluating
from vse_pipe.train.scheme import Setting

# Largest share of the batch that is put among foreign images.
_MATCHED_SHARE = 0.1
# The cost of the dummies, in units of the largest cost.
_DUMMY_COST = 100.0
# Steps of Sinkhorn's recursion at most.
_LIMIT = 1000


class Costs:
    """Transport costs of a run. captions: inputs of the network, the captions of a full batch;
    queue: positions of the pairs that give foreign images, which are the pairs of the last
    mismatched batch."""

    def __init__(self, setting: Setting, kind: Literal["learned", "cosine"], lr: float, queue: np.ndarray) -> None:
        self.setting, self.learned, self.lr, self.queue = setting, kind == "learned", lr, queue
        self.captions = min(setting.train.batch_size, len(setting.pairs))
        self.network = CostNetwork(self.captions).to(setting.device)
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=lr)
        self._foreign: Tensor | None = None

    def start(self, share: float) -> None:
        """Prepare an epoch, which has this share of the full rate. The images of the queue are read
        again, because crops differ between epochs."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.lr * share
        self._foreign = None

    @torch.no_grad()
    def matrix(self, scores: Tensor, images: Tensor, texts: Tensor | Words) -> Tensor:
        """Costs (images, texts); scores: similarities of the same images and texts."""
        return self.network(scores) if self.learned else cosine_distance(images, texts)

    def learn(self, matched: Batch, mismatched: Batch, epoch: int, rng: np.random.Generator) -> None:
        """Train the network for one step on captions of matched pairs and images of the queue,
        some replaced by the matching images. ``mismatched`` is the next queue. The model gets no
        gradient and is in evaluation mode."""
        if not self.learned:
            return
        foreign = self._images(epoch).to(matched.features.device, copy=True)
        count = int(rng.integers(1, max(1, int(_MATCHED_SHARE * self.captions)) + 1))
        count = min(count, len(matched.pairs), len(foreign))
        drawn = (
            torch.from_numpy(rng.choice(size, count, replace=False)) for size in (len(matched.pairs), len(foreign))
        )
        chosen, places = (numbers.to(foreign.device, non_blocking=True) for numbers in drawn)
        foreign[places] = matched.features[chosen]
        matching = torch.zeros(len(foreign), len(matched.pairs), device=self.setting.device)
        matching[places, chosen] = 1.0
        batch = Batch(foreign, matched.texts, matched.owners, matched.pairs)
        model, setting = self.setting.model, self.setting
        with evaluating(model):
            scores = model.score(*model.encode(batch, setting.device, setting.train.precision))
        self.optimizer.zero_grad(set_to_none=True)
        supervised_cost(self.network(scores), matching).backward()
        self.optimizer.step()
        self.queue, self._foreign = mismatched.pairs, mismatched.features

    def _images(self, epoch: int) -> Tensor:
        if self._foreign is None:
            pixels_of = epoch if self.setting.model.trains_on_pixels else None
            (batch,) = self.setting.pairs.batches([self.queue], pixels_of)
            self._foreign = batch.features
        return self._foreign

    def state(self) -> dict[str, Any]:
        return {**checkpoint.state_of(self.network, self.optimizer), "queue": torch.from_numpy(self.queue)}

    def load_state(self, state: dict[str, Any]) -> None:
        self.queue = state["queue"].numpy().copy()
        checkpoint.load_into(self.network, self.optimizer, state)


class CostNetwork(nn.Module):
    """``relu(W s + b)`` on the similarities of an image to all captions of a batch; at the start
    ``relu(1 - S)``.

    captions: captions of a full batch. A smaller batch is padded with similarities of 0, whose
    costs are cut off; the authors' code drops such batches.
    """

    def __init__(self, captions: int) -> None:
        super().__init__()
        self.fc = nn.Linear(captions, captions)
        with torch.no_grad():
            self.fc.weight.copy_(-torch.eye(captions))
            self.fc.bias.fill_(1.0)

    def forward(self, scores: Float[Tensor, "images captions"]) -> Float[Tensor, "images captions"]:
        """Costs, at least 0. scores: larger is closer; at most as many captions as the network
        has inputs."""
        count = scores.shape[1]
        return self.fc(nn.functional.pad(scores, (0, self.fc.in_features - count))).relu()[:, :count]


def supervised_cost(
    cost: Float[Tensor, "images captions"], matching: Float[Tensor, "images captions"]
) -> Float[Tensor, ""]:
    """``sum(matching * cost)``, the objective of the network; matching is 1 for matching cells and
    0 elsewhere.

    Source: L2RM (Han et al., CVPR 2024) Eq. 6. A network of zeros minimises it; only the small
    learning rate (2e-6) prevents this.
    """
    return (matching * cost).sum()


def cosine_distance(
    images: Float[Tensor, "images *regions dim"], texts: Float[Tensor, "captions dim"] | Words
) -> Float[Tensor, "images captions"]:
    """``1 - cos`` of the vectors of images and captions, an alternative to the learned cost in the
    paper's Table 3.

    Fragments are averaged; the paper does not say how regions and words become one vector. For a
    model that compares vectors by their cosine this is ``1 - S``, the start of ``CostNetwork``.
    """
    image_vectors, text_vectors = directions(images, texts)
    return (1 - image_vectors @ text_vectors.T).relu()


def directions(
    images: Float[Tensor, "images *regions dim"], texts: Float[Tensor, "captions dim"] | Words
) -> tuple[Float[Tensor, "images dim"], Float[Tensor, "captions dim"]]:
    """A unit vector for each image and each caption; that of fragments has the direction of
    their mean."""
    image_vectors = images.sum(dim=1) if images.ndim == 3 else images
    text_vectors = texts.padded().sum(dim=1) if isinstance(texts, Words) else texts
    return normalize(image_vectors), normalize(text_vectors)


def partial_plan(
    cost: Float[Tensor, "images texts"],
    mass: float = 0.1,
    regularisation: float = 0.01,
    mask: bool | Bool[Tensor, "images texts"] = True,
    tolerance: float = 1e-3,
) -> Float[Tensor, "images texts"]:
    """The plan that moves ``mass`` of a uniform distribution over images to one over captions at
    the least cost.

    cost: at least 0; no gradient passes. mask: the cells where nothing moves; True: the diagonal,
    from an image to its caption. Returns float32 on the device of ``cost``; entries sum to about
    ``mass``, less where the mask leaves no room.

    Source: L2RM (Han et al., CVPR 2024) Eq. 7 to 9: Sinkhorn with a dummy image and a dummy caption
    that take the rest of the mass, at 100 times the largest cost. As in the authors' code it stops
    when the potentials of the images move by less than ``tolerance`` (Euclidean) or after
    1,000 steps; the default is loose, and the sum is 0.106 instead of 0.1 at regularisation
    0.01. Unlike the code, the iterations scale the kernel, and a mass of 1 needs no dummies.

    Raises InputError for costs whose scales leave the range of float64, those above some 700 times
    the regularisation.
    """
    costs = cost.detach().cpu().numpy().astype(np.float64)
    closed = np.eye(*costs.shape) * mask > 0 if isinstance(mask, bool) else mask.cpu().numpy()
    plan = _scaled(*_extended(np.where(closed, np.inf, costs), costs.max(), mass), regularisation, tolerance)
    moved = np.ascontiguousarray(plan[: costs.shape[0], : costs.shape[1]], dtype=np.float32)
    return torch.from_numpy(moved).to(cost.device)


def _extended(costs: ndarray, largest: float, mass: float) -> tuple[ndarray, ndarray, ndarray]:
    """Costs and both marginals, with dummies unless all mass moves."""
    rows, columns = costs.shape
    images, texts = np.full(rows, 1 / rows), np.full(columns, 1 / columns)
    if mass >= 1:
        return costs, images, texts
    dummy = _DUMMY_COST * largest
    extended = np.pad(costs, (0, 1), constant_values=dummy)
    extended[rows, columns] = 2 * dummy + largest
    return extended, np.append(images, 1 - mass), np.append(texts, 1 - mass)


def _scaled(costs: ndarray, images: ndarray, texts: ndarray, reg: float, tolerance: float) -> ndarray:
    """Sinkhorn on the kernel of the reduced costs.

    First the smallest cost of each row and column is subtracted, dummies included, so that every
    row and column of the kernel has a 1. The start is equal to zero potentials without this
    reduction.
    """
    by_image = costs.min(axis=1)
    rest = costs - by_image[:, None]
    by_text = rest.min(axis=0)
    kernel = np.exp((by_text - rest) / reg)
    transposed = np.ascontiguousarray(kernel.T)
    with np.errstate(all="ignore"):
        text_scale = np.exp(-by_text / reg)
        before = -by_image
        for _ in range(_LIMIT):
            image_scale = images / (kernel @ text_scale)
            text_scale = texts / (transposed @ image_scale)
            potential = reg * np.log(image_scale)
            if np.linalg.norm(potential - before) < tolerance:
                break
            before = potential
        plan = kernel * image_scale[:, None] * text_scale
    if not (np.isfinite(potential).all() and np.isfinite(plan).all() and text_scale.all()):
        raise InputError(f"a regularisation of {reg:g} is too small for these costs; raise it")
    return plan
