"""Calibration beside an evaluation of a run: fitted on val, measured on test, against the loops of tests.naive.evaluate."""

import numpy as np
import pytest
import torch

from tests.evaluate.embedded import correct, sides, ways, write
from tests.naive import evaluate as naive
from tests.toy_project import load_params
from vse_pipe.artifacts.evaluation import DIRECTIONS
from vse_pipe.evaluate.stage import evaluate
from vse_pipe.ranking.calibration import fitted
from vse_pipe.ranking.criteria import parse
from vse_pipe.ranking.scores import Scores
from vse_pipe.ranking.split import BankSource, Split, cosine

SPLITS = {"train": 6, "val": 60, "test": 50}


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(*sides(SPLITS, noise=1.0))
    return tmp_path


def measured(root, inference="nns", **options) -> dict:
    options = {"resamples": 50, **options}
    return evaluate(load_params(root, evaluate=options), "sum", [inference], "cpu")[inference]


def best(split, direction):
    scores, _, _, own, others = ways(split, images=SPLITS, noise=1.0)[direction]
    return naive.candidates(scores.tolist(), correct(own, others))


def test_it_is_that_of_the_loop(project):
    found = measured(project, calibrate="isotonic")["calibration"]
    for direction in DIRECTIONS:
        known, asked = best("val", direction), best("test", direction)
        knots = fitted(np.array([one for one, _, _ in known]), np.array([two for _, two, _ in known]))
        told, matched = np.interp([one for one, _, _ in asked], *knots).tolist(), [two for _, two, _ in asked]
        own = found[direction]
        assert own["measured"]["pairs"] == sum(one["pairs"] for one in own["bins"]) == len(asked)
        assert own["fitted"]["base_rate"] == pytest.approx(np.mean([two for _, two, _ in known]), abs=1e-6)
        assert own["ece"] == pytest.approx(naive.expected_calibration_error(told, matched), abs=0.01)
        by_score = naive.isotonic([one for one, _, _ in known], [two for _, two, _ in known])
        np.testing.assert_allclose(np.interp(list(by_score), *knots), list(by_score.values()), atol=1e-6)
        low, high = own["ece_interval"]
        assert low <= own["ece"] <= high
        assert all(("matched" in one) == (one["pairs"] > 0) for one in own["bins"])


def test_nothing_else_changes_a_matching_has_no_scores_and_a_criterion_its_own(project):
    plain, beside = measured(project), measured(project, calibrate="isotonic")
    assert "calibration" not in plain
    assert {key: value for key, value in beside.items() if key != "calibration"} == plain
    assert "calibration" not in measured(project, "hungarian", calibrate="isotonic")
    own, other = (measured(project, name, calibrate="isotonic")["calibration"] for name in ("is", "nns"))
    assert own != other


def test_it_needs_val_and_the_figures_stay(project, warned):
    for inference in ("nns", "hungarian"):
        assert "calibration" not in measured(project, inference, calibrate="isotonic", split="val")
    message = "no probability is fitted: it needs the split val beside the one that is ranked"
    assert any(message in line for line in warned)
    warned.clear()
    write(*sides({"train": 6, "test": 24}))
    assert "calibration" not in measured(project, calibrate="isotonic")
    assert any("no probability is fitted" in line for line in warned)


@pytest.mark.parametrize("criterion", ["is", "csls", "dual_is", "nnn"])
def test_the_scores_are_those_of_a_search(project, criterion):
    """One number an item, from all queries of the split as the bank; what ``rerank`` does to a query is not in them."""
    found = measured(project, criterion, calibrate="isotonic", resamples=0)["calibration"]["text_to_image"]
    known, (scores, matched) = (corrected(split, criterion) for split in ("val", "test"))
    told = np.interp(scores, *fitted(*known))
    assert found["ece"] == pytest.approx(naive.expected_calibration_error(told.tolist(), matched.tolist()), abs=0.01)
    assert found["brier"] == pytest.approx(np.mean((told - matched) ** 2), abs=1e-3)


def corrected(split, name):
    seen, read = (side.split(split) for side in sides(SPLITS, noise=1.0))
    one = Split(seen.image_ids, read.ids, read.image_ids, *(torch.from_numpy(side.vectors) for side in (seen, read)))
    scores = Scores.from_sides(one.images, one.captions, cosine).transposed()
    bank = BankSource(split).bank(one, scores, "text_to_image", cosine, 64)
    found = parse(name, {}).item_bias(bank)
    dense = (found.scale * torch.from_numpy(read.vectors @ seen.vectors.T) - found.bias).tolist()
    scored, matched, _ = zip(*naive.candidates(dense, correct(read.image_ids, seen.image_ids)), strict=True)
    return np.array(scored), np.array(matched)
