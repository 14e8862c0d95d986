"""The scheme by its steps, and whole runs of it."""

import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from tests.train.killed import killed_at
from tests.train.schemes.noisy import outputs, params_of, trained_noisy
from tests.train.some import adam, some_pairs, some_scheme
from vse_pipe.artifacts import model_files
from vse_pipe.core.errors import UsageError
from vse_pipe.project import paths
from vse_pipe.project.registry import LOSSES, SCHEMES
from vse_pipe.train import checkpoint, optimise
from vse_pipe.train.batch import Scored, own_chances
from vse_pipe.train.schemes.crcl import refined
from vse_pipe.train.stage import train

CPU = torch.device("cpu")
CRCL = LOSSES.load("crcl")


def _scheme(epochs: int = 9, **options):
    pairs = some_pairs(40, each=2)
    return some_scheme(pairs, "crcl", "crcl", train={"epochs": epochs, "chunk": 0}, **options)


def _scored(scheme, chosen) -> Scored:
    with torch.no_grad():
        images, texts = scheme.model.encode(scheme.setting.pairs.batch(chosen), CPU)
    return Scored.from_scores(images @ texts.T)


def _visit(scheme, chosen) -> torch.Tensor:
    batch = scheme.setting.pairs.batch(chosen)
    images, texts = scheme.model.encode(batch, CPU)
    return scheme.terms(images, texts, batch).per_pair


def test_targets_stay_in_the_warm_up_then_are_the_chances_then_move():
    """The order of the authors' train_self, one visit an epoch, written out with plain numbers."""
    scheme, chosen = _scheme(warm_up=2, alpha=0.6, floor=0.0), np.arange(4, 12)
    p = own_chances(_scored(scheme, chosen), 0.05)
    targets, given = torch.ones(8), [torch.ones(8), torch.ones(8), 0.6 * p + 0.4 * p]
    given.append(0.6 * given[2] + 0.4 * p)
    kept = [targets, p, given[2], given[3]]
    for epoch in range(4):
        scheme.start(epoch)
        found = _visit(scheme, chosen)
        scored = replace(_scored(scheme, chosen), targets=given[epoch])
        torch.testing.assert_close(found, CRCL.loss(scored, CRCL.Params()).per_pair)
        torch.testing.assert_close(scheme.targets[4:12], kept[epoch])
    assert (scheme.targets[12:] == 1).all(), "a pair that was not visited keeps its target"


def test_a_restart_makes_the_network_anew_and_keeps_the_targets():
    scheme = _scheme(warm_up=1, restarts=[3, 2])
    own, chosen = adam(scheme.model, 1e-2), np.arange(8)
    batch = scheme.setting.pairs.batch(chosen)
    starts = []
    for epoch in range(7):
        before, targets = scheme.model.img.fc.weight.detach().clone(), scheme.targets.clone()
        scheme.start(epoch)
        starts.append(not torch.equal(before, scheme.model.img.fc.weight))
        assert torch.equal(scheme.targets, targets)
        optimise.step(scheme, own, batch)
        steps = {int(moments["step"]) for moments in own.state.values()}
        assert steps == {epoch - max(start for start in (0, 3, 5) if start <= epoch) + 1}
        # In the warm-up after a restart the targets are used and not refined.
        assert torch.equal(scheme.targets, targets) == (epoch in (3, 5))
    assert starts == [False, False, False, True, False, True, False]
    assert (scheme.decays_from, scheme.selects_from) == (5, 5)


def test_a_batch_in_chunks_visits_each_pair_once():
    found = []
    for chunk in (0, 3):
        scheme = some_scheme(some_pairs(40), "crcl", "crcl", train={"chunk": chunk}, warm_up=0, alpha=0.5)
        scheme.start(0)
        optimise.step(scheme, adam(scheme.model, 1e-3), scheme.setting.pairs.batch(np.arange(8)))
        found.append(scheme.targets)
    torch.testing.assert_close(*found)


def test_a_network_that_trusts_hardly_any_pair_is_said(capsys):
    scheme = _scheme(warm_up=1)
    scheme.targets[1:] = 0
    scheme.start(0)
    assert "trusted" not in capsys.readouterr().err
    scheme.start(1)
    assert "1 of 40 pairs are left that are trusted at all" in capsys.readouterr().err


def test_restarts_that_leave_no_epoch_are_refused():
    with pytest.raises(UsageError, match=r"take 9 epochs and leave none of train\.epochs 9"):
        _scheme(restarts=[4, 3], warm_up=2)


def test_a_warm_up_that_leaves_no_epoch_is_said(capsys):
    _scheme(warm_up=9)
    assert "9 epochs of warm-up leave none of train.epochs 9" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", [{"alpha": 1.5}, {"floor": 1.0}, {"restarts": [0]}])
def test_parameters_are_checked(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        SCHEMES.options("crcl")(**wrong)


def _params(root):
    return params_of(root, "crcl", epochs=7, warm_up=2, restarts=[4], floor=0.0)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return trained_noisy(tmp_path_factory.mktemp("crcl"), _params)


# Within the warm-up, after the chances were kept, and before the restart.
@pytest.mark.acceptance
def test_a_killed_run_goes_on_and_ends_bit_equal(project):
    whole = outputs()
    shutil.rmtree(paths.trained("sum"))
    killed_at([1, 2, 4], _params(project), "sum")
    train(_params(project), "sum", "cpu")
    assert outputs() == whole


def test_mismatched_pairs_lose_their_trust(project, capsys):
    whole = model_files.read_history(paths.trained("sum"))
    kept = load_file(paths.trained("sum") / checkpoint.STATE)["scheme/targets"]
    assert kept.dtype == torch.float32
    # lr_update is 2, counted from the restart after four epochs.
    assert whole.lr.round(6).tolist() == [0.01] * 6 + [0.001]
    shutil.rmtree(paths.trained("sum"))
    train(_params(project), "sum", "cpu")
    said = capsys.readouterr().err
    assert said.count("begins with a new network") == 1
    areas = re.findall(r"crcl: .* AUC of the mismatched (\S+)", said)
    assert min(map(float, areas)) > 0.6


LAST, CHANCES = torch.tensor([1.0, 0.2, 0.0, 0.05]), torch.tensor([0.5, 0.0, 0.4, 0.9])


def test_a_target_moves_towards_the_chance_and_is_cut_off_below_the_floor():
    expected = torch.tensor([0.9, 0.16, 0.0, 0.22])
    torch.testing.assert_close(refined(LAST, CHANCES, 0.8, 0.1), expected)
    torch.testing.assert_close(refined(LAST, CHANCES, 0.8, 0.0)[2], torch.tensor(0.08))


def test_a_share_of_one_stays_but_for_the_floor():
    torch.testing.assert_close(refined(LAST, CHANCES, 1.0, 0.1), torch.tensor([1.0, 0.2, 0.0, 0.0]))


def test_what_is_given_is_not_changed():
    before = LAST.clone()
    refined(LAST, CHANCES, 1.0, 0.3)
    assert torch.equal(LAST, before)
