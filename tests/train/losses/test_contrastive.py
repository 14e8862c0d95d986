"""The losses that read a softmax or a sigmoid of the scores, against loops; what each of them promises; and runs."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.naive import losses as naive
from tests.naive import training as naive_training
from tests.toy_project import PARAMS, load_params
from tests.train.losses.contract import OWNERS, check_contract, check_slope, some_batch, some_scores
from tests.train.some import check_resumes, ready
from vse_pipe.artifacts import model_files
from vse_pipe.embed.stage import embed
from vse_pipe.project import paths
from vse_pipe.project.registry import LOSSES
from vse_pipe.train.losses.hub import plan
from vse_pipe.train.scored import LossTerms, Scored, fits
from vse_pipe.train.stage import train
from vse_pipe.train.trained import TrainedNetwork

TAU, SHARE = st.floats(0.05, 2), st.floats(0, 1)
FLOAT = st.floats
HUB = {"tau": FLOAT(0.05, 1), "centrality": FLOAT(0, 2), "uniform": FLOAT(0, 2), "beta": SHARE}
DECL = {
    "tau": FLOAT(0.1, 2),
    "margin": FLOAT(0, 0.6),
    "hardest": st.integers(1, 9),
    "lambda1": FLOAT(0, 2),
    "lambda2": SHARE,
}
# Options for masked cells, and scores that would overflow.
WARM = {"masked": {"tau": 0.5}, "extreme": (20.0, {"tau": 1e-3})}
LOG_SCALE, BIAS = "loss.log_scale", "loss.bias"


@dataclass(frozen=True)
class Case:
    """A loss under test. oracle: scores, and by name options and masked cells, to the loss of each pair; drawn: its options as
    strategies; masked: options for the check of masked cells; extreme: scores and options at which a softmax or its
    logarithm would overflow; trusting: whether it reads targets, and the oracle as well."""

    name: str
    oracle: Callable[..., list[float]]
    drawn: dict[str, st.SearchStrategy] = field(default_factory=dict)
    fixed: dict[str, Any] = field(default_factory=dict)
    masked: dict[str, Any] = field(default_factory=dict)
    extreme: tuple[float, dict[str, Any]] = (1.0, {"tau": 1e-3})
    slope: dict[str, Any] = field(default_factory=lambda: {"tau": 0.3})
    trusting: bool = False

    def params(self, **options: Any) -> Any:
        return LOSSES.options(self.name)(**self.fixed, **options)

    Params = params

    def loss(self, batch: Scored, params: Any) -> LossTerms:
        member = LOSSES.load(self.name)
        return member.loss(batch, params, *([member.network(params).double()] if self.name == "sigmoid" else []))


CASES = {
    "infonce": Case("infonce", naive.infonce, {"tau": TAU}),
    "infonce_rce": Case("infonce_rce", naive.infonce_rce, {"tau": TAU}),
    "rcl": Case("rcl", naive.rcl, {"tau": FLOAT(0.1, 2)}, **WARM),
    "crcl": Case(
        "crcl",
        lambda s, tau, complementary, targets, same: naive_training.crcl(s, tau, complementary, targets, same),
        {"tau": TAU, "complementary": FLOAT(0, 10)},
        masked={"tau": 0.5},
        extreme=(20.0, {"tau": 1e-2}),
        trusting=True,
    ),
    "decl": Case(
        "decl",
        lambda scores, targets, same, **options: naive_training.decl(scores, options, targets, same),
        DECL,
        masked={"tau": 0.5},
        extreme=(1.0, {}),
        trusting=True,
    ),
    "hub": Case("hub", naive.hub, HUB),
    "sigmoid": Case(
        "sigmoid",
        naive.sigmoid,
        {"scale": FLOAT(0.1, 50), "bias": FLOAT(-20, 5)},
        extreme=(1.0, {"scale": 1e4, "bias": -1e4}),
        slope={"scale": 3.0, "bias": -0.4},
    ),
}
# Of oracles: s(cores), o(ptions), t(argets), m(asked cells).
ALL = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def _loss(name: str, scores: torch.Tensor, targets: torch.Tensor | None = None, **options: Any) -> LossTerms:
    return CASES[name].loss(replace(Scored.from_scores(scores), targets=targets), CASES[name].params(**options))


@pytest.mark.parametrize(
    ("name", "more"), [*((name, {}) for name in CASES), *(("decl", {"hardest": k}) for k in (1, 100))]
)
def test_contract(name, more):
    case = CASES[name]
    check_contract(case, case.params(**more), case.params(**case.masked, **more))


@ALL
@settings(deadline=None, max_examples=20)
@given(data=st.data(), pairs=st.integers(2, 8), seed=st.integers(0, 50), mask=st.booleans())
def test_equals_plain_loops(case, data, pairs, seed, mask):
    owners = data.draw(st.lists(st.integers(0, 3), min_size=pairs, max_size=pairs))
    options = data.draw(st.fixed_dictionaries(case.drawn))
    targets = data.draw(st.none() | st.lists(SHARE, min_size=pairs, max_size=pairs)) if case.trusting else None
    batch = some_batch(pairs, seed, torch.tensor(owners), mask)
    if targets is not None:
        batch = replace(batch, targets=torch.tensor(targets, dtype=torch.float64))
    loss = case.loss(batch, case.params(**options)).per_pair
    trust = {"targets": targets} if case.trusting else {}
    expected = case.oracle(batch.scores.tolist(), same=batch.same.tolist(), **case.fixed, **options, **trust)
    torch.testing.assert_close(loss, torch.tensor(expected, dtype=torch.float64), rtol=1e-6, atol=1e-6)


@ALL
def test_extreme_values_overflow_nothing(case):
    factor, options = case.extreme
    scores = (factor * some_scores().float()).requires_grad_()
    targets = torch.linspace(0, 1, 7) if case.trusting else None
    total = case.loss(replace(Scored.from_scores(scores), targets=targets), case.params(**options)).total()
    total.backward()
    assert torch.isfinite(total)
    assert torch.isfinite(scores.grad).all()


@pytest.mark.parametrize(
    ("name", "target"),
    [
        *((name, target) for name, case in CASES.items() if case.trusting for target in (0.0, 0.4)),
        *((name, 1.0) for name in CASES if name != "hub"),  # whose plan is a constant; see below
    ],
)
def test_gradient_is_the_slope(name, target):
    case, targets = CASES[name], torch.full((5,), target, dtype=torch.float64)
    params = case.params(**case.slope)
    check_slope(lambda batch: case.loss(replace(batch, targets=targets), params), some_scores(5, 2))


# InfoNCE, with and without reverse cross entropy, and complementary learning.
# CRCL and DECL, which read targets.
def test_fits_are_shares_of_the_evidence_and_large_evidence_keeps_its_gradient():
    batch = some_batch(5, 1)
    shares = fits(batch, 0.2)
    both = [[(batch.scores[i, t].tanh() / 0.2).exp() for t in range(5)] for i in range(5)]
    for i in range(5):
        row = [both[i][t] + both[t][i] for t in range(5)]
        torch.testing.assert_close(shares[i], torch.stack(row) / sum(row))
    # float32 against float64: the divergence is a small difference of large logarithms.
    drawn = torch.randn(128, 128, generator=torch.Generator().manual_seed(3)) + 3 * torch.eye(128)
    slopes = []
    for dtype in (torch.float32, torch.float64):
        scores = drawn.detach().to(dtype, copy=True).requires_grad_()
        _loss("decl", scores).total().backward()
        slopes.append(scores.grad.double())
    torch.testing.assert_close(slopes[0], slopes[1], rtol=1e-3, atol=1e-6)


# Hub, with its plan.
@pytest.mark.parametrize("mask", [False, True])
def test_in_the_plan_every_item_is_retrieved_equally_often(mask):
    batch = some_batch(owners=OWNERS, mask=mask)
    shares, ones = plan(batch, 0.2), torch.ones(7, dtype=torch.float64)
    torch.testing.assert_close(shares.sum(dim=0), ones)
    torch.testing.assert_close(shares.sum(dim=1), ones, atol=1e-3, rtol=0)
    assert not shares[batch.same & ~torch.eye(7, dtype=torch.bool)].any()


def test_gradient_of_hub_is_the_slope_with_a_constant_plan(monkeypatch):
    hub, scores, params = LOSSES.load("hub"), some_batch(5, 2).scores, LOSSES.options("hub")(tau=0.2, centrality=0.8)
    constant = plan(Scored.from_scores(scores), 0.2)
    monkeypatch.setattr(hub, "plan", lambda *_: constant)
    check_slope(lambda batch: hub.loss(batch, params), scores)


# Learned temperature, scale and bias.
@pytest.mark.parametrize(("name", "options"), [("infonce", {"tau": 0.3, "learn": True}), ("sigmoid", {"scale": 3.0})])
def test_learned_numbers_give_the_loss_at_their_value_and_have_a_slope(name, options):
    member, params, scores = LOSSES.load(name), LOSSES.options(name)(**options), some_scores(5, 2)
    learned = member.network(params).double()

    def per_pair(scores, *_):
        return member.loss(Scored.from_scores(scores), params, learned).per_pair

    plain = _loss(name, scores, **{key: number for key, number in options.items() if key != "learn"}).per_pair
    torch.testing.assert_close(per_pair(scores), plain, rtol=1e-6, atol=1e-6)
    # gradcheck changes the numbers of its inputs in place, those of ``learned`` too.
    assert torch.autograd.gradcheck(per_pair, (scores.requires_grad_(), *learned.parameters()))


def test_the_temperature_stays_above_its_bound_and_is_learned_on_request_only():
    infonce, params = LOSSES.load("infonce"), LOSSES.options("infonce")
    with torch.no_grad():
        learned = infonce.network(params(tau=1e-4, learn=True))
    bounded = infonce.loss(Scored.from_scores(some_scores().float()), params(), learned).per_pair
    torch.testing.assert_close(bounded, _loss("infonce", some_scores().float(), tau=0.01).per_pair)
    assert infonce.network(params()) is None
    with pytest.raises(ValidationError, match="set learn: true"):
        params(lr=0.1)


def _project(root, monkeypatch, loss="sigmoid", options=None, **changes):
    monkeypatch.chdir(root)
    run = {**PARAMS["runs"]["sum"], "loss": loss, "options": {"loss": options or {}}}
    return ready(load_params(root, runs={"sum": run}, train={**PARAMS["train"], **changes}))


@pytest.mark.acceptance
def test_scale_and_bias_are_trained_kept_and_told_and_a_killed_run_ends_bit_equal(tmp_path, monkeypatch):
    params = _project(tmp_path, monkeypatch, chunk=3, epochs=2)
    check_resumes(params, "sum", step=9)
    files = model_files.read(paths.trained("sum"))
    assert files.weights[LOG_SCALE].item() != pytest.approx(math.log(10), abs=1e-3)
    assert files.weights[BIAS].item() != pytest.approx(-10, abs=1e-3)
    assert files.config["loss"]["learned"] == {key[5:]: files.weights[key].item() for key in (LOG_SCALE, BIAS)}
    embed(params, "sum", "cpu")
    assert TrainedNetwork.load(paths.trained("sum")).model.loss is None, "an evaluated model has no weights of its loss"


def test_the_temperature_is_trained_and_kept_and_a_rate_of_its_own_moves_what_is_learned_alone(tmp_path, monkeypatch):
    train(_project(tmp_path, monkeypatch, "infonce", {"learn": True, "lr": 0.2}), "sum", "cpu")
    files = model_files.read(paths.trained("sum"))
    log_tau = files.weights["loss.log_tau"].item()
    assert abs(log_tau - math.log(0.05)) > 0.2
    assert files.config["loss"]["learned"] == {"log_tau": log_tau}
    moved = {}
    for lr in (None, 0.3):
        params = _project(tmp_path, monkeypatch, options={"lr": lr}, epochs=1)
        train(params, "sum", "cpu")
        moved[lr] = abs(model_files.read(paths.trained("sum")).weights[BIAS].item() + 10)
    assert moved[0.3] > 10 * moved[None] > 0
