"""What holds for a run of every scheme: a killed one goes on and ends in the bytes of an uninterrupted one."""

import pytest

from tests.train.schemes.runs import ELSEWHERE, RUNS, params_of
from tests.train.some import check_resumes
from vse_pipe.project.registry import SCHEMES

# Long enough for a warm-up, a restart and noisy batches; the kills are before and after each.
OPTIONS = {
    "bicro": {"warm_up": 1, "variant": "code"},
    "crcl": {"warm_up": 1, "restarts": [2], "floor": 0.0},
    "decl": {"warm_up": 2, "eta": 0.5},
    "l2rm": {"warm_up": 1, "cost_lr": 1e-3},
    "memory_bank": {"share": 0.4},
    "ncr": {"warm_up": 1},
}


def test_every_scheme_is_run():
    assert RUNS.keys() | ELSEWHERE == set(SCHEMES.names())


@pytest.mark.acceptance
@pytest.mark.parametrize("scheme", RUNS)
def test_a_killed_run_goes_on_and_ends_bit_equal(tmp_path, monkeypatch, scheme):
    monkeypatch.chdir(tmp_path)
    changes = {"train": {"epochs": 4, "batch_size": 16}} if "train" not in RUNS[scheme] else {}
    if scheme in OPTIONS:
        changes["options"] = {"scheme": OPTIONS[scheme], "text": {"dropout": 0.1}}
    if scheme == "cca":
        changes = {"train": {"epochs": 2, "embed_size": 5}}
    params = params_of(tmp_path, scheme, "half", 40, **changes)
    check_resumes(params, "r", *range(1, params.runs["r"].train.epochs))
