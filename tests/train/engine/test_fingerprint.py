"""What a checkpoint belongs to covers the code that trains and validates."""

import pytest

from tests.toy_project import PARAMS, load_params
from vse_pipe.project import code
from vse_pipe.project.stages import declarations
from vse_pipe.train import checkpoint

RUN = PARAMS["runs"]["sum"]
FRAGMENTS = {**RUN, "similarity": "sgr", "image": "regions"}
RUNS = {"plain": RUN, "l2rm": {**RUN, "scheme": "l2rm", "loss": "max"}, "sgr": FRAGMENTS}


@pytest.mark.parametrize("run", RUNS)
def test_the_digest_is_of_all_that_the_stage_and_the_members_of_the_run_import(tmp_path, run):
    params = load_params(tmp_path, runs=RUNS)
    declared = declarations()["train"]
    needed = code.needed(declared, declared.members(params, run))
    assert {"vse_pipe.ranking.metrics.recall", "vse_pipe.train.loop"} <= needed
    assert checkpoint.code_of(params.runs[run]) == code.digest(needed)


def test_a_run_does_not_depend_on_members_it_does_not_name(tmp_path):
    params = load_params(tmp_path, runs=RUNS)
    declared = declarations()["train"]
    needed = code.needed(declared, declared.members(params, "plain"))
    assert not [one for one in needed if one.startswith(("vse_pipe.train.losses.max", "vse_pipe.train.schemes.l2rm"))]
