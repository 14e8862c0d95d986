"""Mismatched pairs: how they are drawn, and the losses and schemes that find them (L2RM, CRCL, DECL)."""

from dataclasses import replace

import numpy as np
import torch

from tests.golden.compare import TIGHT, Result, Vectors, compare, exact
from vse_pipe.inject.protocols import caption, image
from vse_pipe.project.registry import LOSSES
from vse_pipe.train import mixture
from vse_pipe.train.batch import Scored, fits, own_chances, sample_losses
from vse_pipe.train.schemes.crcl import refined
from vse_pipe.train.schemes.l2rm import rematch_loss
from vse_pipe.train.transport import CostNetwork, partial_plan, supervised_cost


def check_noise(arrays: Vectors) -> list[Result]:
    """The two mismatch protocols from a seed, exactly as the authors' loaders draw them (five captions an image)."""
    n, rate, seed = int(arrays["n_images"]), float(arrays["ratio"]), int(arrays["seed"])
    per_image = len(arrays["caption_level_t2i"]) // n
    true = np.repeat(np.arange(n), per_image)
    by_caption, by_image = (
        protocol.corrupt(true, n, rate, np.random.RandomState(seed)) for protocol in (caption, image)
    )
    return [
        exact("caption_level_t2i", by_caption, arrays["caption_level_t2i"]),
        exact("caption_level_clean", by_caption == true, arrays["caption_level_clean"]),
        exact("image_level_inx", by_image[::per_image], arrays["image_level_inx"]),
        exact("image_level_t2i", by_image, arrays["image_level_t2i"]),
    ]


def check_bmm_posterior(arrays: Vectors) -> list[Result]:
    """The split of losses in two: converged EM exactly, the authors' random start in its decisions and within 0.05."""
    converged = mixture.fit_beta(arrays["loss"], monotone=False, gain=None)
    stopped = mixture.fit_beta(arrays["loss"])
    parameters = np.stack([converged.alpha, converged.beta, converged.weight], axis=1)
    authors = arrays["l2rm_prob_clean"]
    # A pair on the other side of 0.5 counts unless their own starts move it there.
    decided = np.abs(authors - 0.5) > max(float(arrays["l2rm_seed_spread"]), 0.05)
    return [
        compare("em_converged_prob_clean", converged.posterior, arrays["em_converged_prob_clean"], 0.0, 1e-6),
        compare("em_converged_alpha_beta_weight", parameters, arrays["em_converged_alpha_beta_weight"], 1e-6, 1e-6),
        compare("l2rm_prob_clean", converged.posterior, authors, 0.0, 0.05),
        compare("l2rm_prob_clean", stopped.posterior, authors, 0.0, 0.05),
        exact("l2rm_prob_clean", (converged.posterior > 0.5)[decided], (authors > 0.5)[decided]),
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
            compare("rce", reverse, arrays["rce"]),
            compare("rce_grad", slope, arrays["rce_grad"], atol=1e-4),
            compare("infonce", total("infonce", tau=tau), arrays["infonce"]),
            compare("warmup", per_pair.sum(), arrays["warmup"]),
            compare("max_violation", total("max", margin=margin), arrays["max_violation"]),
            compare("hardest", sample_losses(batch, margin, hardest=True).sum(), arrays["max_violation"]),
            compare("eval_loss", per_pair, arrays["eval_loss"]),
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
            costs,
            mask=bool(arrays["masked"]),
            mass=float(arrays["mass"]),
            regularisation=float(arrays["reg"]),
        )
        for costs in (torch.from_numpy(arrays["cost"]), cost)
    )
    return [
        compare("cost", cost, arrays["cost"]),
        compare("plan", plan, arrays["plan"], 2e-6, 0.0),
        compare("plan", plan_of_network, arrays["plan"], 2e-6, 0.0),
        compare("plan_sum", plan.double().sum(), arrays["plan_sum"]),
    ]


def check_l2rm_rematch(arrays: Vectors) -> list[Result]:
    """The rematching loss with its gradient, and the losses of the ablations."""
    (scores,) = arrays.leaves("sims")
    plan, tau = torch.from_numpy(arrays["plan"]), float(arrays["tau"])
    symmetric = rematch_loss(scores, plan, tau)
    (slope,) = torch.autograd.grad(symmetric, scores)
    with torch.no_grad():
        ablations = [
            compare(name, rematch_loss(scores, plan, tau, kind), arrays[name])
            for name, kind in [("kl", "kl"), ("js", "js"), ("soft_infonce", "infonce")]
        ]
    return [
        compare("sym_kl", symmetric, arrays["sym_kl"]),
        compare("grad_sims", slope, arrays["grad_sims"], atol=1e-4),
        *ablations,
    ]


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
    outputs |= {"loss_positive": terms.parts["active"], "loss_negative": terms.parts["complementary"]}
    return [compare(name, ours, arrays[name], **TIGHT) for name, ours in outputs.items()]


def check_loss_decl(arrays: Vectors) -> list[Result]:
    """DECL from similarities, with and without mismatched pairs: the loss, its parts and gradient, the fits."""
    member = LOSSES.load("decl")
    options = {name: float(arrays[name]) for name in ("tau", "margin", "lambda1", "lambda2")}
    params = member.Params(hardest=int(arrays["hardest"]), **options)
    (scores,) = arrays.leaves("raw")
    batch = Scored.from_scores(scores)
    terms = member.loss(replace(batch, targets=torch.from_numpy(arrays["preds"]).to(scores.dtype)), params)
    terms.total().backward()
    with_hinge, without_hinge = (
        member.loss(batch, params.model_copy(update={"lambda1": factor})).per_pair for factor in (1.0, 0.0)
    )
    outputs = {"loss_evidential": terms.parts["evidential"], "loss_rdh": terms.parts["hinge"]}
    outputs |= {"loss": terms.total(), "loss_warm_up": member.loss(batch, params).total()}
    outputs |= {"rdh_per_pair": with_hinge - without_hinge, "fit": fits(batch, params.tau).diagonal()}
    # The authors take differences of lgamma and digamma of thousands in float32: of their own loss 1e-3 is rounding.
    return [compare(name, ours, arrays[name], rtol=3e-4) for name, ours in outputs.items()] + [
        compare("grad_raw", scores.grad, arrays["grad_raw"], atol=5e-4)
    ]
