"""The door's noise: equal to the stages, to plain loops and to the authors' index; what it refuses, in one line."""

from contextlib import chdir
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from tests.api import refused
from tests.golden import Vectors
from tests.naive import stages as naive
from tests.naive import training
from tests.toy_project import PARAMS, load_params, ready, write_prepared
from vse_pipe.api import noise
from vse_pipe.artifacts import audit as audit_file
from vse_pipe.artifacts import embeddings, images, pairs
from vse_pipe.audit.stage import audit
from vse_pipe.core.seeds import generator
from vse_pipe.project import paths

VECTORS = Path(__file__).parents[1] / "golden/vectors"
RNG = np.random.default_rng(0)
IMAGES = RNG.normal(size=(20, 6))
OWNERS = np.arange(60) % 20
CAPTIONS = IMAGES[OWNERS] + 0.4 * RNG.normal(size=(60, 6))
LOSSES = np.concatenate([0.2 + 0.05 * RNG.random(40), 0.8 + 0.05 * RNG.random(20)])


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project with a run on noisy pairs, embedded and audited; a data set whose ids do not ascend."""
    runs = {"half": {**PARAMS["runs"]["sum"], "noise": "half"}}
    with chdir(root := tmp_path_factory.mktemp("noise")):
        write_prepared()
        noises = {**PARAMS["noises"], "image": {"dataset": "toy", "protocol": "image", "rate": 0.6}}
        params = load_params(root, runs=runs, noises=noises, train={**PARAMS["train"], "epochs": 1})
        table = images.read(paths.prepared("toy"))
        images.write(paths.prepared("toy"), table.take(RNG.permutation(len(table))), ".")
        ready(params)
        audit(params, "half", device="cpu")
        yield params


def _train_pairs(name: str):
    table = pairs.read(paths.injected("toy", name)).to_pandas()
    return table[table.split == "train"]


@pytest.mark.parametrize(("name", "level", "rate"), [("half", "caption", 0.5), ("image", "image", 0.6)])
def test_mismatches_are_those_of_the_stage(project, name, level, rate):
    table = _train_pairs(name)
    order = images.read(paths.prepared("toy")).to_pandas()
    order = order.image_id[order.split == "train"].to_numpy()
    shown, mismatched = noise.inject(pd.Index(order).get_indexer(table.true_image_id), rate, level, project.seed)
    assert order[shown].tolist() == table.image_id.tolist()
    assert mismatched.tolist() == table.mismatched.tolist()
    assert (order != np.sort(order)).any()


def test_mismatches_are_the_authors_for_ids_that_ascend():
    arrays = Vectors(VECTORS / "noise_n50_r0.2_seed0.npz")
    owners, seed = torch.arange(50).repeat_interleave(5), int(arrays["seed"])
    for level in noise.LEVELS:
        shown, mismatched = noise.inject(owners * 7 - 100, 0.2, level, seed)
        assert ((shown + 100) // 7).tolist() == arrays[f"{level}_level_t2i"].tolist()
        assert mismatched.tolist() == (shown != (owners * 7 - 100).numpy()).tolist()


def test_posteriors_are_those_of_the_loops():
    scaled = (LOSSES - LOSSES.min()) / np.ptp(LOSSES)
    expected = training.fit_normal(scaled.tolist(), training.best_split(scaled.tolist()))
    np.testing.assert_allclose(noise.posterior(LOSSES, "gaussian"), expected, atol=1e-9)
    ours = noise.posterior(torch.from_numpy(LOSSES))
    assert (np.diff(ours[np.argsort(LOSSES)]) <= 0).all()


@pytest.mark.parametrize("mixture", noise.MIXTURES)
def test_a_split_that_is_none_is_doubted(mixture):
    with pytest.warns(UserWarning, match="do not trust the probabilities: all losses are equal") as caught:
        assert noise.posterior(np.ones(9), mixture).tolist() == [1.0] * 9
    assert caught[0].filename == __file__


@pytest.mark.parametrize("mass", [0.1, 0.8])
def test_plans_are_those_of_the_loops_under_any_mask(mass):
    cost = RNG.random((5, 6))
    mask = np.zeros((5, 6), bool)
    mask[[0, 0, 3, 4], [1, 2, 3, 0]] = True
    for closed in (None, mask, np.eye(5, 6, dtype=bool)):
        plan = noise.transport(cost, mass, 0.05, closed, tolerance=1e-6)
        loops = training.partial_plan(cost.tolist(), mass, 0.05, [] if closed is None else closed.tolist(), 1e-6)
        np.testing.assert_allclose(plan, loops, atol=1e-6)
        assert plan.sum() == pytest.approx(mass, abs=1e-4)
        assert closed is None or not plan[closed].any()
    ours = noise.transport(torch.from_numpy(cost).float()[:, :5], mask=np.eye(5, dtype=bool))
    assert (type(ours), ours.dtype, ours.shape) == (torch.Tensor, torch.float32, (5, 5))


def test_the_audit_is_that_of_the_stage(project):
    stored = audit_file.read_pairs(paths.audited("half")).to_pandas()
    sides = [embeddings.read(paths.embedded("half") / name) for name in (embeddings.IMAGES, embeddings.CAPTIONS)]
    places = [{int(number): row for row, number in enumerate(side.ids)} for side in sides]
    chosen = [places[1][number] for number in stored.caption_id]
    owners = [places[0][number] for number in stored.image_id]
    seed = generator(project.seed, "audit", "half")
    table = noise.audit(sides[0].vectors, torch.from_numpy(sides[1].vectors[chosen]), owners, seed=seed)
    assert (table.probability.diff().dropna() <= 0).all()
    table = table.sort_values("caption", ignore_index=True)
    assert table.image.tolist() == owners
    for name in ("loss", "probability", "score", "rematch_caption_score", "rematch_image_score"):
        np.testing.assert_allclose(table[name], stored[name], atol=1e-4, err_msg=name)
    assert table.rematch_caption.tolist() == [
        stored.caption_id.tolist().index(one) for one in stored.rematch_caption_id
    ]
    assert table.rematch_image.tolist() == [places[0][one] for one in stored.rematch_image_id]


def test_the_audit_is_that_of_the_loops():
    """All pairs are one batch; the two images without a caption take no part."""
    table = noise.audit(np.vstack([IMAGES, IMAGES[:2]]), CAPTIONS, OWNERS, batch=60)
    shown, texts = (np.array([naive.unit(row) for row in side]) for side in (IMAGES, CAPTIONS))
    matrix = (shown[OWNERS] @ texts.T).tolist()
    order = table.sort_values("caption")
    np.testing.assert_allclose(order.loss, naive.pair_losses(matrix, OWNERS.tolist(), 0.2), atol=1e-4)
    expected = naive.partners(matrix, OWNERS.tolist())
    assert order.rematch_caption.tolist() == [caption for caption, *_ in expected]
    assert order.rematch_image.tolist() == [image for *_, image, _ in expected]
    np.testing.assert_allclose(order.score, [matrix[pair][pair] for pair in range(60)], rtol=1e-5)
    keys = list(zip(-table.probability, -table.loss, table.caption, strict=True))
    assert keys == sorted(keys)


WRONG = {
    "owners of two dimensions": (
        lambda: noise.inject(np.ones((2, 3), int), 0.5),
        r"owners has shape \(2, 3\) of int64; expected \(captions\) integers",
    ),
    "an unknown level": (lambda: noise.inject([0, 1], 0.5, "images"), "unknown level 'images'"),
    "a negative cost": (lambda: noise.transport(-np.ones((2, 2))), "cost: 4 entries are negative"),
    "no mass": (lambda: noise.transport(np.ones((2, 2)), mass=0), "transport: mass: .* greater than 0"),
    "a mask of numbers": (
        lambda: noise.transport(np.ones((2, 2)), mask=np.eye(2)),
        r"mask has shape \(2, 2\) of float64",
    ),
    "one image": (lambda: noise.doubts(IMAGES, CAPTIONS, OWNERS * 0), "60 captions show 1 images"),
    "dimensions": (
        lambda: noise.audit(IMAGES, CAPTIONS[:, 1:], OWNERS),
        r"captions has shape \(60, 5\) .* expected \(rows, 6\)",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_does_not_fit_is_said_in_one_line(wrong):
    refused(*WRONG[wrong])


def test_doubts_find_swapped_captions():
    rng = np.random.default_rng(3)
    images = rng.normal(size=(300, 12)).astype(np.float32)
    owners = np.repeat(np.arange(300), 2)
    captions = (images[owners] + 0.8 * rng.normal(size=(600, 12))).astype(np.float32)
    swapped = rng.permutation(600)[:120]
    captions[swapped] = captions[np.roll(swapped, 1)]
    table = noise.doubts(images, torch.from_numpy(captions), owners)
    assert np.isin(table.caption[:100], swapped).mean() > 0.95
    low, high = table.attrs["interval"]
    assert low < 0.2 < high
    # Of two models: nothing but the maps tells them apart.
    mapped = noise.doubts(images, captions @ rng.normal(size=(12, 9)), owners)
    assert "similarity_1" in table
    assert "similarity_1" not in mapped
    assert np.isin(mapped.caption[:60], swapped).mean() > 0.9
