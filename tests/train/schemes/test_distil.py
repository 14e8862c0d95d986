"""The distance from a teacher against loops, the scheme by its terms, and a run that learns from others."""

from contextlib import chdir
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import normalize

from tests.naive import losses as naive
from tests.sealed import made_anew
from tests.toy_project import PARAMS, load_params
from tests.train.losses.contract import DRAWN, check_slope, some_batch, some_scores
from tests.train.some import CPU, member, ready, some_pairs, some_scheme
from vse_pipe.artifacts import features, identity, pairs, texts
from vse_pipe.core.errors import InputError, IntegrityError
from vse_pipe.core.files import read_json, write_json
from vse_pipe.embed.stage import embed
from vse_pipe.inject.stage import teach
from vse_pipe.project import paths
from vse_pipe.project.registry import SCHEMES
from vse_pipe.ranking.vectors import Vectors
from vse_pipe.train import inputs, optimise
from vse_pipe.train.schemes.distil import Teacher, divergence
from vse_pipe.train.schemes.distil import scheme as distil
from vse_pipe.train.scored import LossTerms, Scored
from vse_pipe.train.stage import train

RUN = PARAMS["runs"]["sum"]
STUDENT = {**RUN, "loss": "infonce", "scheme": "distil", "noise": "both"}
TEACHERS = {
    "one": {"dataset": "toy", "noise": "half", "run": "seeded", "weight": 3.0},
    "both": {"dataset": "toy", "noise": "one", "run": "sum"},
}
RUNS = {"sum": {**RUN, "noise": "half"}, "seeded": {**RUN, "noise": "half", "seeds": [1, 2]}}


@settings(deadline=None)
@given(**DRAWN, taus=st.tuples(st.floats(0.03, 2), st.floats(0.03, 2)), mask=st.booleans())
def test_the_distance_equals_plain_loops(pairs, seed, taus, owners, mask):
    batch, teacher = some_batch(pairs, seed, torch.tensor(owners[:pairs]), mask), some_scores(pairs, seed + 100)
    found = divergence(batch, replace(batch, scores=teacher), *taus)
    expected = naive.divergence(batch.scores.tolist(), teacher.tolist(), *taus, batch.same.tolist())
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))


def test_its_gradient_is_the_slope():
    teacher = Scored.from_scores(some_scores(5, 3))
    check_slope(lambda batch: LossTerms(divergence(batch, teacher, 0.3, 0.3), "mean"), some_scores(5, 2))


def _taught(weight=0.5, **train):
    known = some_pairs()
    plain = some_scheme(known, "infonce", train=train)
    images, captions = (normalize(torch.randn(rows, 6), dim=1).half() for rows in (8, 24))
    teacher = Teacher(images, captions, torch.from_numpy(known.owners // 10 - 1), torch.arange(24))
    chosen = member(SCHEMES, "distil", weight=weight, tau=0.1, teacher_tau=0.2)
    setting = replace(plain.setting, run=replace(plain.setting.run, scheme=chosen))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Teacher, "read", lambda *arguments: teacher)
        return plain, distil(setting)


def test_a_pairs_distance_is_added_to_its_own_term_also_in_chunks():
    plain, scheme = _taught()
    batch = scheme.setting.pairs.batch(np.array([3, 20, 7, 11, 0]))
    images, texts = scheme.model.encode(batch, CPU)
    similar = scheme.teacher.images[batch.owners // 10 - 1].float() @ scheme.teacher.captions[batch.pairs].float().T
    distance = divergence(Scored.from_scores(images @ texts.T), Scored.from_scores(similar), 0.1, 0.2)
    terms = scheme.terms(images, texts, batch)
    torch.testing.assert_close(terms.per_pair, plain.terms(images, texts, batch).per_pair + 0.5 * distance)
    assert terms.reduction == "mean"
    _, scheme = _taught()
    batch = scheme.setting.pairs.batch(np.arange(9))
    scheme.terms(*scheme.model.encode(batch, CPU), batch).total().backward()
    whole = [weight.grad.clone() for weight in scheme.model.parameters()]
    scheme.model.zero_grad()
    scheme.terms(*optimise.encoded_in_chunks(scheme.model, 4, batch, CPU), batch).total().backward()
    for weight, expected in zip(scheme.model.parameters(), whole, strict=True):
        torch.testing.assert_close(weight.grad, expected)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Teachers trained and embedded; of one with two seeds both teach."""
    with chdir(root := tmp_path_factory.mktemp("taught")):
        params = ready(_params(), "half")
        for run in ("sum", "seeded/1", "seeded/2"):
            train(params, run, "cpu")
            embed(params, run, "cpu")
        teach(params, "one")
        teach(params, "both")
    return root


def _params():
    student = {**STUDENT, "options": {"scheme": {"weight": 50.0}}, "train": {"lr": 0.03}}
    runs = {**RUNS, "small": student, "alone": {**student, "options": {}}}
    return load_params(Path(), teachers=TEACHERS, runs=runs)


@pytest.fixture
def params(folder, monkeypatch):
    monkeypatch.chdir(folder)
    return _params()


def _table(params):
    stored = features.read(paths.extracted("toy", "plain"))
    return inputs.table(params.runs["small"], stored, texts.read(paths.extracted("toy", "words")), None, CPU)


def test_teachers_are_told_and_their_similarities_are_the_weighted_mean_of_the_models_cosines(params):
    out = paths.injected("toy", "both")
    assert (out / pairs.NAME).read_bytes() == (paths.injected("toy", "half") / pairs.NAME).read_bytes()
    told = [(one["run"], one["folder"], one["weight"]) for one in read_json(out / pairs.TEACHER, list)]
    seeded = [(f"seeded/{seed}", f"data/embed/seeded/{seed}", 1.5) for seed in (1, 2)]
    assert told == [*seeded, ("sum", "data/embed/sum", 1.0)]
    known, chosen = _table(params).train_pairs, np.array([5, 0, 17, 23, 2])
    found = Teacher.read(paths.injected("toy", "both"), known).scores(chosen, CPU)
    expected = torch.zeros(5, 5)
    for run, weight in (("seeded/1", 0.375), ("seeded/2", 0.375), ("sum", 0.25)):
        held = Vectors.of_folder(paths.embedded(run))
        sides = held.images, held.captions
        image, caption = (dict(zip(side.ids.tolist(), side.vectors, strict=True)) for side in sides)
        for (i, one), (t, other) in product(enumerate(chosen), enumerate(chosen)):
            told = caption[known.texts.caption_ids[known.places[other]]]
            expected[i, t] += weight * float(np.dot(image[known.owners[one]], told))
    torch.testing.assert_close(found, expected, atol=2e-3, rtol=0)


@pytest.mark.acceptance
def test_a_student_comes_nearer_to_its_teacher(params):
    known, chosen, distances = _table(params).train_pairs, np.arange(30), {}
    told = Scored.from_scores(Teacher.read(paths.injected("toy", "both"), known).scores(chosen, CPU))
    for run in ("small", "alone"):
        train(params, run, "cpu")
        embed(params, run, "cpu")
        assert Vectors.of_folder(paths.embedded(run)).compared_by == "cosine"
        # Its similarities by itself, read as those of a teacher.
        folder = paths.DATA / f"alone-{run}"
        folder.mkdir()
        write_json(folder / pairs.TEACHER, [{"run": run, "folder": str(paths.embedded(run)), "weight": 1.0}])
        own = Scored.from_scores(Teacher.read(folder, known).scores(chosen, CPU))
        distances[run] = divergence(own, told, 0.05, 0.05).mean().item()
    assert distances["small"] < 0.8 * distances["alone"], distances


def test_teachers_embedded_anew_or_without_their_training_split_are_refused(params, folder):
    embedded = paths.embedded("sum")
    vectors = identity.parts_of(embedded)[str(embedded)]["vectors"]
    made_anew(embedded, vectors="0")
    try:
        with pytest.raises(IntegrityError, match=r"made from other vectors .*; run `vse-pipe inject --teacher both`"):
            inputs.identities([paths.injected("toy", "both")])
    finally:
        made_anew(embedded, vectors=vectors)
    changed = replace(params, embed=params.embed.model_copy(update={"splits": ["val", "test"]}))
    embed(changed, "seeded/1", "cpu")
    before = (paths.injected("toy", "one") / pairs.TEACHER).read_bytes()
    try:
        with pytest.raises(InputError, match=r"data/embed/seeded/1: holds no split train"):
            teach(params, "one")
        assert (paths.injected("toy", "one") / pairs.TEACHER).read_bytes() == before
    finally:
        embed(params, "seeded/1", "cpu")
