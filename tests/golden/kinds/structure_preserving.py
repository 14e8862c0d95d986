"""Eq. 5 of the structure-preserving loss, brute force: each of its four terms, how many violations each has, the total."""

import numpy as np
import torch

from tests.golden.compare import compare, exact
from vse_pipe.train.batch import Matches, Scored
from vse_pipe.train.losses.options import StructureOptions as Params
from vse_pipe.train.losses.structure import euclidean, hardest_triplets, loss

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
        return hardest_triplets(distances[anchors, others], anchors, distances, matching, margin, top)

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
    if all(arrays["P"].any(axis=axis).all() for axis in (0, 1)):
        results.append(compare("total of the loss", _member(arrays), arrays["total"], **TIGHT))
    return results


def _member(arrays: dict[str, np.ndarray]) -> float:
    """The loss as training calls it: a pair for each positive, images and texts repeated."""
    positives, image_kin, text_kin = (torch.tensor(arrays[name]).bool() for name in ("P", "Nx", "Ny"))
    image, text = positives.nonzero(as_tuple=True)
    matches = Matches(image, text, positives, *(kin | torch.eye(len(kin)).bool() for kin in (image_kin, text_kin)))
    lambda1, lambda2, lambda3 = arrays["lam"].tolist()
    factors = {"lambda1": lambda1, "lambda2": lambda2, "lambda3": lambda3}
    params = Params(margin=float(arrays["margin"]), top=int(arrays["K"]), **factors)
    images, texts = torch.tensor(arrays["x"]).double()[image], torch.tensor(arrays["y"]).double()[text]
    batch = Scored.of(images @ texts.T, image, images=images, texts=texts, matches=matches)
    return loss(batch, params).total().item()
