"""Losses on the vectors or the scores of one batch, with their gradients; mismatched pairs, how they are drawn, and the losses
and schemes that find them (L2RM, CRCL, DECL)."""

from dataclasses import replace

import numpy as np
import torch

from tests.golden import TIGHT, Result, Vectors, compare, exact
from vse_pipe.inject.protocols import caption, image
from vse_pipe.project.registry import LOSSES, SIMILARITIES
from vse_pipe.train import mixture
from vse_pipe.train.losses import hal, hal_emnlp, sigmoid, structure
from vse_pipe.train.matches import Matches
from vse_pipe.train.schemes import memory_bank
from vse_pipe.train.schemes.crcl import refined
from vse_pipe.train.schemes.l2rm import rematch_loss
from vse_pipe.train.scored import Scored, fits, own_chances, sample_losses
from vse_pipe.train.transport import CostNetwork, partial_plan, supervised_cost


def check_contrastive(arrays: Vectors) -> list[Result]:
    """A hinge loss on the similarity of two sets of vectors; both stand in the name of the file."""
    _, loss, similarity, _ = arrays.path.stem.split("_")
    images, texts = arrays.leaves("im", "s")
    measure, member = SIMILARITIES.load(similarity), LOSSES.load(loss)
    scores = measure.score(images, texts, measure.Params())
    total = member.loss(Scored.from_scores(scores), member.Params(margin=float(arrays["margin"]))).total()
    total.backward()
    gradients = arrays.compared(atol=1e-4, grad_im=images.grad, grad_s=texts.grad)
    return arrays.compared(scores=scores, loss=total) + gradients


def check_hal_aaai_local(arrays: Vectors) -> list[Result]:
    """HAL's Eq. 7 without the memory bank: the authors' value and gradient, and the paper's value in float64."""
    images, texts = arrays.leaves("im", "s")
    options = {name: float(arrays[name]) for name in ("gamma", "eps")}
    code = hal.loss(Scored.from_scores(images @ texts.T), hal.Params(variant="code", **options)).total()
    code.backward()
    scores = images.detach().double() @ texts.detach().double().T
    paper = hal.loss(Scored.from_scores(scores), hal.Params(variant="paper", **options)).total()
    return [
        *arrays.compared(loss_code=code),
        *arrays.compared(atol=1e-7, rtol=1e-6, loss_paper=paper),
        *arrays.compared(atol=1e-4, grad_im_code=images.grad, grad_s_code=texts.grad),
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
        *arrays.compared(**TIGHT, W_code=code_weights, W_paper=paper_weights, loss_paper=paper),
        *arrays.compared(loss_code=code),
        *arrays.compared(atol=1e-4, grad_im_code=images.grad, grad_s_code=texts.grad),
    ]


def _hal_with_bank(
    arrays: Vectors, variant: str, images: torch.Tensor, texts: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The loss and the weights, both in the precision of the vectors."""
    scores = images @ texts.T
    bank_images, bank_texts = (torch.tensor(arrays[name]).to(images) for name in ("mb_img", "mb_cap"))
    options = {name: float(arrays[name]) for name in ("alpha", "beta", "eps1", "eps2")}
    weighting = memory_bank.Params(k=int(arrays["mb_k"]), variant=variant, **options)
    excluded = torch.isin(torch.tensor(arrays["mb_ind"]), torch.tensor(arrays["indices"]))
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

    results = arrays.compared(
        **TIGHT,
        S=scores,
        exponent=exponents[reading],
        S_reweighted=scores * exponents[reading].exp(),
        loss_sum=total(scores),
        loss_max=total(scores, negatives="max"),
    )
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
    return [*arrays.compared(loss=total), *arrays.compared(atol=1e-4, grad_im=images.grad, grad_sent=texts.grad)]


def check_noise(arrays: Vectors) -> list[Result]:
    """The two mismatch protocols from a seed, exactly as the authors' loaders draw them (five captions an image)."""
    n, rate, seed = int(arrays["n_images"]), float(arrays["ratio"]), int(arrays["seed"])
    per_image = len(arrays["caption_level_t2i"]) // n
    true = np.repeat(np.arange(n), per_image)
    drawn = (protocol.corrupt(true, n, rate, np.random.RandomState(seed)) for protocol in (caption, image))
    by_caption, by_image = drawn
    return [
        exact("caption_level_t2i", by_caption, arrays["caption_level_t2i"]),
        exact("caption_level_clean", by_caption == true, arrays["caption_level_clean"]),
        exact("image_level_inx", by_image[::per_image], arrays["image_level_inx"]),
        exact("image_level_t2i", by_image, arrays["image_level_t2i"]),
    ]


def check_bmm_posterior(arrays: Vectors) -> list[Result]:
    """The split of losses in two: converged EM exactly, the authors' random start in its decisions and within 0.05."""
    x = mixture.scaled(arrays["loss"])
    components = mixture.beta_components(x, gain=-np.inf)
    converged = mixture.chances(components, x)
    stopped = mixture.fit_beta(arrays["loss"])
    parameters = np.stack(components, axis=1)
    authors = arrays["l2rm_prob_clean"]
    # A pair on the other side of 0.5 counts unless their own starts move it there.
    decided = np.abs(authors - 0.5) > max(float(arrays["l2rm_seed_spread"]), 0.05)
    return [
        compare("em_converged_prob_clean", converged, arrays["em_converged_prob_clean"], 0.0, 1e-6),
        compare("em_converged_alpha_beta_weight", parameters, arrays["em_converged_alpha_beta_weight"], 1e-6, 1e-6),
        compare("l2rm_prob_clean", converged, authors, 0.0, 0.05),
        compare("l2rm_prob_clean", stopped.posterior, authors, 0.0, 0.05),
        exact("l2rm_prob_clean", (converged > 0.5)[decided], (authors > 0.5)[decided]),
    ]


def check_l2rm_warmup_and_sample_loss(arrays: Vectors) -> list[Result]:
    """L2RM's warm-up: InfoNCE with and without reverse cross entropy, the hinge losses, and the loss of each pair."""
    (scores,) = arrays.leaves("S")
    batch, tau, margin = Scored.from_scores(scores), float(arrays["tau"]), float(arrays["margin"])

    def total(name: str, **options) -> torch.Tensor:
        member = LOSSES.load(name)
        return member.loss(batch, member.Params(**options)).total()

    reverse = total("infonce_rce", tau=tau)
    (slope,) = torch.autograd.grad(reverse, scores)
    with torch.no_grad():
        per_pair = sample_losses(batch, margin)
        return [
            *arrays.compared(rce=reverse, infonce=total("infonce", tau=tau), warmup=per_pair.sum(), eval_loss=per_pair),
            *arrays.compared(atol=1e-4, rce_grad=slope),
            *arrays.compared(max_violation=total("max", margin=margin)),
            *arrays.compared(max_violation=sample_losses(batch, margin, hardest=True).sum()),
        ]


def check_l2rm_cost_net_step(arrays: Vectors) -> list[Result]:
    """One step of the cost network under the supervised transport loss."""
    scores, matching = torch.from_numpy(arrays["S"]), torch.from_numpy(arrays["supervision"])
    network = CostNetwork(scores.shape[1])
    start = {name: weight.detach().clone() for name, weight in network.named_parameters()}
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-6)
    cost = network(scores)
    loss = supervised_cost(cost, matching)
    loss.backward()
    results = [compare("cost", cost, arrays["cost"]), compare("ot_loss", loss, arrays["ot_loss"])]
    for name, weight in network.named_parameters():
        results += [
            compare(f"w0/{name}", start[name], arrays[f"w0/{name}"]),
            compare(f"g/{name}", weight.grad, arrays[f"g/{name}"], atol=1e-4),
        ]
    optimizer.step()
    # The step itself is 2e-6: compared at the precision of float32 at 1.
    return results + [
        compare(f"w1/{name}", weight, arrays[f"w1/{name}"], 2e-7, 0.0) for name, weight in network.named_parameters()
    ]


def check_l2rm_partial_ot(arrays: Vectors) -> list[Result]:
    """The plan of masked partial transport, from similarities through the cost network, and from the cost itself."""
    network = CostNetwork(arrays["sims"].shape[1])
    network.load_state_dict(arrays.weights())
    with torch.no_grad():
        cost = network(torch.from_numpy(arrays["sims"])).clamp_min(1e-10)
    plan, plan_of_network = (
        partial_plan(
            costs, mask=bool(arrays["masked"]), mass=float(arrays["mass"]), regularisation=float(arrays["reg"])
        )
        for costs in (torch.from_numpy(arrays["cost"]), cost)
    )
    return [
        *arrays.compared(cost=cost, plan_sum=plan.double().sum()),
        *arrays.compared(atol=2e-6, rtol=0.0, plan=plan),
        *arrays.compared(atol=2e-6, rtol=0.0, plan=plan_of_network),
    ]


def check_l2rm_rematch(arrays: Vectors) -> list[Result]:
    """The rematching loss with its gradient, and the losses of the ablations."""
    (scores,) = arrays.leaves("sims")
    plan, tau = torch.from_numpy(arrays["plan"]), float(arrays["tau"])
    symmetric = rematch_loss(scores, plan, tau)
    (slope,) = torch.autograd.grad(symmetric, scores)
    with torch.no_grad():
        kinds = {"kl": "kl", "js": "js", "soft_infonce": "infonce"}
        ablations = {name: rematch_loss(scores, plan, tau, kind) for name, kind in kinds.items()}
    return arrays.compared(sym_kl=symmetric, **ablations) + arrays.compared(atol=1e-4, grad_sims=slope)


def check_loss_crcl(arrays: Vectors) -> list[Result]:
    """CRCL from similarities and the last visit's targets: refined targets, the loss, its parts and its gradient."""
    member, tau = LOSSES.load("crcl"), float(arrays["tau"])
    (scores,) = arrays.leaves("scores")
    batch = Scored.from_scores(scores)
    chances = own_chances(batch, tau).detach()
    floor = 0.1 if arrays["confident"] else 0.0
    targets = refined(torch.from_numpy(arrays["y_last"]), chances, float(arrays["alpha"]), floor)
    terms = member.loss(replace(batch, targets=targets), member.Params(tau=tau))
    terms.total().backward()
    outputs = {"p": chances, "y": targets, "loss": terms.total(), "grad_scores": scores.grad}
    active = member.loss(replace(batch, targets=targets), member.Params(tau=tau, complementary=0)).total()
    outputs |= {"loss_positive": active, "loss_negative": terms.total() - active}
    return arrays.compared(**TIGHT, **outputs)


def check_loss_decl(arrays: Vectors) -> list[Result]:
    """DECL from similarities, with and without mismatched pairs: the loss, its parts and gradient, the fits."""
    member = LOSSES.load("decl")
    options = {name: float(arrays[name]) for name in ("tau", "margin", "lambda1", "lambda2")}
    params = member.Params(hardest=int(arrays["hardest"]), **options)
    (scores,) = arrays.leaves("raw")
    batch = Scored.from_scores(scores)
    targets = torch.from_numpy(arrays["preds"]).to(scores.dtype)
    terms = member.loss(replace(batch, targets=targets), params)
    terms.total().backward()
    with_hinge, without_hinge = (
        member.loss(batch, params.model_copy(update={"lambda1": factor})).per_pair for factor in (1.0, 0.0)
    )
    evidential = member.loss(replace(batch, targets=targets), params.model_copy(update={"lambda1": 0.0})).total()
    outputs = {"loss_evidential": evidential, "loss_rdh": terms.total() - evidential}
    outputs |= {"loss": terms.total(), "loss_warm_up": member.loss(batch, params).total()}
    outputs |= {"rdh_per_pair": with_hinge - without_hinge, "fit": fits(batch, params.tau).diagonal()}
    # The authors take differences of lgamma and digamma of thousands in float32: of their own loss 1e-3 is rounding.
    return arrays.compared(rtol=3e-4, **outputs) + arrays.compared(atol=5e-4, grad_raw=scores.grad)
