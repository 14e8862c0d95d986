"""Whole runs under l2rm: what they leave, and that a killed one ends in the same bytes."""

import shutil

import pytest

from tests.fragment_project import run_of, write_fragment_project
from tests.toy_project import PARAMS, load_params, write_prepared
from tests.train.some import killed_after, killed_at
from vse_pipe.artifacts import model_files, pairs
from vse_pipe.core.errors import UsageError
from vse_pipe.extract.text_stage import extract_texts
from vse_pipe.inject.stage import inject
from vse_pipe.project import paths
from vse_pipe.train import checkpoint
from vse_pipe.train.stage import train

pytestmark = pytest.mark.acceptance

OUTPUTS = [model_files.MODEL, model_files.CONFIG, model_files.HISTORY, pairs.REMATCHING, str(checkpoint.STATE)]
RUN = {**PARAMS["runs"]["sum"], "scheme": "l2rm", "loss": "max", "noise": "half"}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        root = tmp_path_factory.mktemp("l2rm")
        patch.chdir(root)
        write_prepared(train=160)
        params = load_params(root)
        for noise in ("half", "clean"):
            inject(params, noise)
        extract_texts(params, "words")
        train(_params(root), "sum", "cpu")
    return root


@pytest.fixture
def project(trained, tmp_path, monkeypatch):
    shutil.copytree(trained, tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


def _params(project, epochs=6, warm_up=3, noise="half", batch_size=32, **options):
    run = {**RUN, "noise": noise, "options": {"scheme": {"warm_up": warm_up, "cost_lr": 1e-3, **options}}}
    section = {**PARAMS["train"], "epochs": epochs, "batch_size": batch_size}
    return load_params(project, runs={"sum": run}, train=section)


def _bytes() -> dict[str, bytes]:
    return {name: (paths.trained("sum") / name).read_bytes() for name in OUTPUTS}


def test_mismatched_pairs_are_found_and_recorded(project):
    records = pairs.read_rematching(paths.trained("sum"))
    assert [record["epoch"] for record in records] == [4, 5, 6]
    assert all(record["by"] == "truth" for record in records)
    assert records[0]["truth"]["auc"] > 0.7
    rows = model_files.read_history(paths.trained("sum"))
    # lr_update is 2, counted from the end of the warm-up.
    assert rows.lr.round(6).tolist() == [0.01, 0.01, 0.01, 0.01, 0.01, 0.001]


def test_a_killed_run_goes_on_and_ends_bit_equal(project):
    params, whole = _params(project), _bytes()
    shutil.rmtree(paths.trained("sum"))
    killed_at([1, 3, 4, 5], params, "sum")
    train(params, "sum", "cpu")
    assert _bytes() == whole


def test_pairs_that_nobody_mixed_up_have_no_truth(project):
    train(_params(project, epochs=2, warm_up=1, noise="clean", mask=False), "sum", "cpu")
    (record,) = pairs.read_rematching(paths.trained("sum"))
    assert record["truth"] is None
    assert record["by"] == "split"


def test_chunks_that_the_doubled_batch_would_need_are_refused_before_anything_runs(project):
    run = {**RUN, "image": "two_branch", "options": {"scheme": {"warm_up": 1}}}
    params = load_params(project, runs={"sum": run}, train={**PARAMS["train"], "batch_size": 32, "chunk": 32})
    with pytest.raises(UsageError, match=r"runs\.sum\.train\.chunk: .* normalises over the whole batch"):
        train(params, "sum", "cpu")


def test_one_batch_of_everything_is_enough(project):
    train(_params(project, epochs=3, warm_up=1, batch_size=4000), "sum", "cpu")
    assert len(pairs.read_rematching(paths.trained("sum"))) == 2


@pytest.mark.parametrize(("similarity", "chunk"), [("scan_t2i", 0), ("saf", 0), ("sgr", 20)])
def test_fragments_go_on_bit_equal_after_a_kill(tmp_path, monkeypatch, similarity, chunk):
    monkeypatch.chdir(tmp_path)
    options = {"scheme": {"warm_up": 1, "cost_lr": 1e-3}}
    section = {"epochs": 3, "batch_size": 16, "chunk": chunk}
    run = run_of(similarity, "max", scheme="l2rm", noise="half", options=options, train=section)
    params = write_fragment_project(tmp_path, sum=run)
    inject(params, "half")
    train(params, "sum", "cpu")
    assert len(pairs.read_rematching(paths.trained("sum"))) == 2
    whole = _bytes()
    shutil.rmtree(paths.trained("sum"))
    killed_after(2, params, "sum")
    train(params, "sum", "cpu")
    assert _bytes() == whole
