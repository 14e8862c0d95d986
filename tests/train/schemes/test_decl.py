"""The scheme by its steps, and whole runs of it."""

import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.train.killed import killed_at
from tests.train.schemes.noisy import outputs, params_of, trained_noisy
from tests.train.some import some_pairs, some_scheme
from vse_pipe.core.errors import PipelineError
from vse_pipe.project import paths
from vse_pipe.project.registry import LOSSES, SCHEMES
from vse_pipe.train.batch import Scored, fits
from vse_pipe.train.scheme import groups
from vse_pipe.train.stage import train

CPU = torch.device("cpu")
DECL = LOSSES.load("decl")


def _scheme(**options):
    return some_scheme(some_pairs(40, each=2), "decl", "decl", train={"epochs": 4}, **{"warm_up": 1, **options})


def _encoded(scheme, chosen):
    batch = scheme.setting.pairs.batch(chosen)
    return *scheme.model.encode(batch, CPU), batch


def test_the_hinge_counts_fewer_negatives_at_each_step():
    scheme, chosen = _scheme(eta=0.6), np.arange(8)
    for step in range(1, 8):
        images, texts, batch = _encoded(scheme, chosen)
        hardest = max(int(8 - 0.6 * step), 5)
        expected = DECL.loss(Scored.from_scores(images @ texts.T), DECL.Params(hardest=hardest)).per_pair
        torch.testing.assert_close(scheme.terms(images, texts, batch).per_pair, expected)


@pytest.mark.parametrize("matched", ["mixture", "code"])
def test_pairs_are_judged_by_their_evidence_within_random_batches(matched):
    scheme = _scheme(matched=matched)
    scheme.start(0)
    assert scheme.matched.all(), "in the warm-up every pair is taken for matched"
    scheme.start(1)
    found = np.zeros(40)
    for group in groups(40, 8, 3, 1):
        with torch.no_grad():
            images, texts, _ = _encoded(scheme, group)
        shares = fits(Scored.from_scores(images @ texts.T), 0.1)
        best = (shares.argmax(dim=1) == torch.arange(8)).float()
        found[group] = best if matched == "code" else shares.diagonal()
    if matched == "code":
        assert (scheme.matched == (found == 1)).all()
    else:
        assert found[scheme.matched].min() > found[~scheme.matched].max()
    assert 0 < scheme.matched.sum() < 40


def test_pairs_taken_for_mismatched_have_no_label():
    scheme, chosen = _scheme(eta=0.0), np.arange(8)
    scheme.matched[3:6] = False
    images, texts, batch = _encoded(scheme, chosen)
    targets = torch.tensor([1.0, 1, 1, 0, 0, 0, 1, 1])
    scored = replace(Scored.from_scores(images @ texts.T), targets=targets)
    expected = DECL.loss(scored, DECL.Params(hardest=8)).per_pair
    torch.testing.assert_close(scheme.terms(images, texts, batch).per_pair, expected)


def test_evidence_that_is_not_finite_stops_the_run():
    scheme = _scheme()
    scheme.of_pairs = lambda *rest: np.full(40, np.nan)
    with pytest.raises(PipelineError, match=r"not finite; lower train\.lr"):
        scheme.start(1)


def test_equal_evidence_trains_on_everything_and_says_so(capsys):
    scheme = _scheme()
    scheme.of_pairs = lambda *rest: np.full(40, 0.2)
    scheme.start(1)
    assert "cannot be divided: all losses are equal" in capsys.readouterr().err
    assert scheme.matched.all()


def test_a_warm_up_that_leaves_no_epoch_is_said(capsys):
    _scheme(warm_up=4)
    assert "4 epochs of warm-up leave none" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", [{"eta": -1.0}, {"threshold": 1.0}, {"matched": "largest"}])
def test_parameters_are_checked(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        SCHEMES.options("decl")(**wrong)


def _params(root):
    return params_of(root, "decl", epochs=6, warm_up=3, eta=0.5)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return trained_noisy(tmp_path_factory.mktemp("decl"), _params)


@pytest.mark.acceptance
def test_a_killed_run_goes_on_and_ends_bit_equal(project):
    whole = outputs()
    shutil.rmtree(paths.trained("sum"))
    killed_at([1, 3], _params(project), "sum")
    train(_params(project), "sum", "cpu")
    assert outputs() == whole


def test_the_log_says_how_well_the_pairs_are_divided(project, capsys):
    shutil.rmtree(paths.trained("sum"))
    train(_params(project), "sum", "cpu")
    areas = re.findall(r"decl: .* AUC of the mismatched (\S+)", capsys.readouterr().err)
    assert len(areas) == 3
    assert min(map(float, areas)) > 0.6
