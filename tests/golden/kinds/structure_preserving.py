"""Eq. 5 of the structure-preserving loss, brute force: each of its four terms, how many violations each has, the total."""

import numpy as np
import torch

from pipeline.train.engine.loss.scored import Scored
from pipeline.train.losses.structure import Params
from pipeline.train.losses.structure.loss import loss
from pipeline.train.losses.structure.triplets import euclidean, hardest
from tests.golden.compare import compare, exact

TIGHT = {"atol": 1e-9, "rtol": 1e-9}


def _terms(arrays: dict[str, np.ndarray]) -> dict[str, torch.Tensor]:
    """The kept hinges of every positive pair; positives and neighbourhoods as stored, whatever their shape."""
    images, texts = (torch.tensor(arrays[name]).double() for name in ("x", "y"))
    positives, image_kin, text_kin = (torch.tensor(arrays[name]) for name in ("P", "Nx", "Ny"))
    across, among_images, among_texts = (euclidean(images, texts), euclidean(images, images), euclidean(texts, texts))

    def term(distances: torch.Tensor, matching: torch.Tensor, within: bool) -> torch.Tensor:
        pairs = matching & ~torch.eye(len(matching), dtype=torch.bool) if within else matching
        anchors, others = pairs.nonzero(as_tuple=True)
        margin, top = float(arrays["margin"]), int(arrays["K"])
        return hardest(distances[anchors, others], anchors, distances, matching, margin, top)

    return {
        "i2s": term(across, positives, within=False),
        "s2i": term(across.T, positives.T, within=False),
        "ii": term(among_images, image_kin, within=True),
        "ss": term(among_texts, text_kin, within=True),
    }


def check(arrays: dict[str, np.ndarray]) -> list[tuple[str, float, float]]:
    terms = _terms(arrays)
    factors = [1.0, *arrays["lam"].tolist()]
    total = sum(factor * float(hinges.sum()) for factor, hinges in zip(factors, terms.values(), strict=True))
    results = [compare(name, hinges.sum(), arrays[name], **TIGHT) for name, hinges in terms.items()]
    results.append(exact("counts", [int((hinges > 0).sum()) for hinges in terms.values()], arrays["counts"]))
    results.append(compare("total", total, arrays["total"], **TIGHT))
    owners = arrays["P"].argmax(axis=0)
    if (arrays["P"].sum(axis=0) == 1).all() and ((owners[:, None] == owners) == arrays["Ny"]).all():
        results.append(compare("total of the loss", _member(arrays), _without_images(arrays), **TIGHT))
    return results


def _member(arrays: dict[str, np.ndarray]) -> float:
    """The loss as training calls it: one pair a text, the image repeated."""
    owners = torch.tensor(arrays["P"].argmax(axis=0))
    images, texts = (torch.tensor(arrays[name]).double() for name in ("x", "y"))
    lambda1, _, lambda3 = arrays["lam"].tolist()
    params = Params(margin=float(arrays["margin"]), lambda1=lambda1, lambda3=lambda3, top=int(arrays["K"]))
    images = images[owners]
    return loss(Scored.of(images @ texts.T, owners, images=images, texts=texts), params).total().item()


def _without_images(arrays: dict[str, np.ndarray]) -> float:
    """Pairs know no neighbourhoods of images."""
    return float(arrays["total"]) - float(arrays["lam"][1]) * float(arrays["ii"])
