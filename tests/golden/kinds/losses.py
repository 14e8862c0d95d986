"""Losses on the vectors or the scores of one batch, with their gradients."""

from functools import partial

import numpy as np
import torch

from tests.golden.compare import TIGHT, Result, Vectors, compare, exact
from vse_pipe.project.registry import LOSSES, SIMILARITIES
from vse_pipe.train.batch import Matches, Scored
from vse_pipe.train.losses import hal, hal_emnlp, sigmoid, structure
from vse_pipe.train.schemes import memory_bank


def _contrastive(loss: str, similarity: str, arrays: Vectors) -> list[Result]:
    """A hinge loss on the similarity of two sets of vectors."""
    images, texts = arrays.leaves("im", "s")
    measure, member = SIMILARITIES.load(similarity), LOSSES.load(loss)
    scores = measure.score(images, texts, measure.Params())
    total = member.loss(Scored.from_scores(scores), member.Params(margin=float(arrays["margin"]))).total()
    total.backward()
    return [
        compare("scores", scores, arrays["scores"]),
        compare("loss", total, arrays["loss"]),
        compare("grad_im", images.grad, arrays["grad_im"], atol=1e-4),
        compare("grad_s", texts.grad, arrays["grad_s"], atol=1e-4),
    ]


check_contrastive_max_cosine = partial(_contrastive, "max", "cosine")
check_contrastive_max_order = partial(_contrastive, "max", "order")
check_contrastive_sum_cosine = partial(_contrastive, "sum", "cosine")
check_contrastive_sum_order = partial(_contrastive, "sum", "order")


def check_hal_aaai_local(arrays: Vectors) -> list[Result]:
    """HAL's Eq. 7 without the memory bank: the authors' value and gradient, and the paper's value in float64."""
    images, texts = arrays.leaves("im", "s")
    options = {name: float(arrays[name]) for name in ("gamma", "eps")}
    code = hal.loss(Scored.from_scores(images @ texts.T), hal.Params(variant="code", **options)).total()
    code.backward()
    scores = images.detach().double() @ texts.detach().double().T
    paper = hal.loss(Scored.from_scores(scores), hal.Params(variant="paper", **options)).total()
    return [
        compare("loss_code", code, arrays["loss_code"]),
        compare("loss_paper", paper, arrays["loss_paper"], atol=1e-7, rtol=1e-6),
        compare("grad_im_code", images.grad, arrays["grad_im_code"], atol=1e-4),
        compare("grad_s_code", texts.grad, arrays["grad_s_code"], atol=1e-4),
    ]


def check_hal_aaai_bank(arrays: Vectors) -> list[Result]:
    """HAL's memory bank: the weights of Eq. 6 and the loss under them, the authors' with gradients and the paper's."""
    images, texts = arrays.leaves("im", "s")
    code, _ = _hal_with_bank(arrays, "code", images, texts)
    code.backward()
    in_float64 = images.detach().double(), texts.detach().double()
    paper, paper_weights = _hal_with_bank(arrays, "paper", *in_float64)
    _, code_weights = _hal_with_bank(arrays, "code", *in_float64)
    return [
        compare("W_code", code_weights, arrays["W_code"], **TIGHT),
        compare("W_paper", paper_weights, arrays["W_paper"], **TIGHT),
        compare("loss_code", code, arrays["loss_code"]),
        compare("loss_paper", paper, arrays["loss_paper"], **TIGHT),
        compare("grad_im_code", images.grad, arrays["grad_im_code"], atol=1e-4),
        compare("grad_s_code", texts.grad, arrays["grad_s_code"], atol=1e-4),
    ]


def _hal_with_bank(
    arrays: Vectors, variant: str, images: torch.Tensor, texts: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The loss and the weights, both in the precision of the vectors."""
    scores = images @ texts.T
    bank_images, bank_texts = (torch.tensor(arrays[name]).to(images) for name in ("mb_img", "mb_cap"))
    options = {name: float(arrays[name]) for name in ("alpha", "beta", "eps1", "eps2")}
    weighting = memory_bank.Params(k=int(arrays["mb_k"]), variant=variant, **options)
    excluded = memory_bank.left_out(torch.tensor(arrays["indices"]), torch.tensor(arrays["mb_ind"]))
    weights = memory_bank.weights(scores, images @ bank_texts.T, bank_images @ texts.T, excluded, weighting)
    params = hal.Params(gamma=float(arrays["gamma"]), eps=float(arrays["eps"]), variant=variant)
    return hal.loss(Scored.from_scores(scores, weights=weights), params).total(), weights


def check_hal_emnlp(arrays: Vectors) -> list[Result]:
    """HAL's Eq. 4 (EMNLP) on a plain implementation: the exponent, the rescaled scores, both losses, both gradients.

    The reading of the equation is not stored. The exponent, which differs between the two, tells it.
    """
    k = int(arrays["k"])
    scores = torch.tensor(arrays["im"]).double() @ torch.tensor(arrays["s"]).double().T
    same = torch.eye(len(scores), dtype=torch.bool)
    exponents = {reading: hal_emnlp.exponents(scores, same, k, reading) for reading in ("A", "B")}
    reading = min(exponents, key=lambda name: np.abs(exponents[name].numpy() - arrays["exponent"]).max())

    def total(leaf: torch.Tensor, **options) -> torch.Tensor:
        params = hal_emnlp.Params(margin=0.2, k=k, reading=reading, **options)
        return hal_emnlp.loss(Scored.from_scores(leaf), params).total()

    results = [
        compare("S", scores, arrays["S"], **TIGHT),
        compare("exponent", exponents[reading], arrays["exponent"], **TIGHT),
        compare("S_reweighted", scores * exponents[reading].exp(), arrays["S_reweighted"], **TIGHT),
        compare("loss_sum", total(scores), arrays["loss_sum"], **TIGHT),
        compare("loss_max", total(scores, negatives="max"), arrays["loss_max"], **TIGHT),
    ]
    for gradient in ("detached", "full"):
        leaf = scores.clone().requires_grad_()
        total(leaf, gradient=gradient).backward()
        results.append(compare(f"grad_S_{gradient}", leaf.grad, arrays[f"grad_S_{gradient}"], atol=1e-8, rtol=1e-8))
    return results


def check_loss_sigmoid(arrays: Vectors) -> list[Result]:
    """SigLIP's loss of two sets of unit vectors, and its gradients, those of scale and bias included; float64."""
    images, texts = arrays.leaves("images", "texts")
    logits = sigmoid.network(sigmoid.Params()).double()
    logits.load_state_dict({name: torch.tensor(arrays[name]) for name in ("log_scale", "bias")})
    total = sigmoid.loss(Scored.from_scores(images @ texts.T), sigmoid.Params(), logits).total()
    total.backward()
    learned = {"images": images, "texts": texts, **dict(logits.named_parameters())}
    gradients = [compare(f"grad_{name}", leaf.grad, arrays[f"grad_{name}"], **TIGHT) for name, leaf in learned.items()]
    return [compare("loss", total, arrays["loss"], **TIGHT), *gradients]


def check_structure_preserving(arrays: Vectors) -> list[Result]:
    """Eq. 5 of the structure-preserving loss, brute force: its four terms, the violations in each, the total."""
    terms = _structure_terms(arrays)
    factors = [1.0, *arrays["lam"].tolist()]
    total = sum(factor * float(hinges.sum()) for factor, hinges in zip(factors, terms.values(), strict=True))
    results = [compare(name, hinges.sum(), arrays[name], **TIGHT) for name, hinges in terms.items()]
    results.append(exact("counts", [int((hinges > 0).sum()) for hinges in terms.values()], arrays["counts"]))
    results.append(compare("total", total, arrays["total"], **TIGHT))
    if all(arrays["P"].any(axis=axis).all() for axis in (0, 1)):
        results.append(compare("total of the loss", _structure_loss(arrays), arrays["total"], **TIGHT))
    return results


def _structure_terms(arrays: Vectors) -> dict[str, torch.Tensor]:
    """The kept hinges of every positive pair; positives and neighbourhoods as stored, whatever their shape."""
    images, texts = (torch.tensor(arrays[name]).double() for name in ("x", "y"))
    positives, image_kin, text_kin = (torch.tensor(arrays[name]) for name in ("P", "Nx", "Ny"))
    across, among_images, among_texts = (
        structure.euclidean(*sides) for sides in ((images, texts), (images, images), (texts, texts))
    )

    def term(distances: torch.Tensor, matching: torch.Tensor, within: bool) -> torch.Tensor:
        pairs = matching & ~torch.eye(len(matching), dtype=torch.bool) if within else matching
        anchors, partners = pairs.nonzero(as_tuple=True)
        margin, top = float(arrays["margin"]), int(arrays["K"])
        return structure.hardest_triplets(distances[anchors, partners], anchors, distances, matching, margin, top)

    return {
        "i2s": term(across, positives, within=False),
        "s2i": term(across.T, positives.T, within=False),
        "ii": term(among_images, image_kin, within=True),
        "ss": term(among_texts, text_kin, within=True),
    }


def _structure_loss(arrays: Vectors) -> float:
    """The loss as training calls it: a pair for each positive, images and texts repeated."""
    positives, image_kin, text_kin = (torch.tensor(arrays[name]).bool() for name in ("P", "Nx", "Ny"))
    image, text = positives.nonzero(as_tuple=True)
    matches = Matches(image, text, positives, *(kin | torch.eye(len(kin)).bool() for kin in (image_kin, text_kin)))
    factors = dict(zip(("lambda1", "lambda2", "lambda3"), arrays["lam"].tolist(), strict=True))
    params = structure.Params(margin=float(arrays["margin"]), top=int(arrays["K"]), **factors)
    images, texts = torch.tensor(arrays["x"]).double()[image], torch.tensor(arrays["y"]).double()[text]
    batch = Scored.from_scores(images @ texts.T, image, images=images, texts=texts, matches=matches)
    return structure.loss(batch, params).total().item()


def check_two_branch_code(arrays: Vectors) -> list[Result]:
    """The authors' code of the structure-preserving loss, and its gradients."""
    images, texts = arrays.leaves("im", "sent")
    owners = torch.tensor(arrays["labels"].argmax(axis=1))
    params = structure.Params(
        margin=float(arrays["margin"]),
        lambda1=float(arrays["im_loss_factor"]),
        lambda3=float(arrays["sent_only_loss_factor"]),
        top=int(arrays["num_neg_sample"]),
        variant="topk_mean",
    )
    repeated = images[owners]
    total = structure.loss(Scored.from_scores(repeated @ texts.T, owners, images=repeated, texts=texts), params).total()
    total.backward()
    return [
        compare("loss", total, arrays["loss"]),
        compare("grad_im", images.grad, arrays["grad_im"], atol=1e-4),
        compare("grad_sent", texts.grad, arrays["grad_sent"], atol=1e-4),
    ]
