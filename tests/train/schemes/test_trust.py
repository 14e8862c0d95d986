"""CRCL and DECL, which keep a trust in each pair: the schemes by their steps, and whole runs of them."""

import re
import shutil
from contextlib import chdir
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.toy_project import PARAMS, load_params
from tests.train.some import CPU, adam, ready, some_pairs, some_scheme
from vse_pipe.artifacts import model_files
from vse_pipe.core.errors import UsageError
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import LOSSES
from vse_pipe.train import optimise
from vse_pipe.train.scheme import groups
from vse_pipe.train.schemes.crcl import refined
from vse_pipe.train.scored import Scored, fits, own_chances
from vse_pipe.train.stage import train

CRCL, DECL = LOSSES.load("crcl"), LOSSES.load("decl")
RUNS = {
    "crcl": {"epochs": 7, "warm_up": 2, "restarts": [4], "floor": 0.0},
    "decl": {"epochs": 6, "warm_up": 3, "eta": 0.5},
}


def _crcl_scheme(epochs: int = 9, **options):
    return some_scheme(some_pairs(40, each=2), "crcl", "crcl", train={"epochs": epochs, "chunk": 0}, **options)


def _encoded(scheme, chosen):
    batch = scheme.setting.pairs.batch(chosen)
    return *scheme.model.encode(batch, CPU), batch


@torch.no_grad()
def _scored(scheme, chosen) -> Scored:
    images, texts, _ = _encoded(scheme, chosen)
    return Scored.from_scores(images @ texts.T)


def test_targets_stay_in_the_warm_up_then_are_the_chances_then_move():
    """The order of the authors' train_self, one visit an epoch, written out with plain numbers."""
    scheme, chosen = _crcl_scheme(warm_up=2, alpha=0.6, floor=0.0), np.arange(4, 12)
    p = own_chances(_scored(scheme, chosen), 0.05)
    targets, given = torch.ones(8), [torch.ones(8), torch.ones(8), 0.6 * p + 0.4 * p]
    given.append(0.6 * given[2] + 0.4 * p)
    kept = [targets, p, given[2], given[3]]
    for epoch in range(4):
        scheme.start(epoch)
        found = scheme.terms(*_encoded(scheme, chosen)).per_pair
        scored = replace(_scored(scheme, chosen), targets=given[epoch])
        torch.testing.assert_close(found, CRCL.loss(scored, CRCL.Params()).per_pair)
        torch.testing.assert_close(scheme.targets[4:12], kept[epoch])
    assert (scheme.targets[12:] == 1).all(), "a pair that was not visited keeps its target"


def test_a_restart_makes_the_network_anew_and_keeps_the_targets():
    scheme = _crcl_scheme(warm_up=1, restarts=[3, 2])
    own, batch, starts = adam(scheme.model, 1e-2), scheme.setting.pairs.batch(np.arange(8)), []
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
    with pytest.raises(UsageError, match=r"take 9 epochs and leave none of train\.epochs 9"):
        _crcl_scheme(restarts=[4, 3], warm_up=2)


def test_a_batch_in_chunks_visits_each_pair_once():
    found = []
    for chunk in (0, 3):
        scheme = some_scheme(some_pairs(40), "crcl", "crcl", train={"chunk": chunk}, warm_up=0, alpha=0.5)
        scheme.start(0)
        optimise.step(scheme, adam(scheme.model, 1e-3), scheme.setting.pairs.batch(np.arange(8)))
        found.append(scheme.targets)
    torch.testing.assert_close(*found)


@pytest.mark.parametrize(
    ("share", "floor", "expected"),
    [(0.8, 0.1, [0.9, 0.16, 0, 0.22]), (0.8, 0, [0.9, 0.16, 0.08, 0.22]), (1.0, 0.1, [1, 0.2, 0, 0])],
)
def test_a_target_moves_towards_the_chance_and_is_cut_off_below_the_floor(share, floor, expected):
    last, chances = torch.tensor([1.0, 0.2, 0.0, 0.05]), torch.tensor([0.5, 0.0, 0.4, 0.9])
    torch.testing.assert_close(refined(last, chances, share, floor), torch.tensor(expected))
    assert last.tolist() == pytest.approx([1.0, 0.2, 0.0, 0.05]), "what is given is not changed"


# DECL.
def _decl_scheme(**options):
    return some_scheme(some_pairs(40, each=2), "decl", "decl", train={"epochs": 4}, **{"warm_up": 1, **options})


def test_the_hinge_counts_fewer_negatives_at_each_step_and_mismatched_pairs_have_no_label():
    scheme, chosen = _decl_scheme(eta=0.6), np.arange(8)
    for step in range(1, 8):
        images, texts, batch = _encoded(scheme, chosen)
        hardest = max(int(8 - 0.6 * step), 5)
        expected = DECL.loss(Scored.from_scores(images @ texts.T), DECL.Params(hardest=hardest)).per_pair
        torch.testing.assert_close(scheme.terms(images, texts, batch).per_pair, expected)
    scheme, chosen = _decl_scheme(eta=0.0), np.arange(8)
    scheme.matched[3:6] = False
    images, texts, batch = _encoded(scheme, chosen)
    targets = torch.tensor([1.0, 1, 1, 0, 0, 0, 1, 1])
    scored = replace(Scored.from_scores(images @ texts.T), targets=targets)
    expected = DECL.loss(scored, DECL.Params(hardest=8)).per_pair
    torch.testing.assert_close(scheme.terms(images, texts, batch).per_pair, expected)


def test_pairs_are_judged_by_their_evidence_within_random_batches():
    scheme = _decl_scheme()
    scheme.start(0)
    assert scheme.matched.all(), "in the warm-up every pair is taken for matched"
    scheme.start(1)
    found = np.zeros(40)
    for group in groups(40, 8, 3, 1):
        with torch.no_grad():
            images, texts, _ = _encoded(scheme, group)
        found[group] = fits(Scored.from_scores(images @ texts.T), 0.1).diagonal()
    assert found[scheme.matched].min() > found[~scheme.matched].max()
    assert 0 < scheme.matched.sum() < 40


# Both.


def _params(root: Path, name: str) -> Params:
    """The run ``sum`` with loss and scheme of one name."""
    options = {**RUNS[name]}
    section = {**PARAMS["train"], "epochs": options.pop("epochs"), "batch_size": 32}
    run = {**PARAMS["runs"]["sum"], "loss": name, "scheme": name, "noise": "half", "options": {"scheme": options}}
    return load_params(root, runs={"sum": run}, train=section, text={"gru": {"word_dim": 6, "dropout": 0.1}})


@pytest.fixture(scope="module", params=RUNS)
def name(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def trained(tmp_path_factory, name) -> Path:
    """A project with half of its train pairs mixed up, and a run."""
    with chdir(root := tmp_path_factory.mktemp(name)):
        train(ready(_params(root, name), "half", train=160), "sum", "cpu")
    return root


def test_mismatched_pairs_lose_their_trust(project, name, capsys):
    whole = model_files.read_history(paths.trained("sum"))
    if name == "crcl":
        # lr_update is 2, counted from the restart after four epochs.
        assert whole.lr.round(6).tolist() == [0.01] * 6 + [0.001]
    shutil.rmtree(paths.trained("sum"))
    train(_params(project, name), "sum", "cpu")
    log = capsys.readouterr().err
    assert log.count("begins with a new network") == (name == "crcl")
    areas = re.findall(rf"{name}[:,] .* AUC of the mismatched (\S+)", log)
    assert len(areas) == {"crcl": 5, "decl": 3}[name]
    assert min(map(float, areas)) > 0.6
