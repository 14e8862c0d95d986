"""Masked partial optimal transport with an entropy term (L2RM, CVPR 2024): which images of a batch fit which captions."""

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor

from vse_pipe.core.errors import InputError

# The cost of moving mass that should stay, in units of the largest cost.
_DEAR = 100.0


def partial_plan(
    cost: Float[Tensor, "images texts"],
    mass: float = 0.1,
    regularisation: float = 0.01,
    mask: bool = True,
    tolerance: float = 1e-3,
    max_iterations: int = 1000,
) -> Float[Tensor, "images texts"]:
    """The plan that moves ``mass`` of a uniform distribution over images to one over captions at the least cost.

    cost: at least 0; no gradient passes. mask: nothing moves on the diagonal, that is from an image to the caption it is
    shown with. Returned as float32 on the device of ``cost``; entries sum to about ``mass``.

    Source: L2RM (Han et al., CVPR 2024) Eq. 7 to 9: Sinkhorn on the problem with a dummy image and a dummy caption that take
    what is not moved, at 100 times the largest cost. Stops as the authors' code does when the potentials of the images move
    by less than ``tolerance`` (Euclidean) or after ``max_iterations``; at the default that is loose, and the sum is 0.106
    instead of 0.1 at regularisation 0.01. Other than the code: the iterations scale the kernel, which is the same
    recursion and several times as fast, and fall back to logarithms where a scale leaves the range of float64; a mass of 1
    runs without dummies instead of ending in NaN.

    Raises InputError for a cost that is not finite or negative, and for a mask that leaves an image nothing.
    """
    costs = cost.detach().cpu().numpy().astype(np.float64)
    if not np.isfinite(costs).all() or (costs < 0).any():
        raise InputError("transport costs must be finite and at least 0")
    if mask and min(costs.shape) < 2:
        raise InputError(f"a masked transport needs at least 2 pairs, got {costs.shape}")
    extended, images, texts = _extended(costs, mass, mask)
    plan = _scaled(extended, images, texts, regularisation, tolerance, max_iterations)
    if plan is None:
        plan = _logarithmic(extended, images, texts, regularisation, tolerance, max_iterations)
    moved = np.ascontiguousarray(plan[: costs.shape[0], : costs.shape[1]], dtype=np.float32)
    return torch.from_numpy(moved).to(cost.device)


def _extended(costs: ndarray, mass: float, mask: bool) -> tuple[ndarray, ndarray, ndarray]:
    """Costs, infinite where nothing may move, and both marginals, with the dummies unless all mass moves."""
    rows, columns = costs.shape
    largest = costs.max()
    dear = _DEAR * largest
    extended = np.full((rows + 1, columns + 1), dear)
    extended[:rows, :columns] = costs
    extended[rows, columns] = 2 * dear + largest
    if mask:
        np.fill_diagonal(extended[:rows, :columns], np.inf)
    images = np.append(np.full(rows, 1 / rows), 1 - mass)
    texts = np.append(np.full(columns, 1 / columns), 1 - mass)
    if mass >= 1:
        return extended[:rows, :columns], images[:rows], texts[:columns]
    return extended, images, texts


def _scaled(
    costs: ndarray, images: ndarray, texts: ndarray, reg: float, tolerance: float, limit: int
) -> ndarray | None:
    """Sinkhorn on the kernel of the reduced costs; None when a scale is no number that float64 can hold.

    Rows and columns are reduced by their smallest cost first, the dummies' dear cost among them, so that every row and
    column of the kernel has a 1. The start is that of zero potentials before the reduction.
    """
    by_image = costs.min(axis=1)
    rest = costs - by_image[:, None]
    by_text = rest.min(axis=0)
    kernel = np.exp((by_text - rest) / reg)
    turned = np.ascontiguousarray(kernel.T)
    with np.errstate(all="ignore"):
        of_text = np.exp(-by_text / reg)
        before = None
        for _ in range(limit):
            of_image = images / (kernel @ of_text)
            of_text = texts / (turned @ of_image)
            potential = reg * np.log(of_image)
            if before is not None and np.linalg.norm(potential - before) < tolerance:
                break
            if before is None and np.linalg.norm(potential + by_image) < tolerance:
                break
            before = potential
        plan = kernel * of_image[:, None] * of_text
    return plan if np.isfinite(potential).all() and np.isfinite(plan).all() and of_text.all() else None


def _logarithmic(costs: ndarray, images: ndarray, texts: ndarray, reg: float, tolerance: float, limit: int) -> ndarray:
    """The same recursion on potentials, by log-sum-exp: slower, and nothing leaves its range."""
    to_images, to_texts = reg * np.log(images), reg * np.log(texts)
    of_image, of_text = np.zeros(len(images)), np.zeros(len(texts))
    for _ in range(limit):
        before = of_image
        of_image = to_images - _soft_max((of_text - costs) / reg, 1) * reg
        of_text = to_texts - _soft_max((of_image[:, None] - costs) / reg, 0) * reg
        if np.linalg.norm(of_image - before) < tolerance:
            break
    return np.exp((of_image[:, None] + of_text - costs) / reg)


def _soft_max(values: ndarray, axis: int) -> ndarray:
    top = values.max(axis=axis, keepdims=True)
    return np.log(np.exp(values - top).sum(axis=axis)) + top.squeeze(axis)
