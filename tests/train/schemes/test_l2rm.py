"""The scheme by its steps; whole runs are in test_noise_runs."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.naive import training as naive
from tests.train.some import CPU, FragmentModel, adam, some_pairs, some_scheme
from vse_pipe.core.errors import InputError
from vse_pipe.project.registry import LOSSES
from vse_pipe.train import optimise
from vse_pipe.train.mixture import Division
from vse_pipe.train.schemes import l2rm
from vse_pipe.train.schemes.l2rm import Tally, rematch_loss
from vse_pipe.train.scored import Scored
from vse_pipe.train.transport import partial_plan

KINDS = ["symmetric_kl", "kl", "js", "infonce"]
SAMPLED = [np.arange(0, 8), np.arange(8, 16), np.arange(16, 20)]


def _apart(matched: int, pairs: int = 40) -> np.ndarray:
    return np.where(np.arange(pairs) < matched, 0.1, 0.9) + 0.01 * np.sin(np.arange(pairs))


def _scheme(matched: int = 24, loss: str = "max", epoch: int = 1, train=None, **options):
    """In an epoch whose split takes the first ``matched`` of 40 pairs for matched."""
    pairs = some_pairs(40, each=2)
    scheme = some_scheme(pairs, loss, "l2rm", train={"epochs": 9, **(train or {})}, warm_up=1, **options)
    scheme.pair_losses = lambda *arguments: _apart(matched)
    scheme.start(epoch)
    return scheme


def _batch(scheme):
    return scheme.setting.pairs.batch(scheme.batches(1, [np.arange(8)])[0])


def _loss(images, texts, name: str = "max", **options) -> torch.Tensor:
    return LOSSES.load(name).loss(Scored.from_scores(images @ texts.T), LOSSES.options(name)(**options)).total()


def _with_loss(scheme, name: str, **options) -> tuple[torch.Tensor, torch.Tensor]:
    """The scheme's loss of the first eight pairs, and another loss of them."""
    batch = scheme.setting.pairs.batch(np.arange(8))
    scheme.prepare(batch)
    images, texts = scheme.setting.model.encode(batch, CPU)
    return scheme.terms(images, texts, batch).total(), _loss(images, texts, name, **options)


def _encoded(scheme):
    batch = _batch(scheme)
    return *scheme.setting.model.encode(batch, CPU), batch


def test_an_epoch_trains_on_the_matched_and_rematches_the_others_or_leaves_them_out():
    batches = _scheme().batches(1, [])
    assert [len(chosen) for chosen in batches] == [16, 16, 16]
    assert all((chosen[:8] < 24).all() and (chosen[8:] >= 24).all() for chosen in batches)
    scheme = _scheme(rematch="none")
    batches = scheme.batches(1, [])
    assert [len(chosen) for chosen in batches] == [8] * 3
    assert sorted(np.concatenate(batches)) == list(range(24))
    assert len(scheme.terms(*_encoded(scheme)).per_pair) > 1, "no rematching"


@pytest.mark.parametrize("rematch", KINDS)
@pytest.mark.parametrize(("cost", "mask"), [("learned", True), ("cosine", False)])
def test_the_loss_is_the_run_s_own_on_the_matched_plus_the_rematching_loss(rematch, cost, mask):
    scheme = _scheme(rematch=rematch, cost=cost, mask=mask, mass=0.3, regularisation=0.05, temperature=0.2)
    images, texts, batch = _encoded(scheme)
    scores = images[8:] @ texts[8:].T
    expected = rematch_loss(scores, partial_plan((1 - scores).relu(), 0.3, 0.05, mask), 0.2, rematch)
    terms = scheme.terms(images, texts, batch)
    torch.testing.assert_close(terms.total(), _loss(images[:8], texts[:8]) + expected)


@pytest.mark.parametrize("kind", ["infonce_rce", "infonce", "max"])
def test_the_warm_up_is_on_all_pairs_under_its_own_loss(kind):
    scheme = _scheme(epoch=0, warm_up_loss=kind, temperature=0.1, margin=0.3)
    assert scheme.batches(0, SAMPLED) is SAMPLED
    torch.testing.assert_close(*_with_loss(scheme, kind, **({"margin": 0.3} if kind == "max" else {"tau": 0.1})))
    assert scheme.record() is None


def test_the_split_can_be_the_truth():
    pairs, truth = some_pairs(40, each=2), np.arange(40) % 3 == 0
    how = {"train": {"epochs": 9}, "warm_up": 1, "split": "truth"}
    scheme = some_scheme(replace(pairs, mismatched=truth), "max", "l2rm", **how)
    scheme.start(1)
    assert (scheme.division.clean == ~truth).all()
    with pytest.raises(InputError, match="mismatched ones are known"):
        some_scheme(pairs, "max", "l2rm", **how)
    with pytest.raises(ValidationError, match="rematches all pairs"):
        _scheme(split="both", rematch="none")


def test_all_can_be_trained_on_and_rematched_too():
    scheme = _scheme(split="both", mask=False)
    batches = scheme.batches(1, [np.arange(8)])
    assert [len(chosen) for chosen in batches] == [16] * 5
    for part in (slice(0, 8), slice(8, None)):
        assert sorted(np.concatenate([chosen[part] for chosen in batches])) == list(range(40))
    images, texts, batch = _encoded(scheme)
    terms = scheme.terms(images, texts, batch)
    assert terms.total() > _loss(images[:8], texts[:8])


def test_equal_losses_leave_all_matched_and_everything_mismatched_is_one_more_epoch_of_warm_up(capsys, monkeypatch):
    scheme = _scheme()
    scheme.pair_losses = lambda *arguments: np.full(40, 0.3)
    scheme.start(2)
    assert scheme.division.clean.all()
    assert "warning: l2rm, epoch 3: the pairs cannot be divided: all losses are equal" in capsys.readouterr().err
    monkeypatch.setattr(l2rm.L2rm, "_divided", lambda *rest: Division(np.zeros(40), np.zeros(40, bool)))
    scheme = _scheme(matched=0)
    assert scheme.batches(1, SAMPLED) is SAMPLED
    torch.testing.assert_close(*_with_loss(scheme, "infonce_rce"))
    assert scheme.record()["matched"] == 0
    assert "too few matched pairs" in capsys.readouterr().err


@pytest.mark.parametrize("matched", [2, 39])
def test_subsets_smaller_than_a_batch_train(matched):
    scheme = _scheme(matched)
    scheme.division = Division(np.ones(40), np.arange(40) < matched)
    optimizer = adam(scheme.setting.model, 1e-3)
    for chosen in scheme.batches(1, [np.arange(8), np.arange(32, 40)]):
        assert optimise.step(scheme, optimizer, scheme.setting.pairs.batch(chosen)).isfinite().all()


@pytest.mark.parametrize("fragments", [False, True])
def test_steps_with_chunks_are_steps_without(fragments):
    """Of models that compare fragments too: their pairs are split and rematched."""
    after = []
    for chunk in (0, 5):
        pairs = some_pairs(40, each=2)
        model = FragmentModel(pairs.array.shape[1], pairs.texts.inputs) if fragments else None
        scheme = some_scheme(
            pairs, "max", "l2rm", model, {"epochs": 9, "chunk": chunk}, warm_up=1 - fragments, cost_lr=1e-2
        )
        scheme.pair_losses = lambda *arguments: _apart(24)
        scheme.start(1 - fragments)
        optimizer = torch.optim.SGD(scheme.setting.model.parameters(), lr=0.1)
        for chosen in scheme.batches(1 - fragments, [])[: None if fragments else 1]:
            optimise.step(scheme, optimizer, pairs.batch(chosen))
        after.append({**scheme.setting.model.state_dict(), **scheme.state()})
    tolerance = {"rtol": 1e-3, "atol": 1e-5} if fragments else {"rtol": 1e-4, "atol": 1e-6}
    for name, weight in after[0].items():
        torch.testing.assert_close(after[1][name], weight, **tolerance)


def test_costs_are_recorded():
    scheme = _scheme()
    scheme.terms(*_encoded(scheme))
    record = scheme.record()
    assert sum(record["cost"]["matched"]) == sum(record["cost"]["mismatched"]) == 8
    assert (record["matched"], record["by"]) == (24, "split")
    assert set(record) == {"matched", "by", "cost", "alignment"}


def _case(n: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    plan = rng.random((n, n)) * (rng.random((n, n)) < 0.5) / n
    return torch.from_numpy(rng.uniform(-1, 1, (n, n))), torch.from_numpy(plan)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15, deadline=None)
@given(n=st.integers(2, 7), seed=st.integers(0, 100), tau=st.sampled_from([0.05, 0.5]))
def test_the_loss_is_that_of_the_plain_loops(kind, n, seed, tau):
    scores, plan = _case(n, seed)
    expected = naive.rematch(scores.tolist(), plan.tolist(), tau, kind)
    assert rematch_loss(scores, plan, tau, kind).item() == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_differences_and_finite_whatever_the_similarities(kind):
    scores, plan = _case(4, 1)
    torch.autograd.gradcheck(lambda s: rematch_loss(s, plan, 0.3, kind), scores.requires_grad_())
    large = (1000 * scores.detach().float()).requires_grad_()
    loss = rematch_loss(large, plan.float(), 0.05, kind)
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(large.grad).all()


def _tally() -> Tally:
    return Tally(Division(np.ones(50), np.arange(50) < 30), None)


def _plan(size: int, moved: list[int], seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows of ``moved`` give most of their mass, the others hardly any; the rows scaled to sum 1."""
    plan = np.random.default_rng(seed).random((size, size)) ** 4
    plan *= np.where(np.isin(np.arange(size), moved), 0.9, 0.1)[:, None] / size / plan.sum(axis=1, keepdims=True)
    return plan.astype(np.float32), (plan / plan.sum(axis=1, keepdims=True)).astype(np.float32)


def test_alignments_are_averaged_by_rank_apart_for_transported_images():
    tally = _tally()
    expected: dict[str, list] = {"transported": [], "untransported": []}
    for seed, moved in enumerate([[0, 3], [], [7]]):
        plan, refined = _plan(10, moved, seed)
        tally.moved(plan, refined)
        for row in range(10):
            kind = "transported" if row in moved else "untransported"
            expected[kind].append(sorted(refined[row].tolist(), reverse=True))
    found = tally.record()["alignment"]
    for kind, rows in expected.items():
        assert found[kind]["rows"] == len(rows)
        assert found[kind]["mean"] == pytest.approx(np.mean(rows, axis=0).tolist(), abs=1e-6)
