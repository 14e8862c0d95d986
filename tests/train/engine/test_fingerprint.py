"""What a checkpoint belongs to covers the code that trains and validates."""

import pytest

from pipeline.project import code
from pipeline.project.nodes import declarations
from pipeline.train.engine import fingerprint
from tests.toy_project import PARAMS, load_params

RUN = PARAMS["runs"]["sum"]
FRAGMENTS = {**RUN, "similarity": "sgr", "image": "regions"}
RUNS = {"plain": RUN, "l2rm": {**RUN, "scheme": "l2rm", "loss": "max"}, "sgr": FRAGMENTS}


@pytest.mark.parametrize("run", RUNS)
def test_the_digest_is_of_all_that_the_stage_and_the_members_of_the_run_import(tmp_path, run):
    params = load_params(tmp_path, runs=RUNS)
    declared = declarations()["train"]
    needed = code.needed(declared, declared.members(params, run))
    assert {"pipeline.ranking.metrics.recall", "pipeline.train.engine.loop"} <= needed
    assert fingerprint.code_of(params.runs[run]) == code.digest(needed)


def test_a_run_does_not_depend_on_members_it_does_not_name(tmp_path):
    params = load_params(tmp_path, runs=RUNS)
    declared = declarations()["train"]
    needed = code.needed(declared, declared.members(params, "plain"))
    assert not [one for one in needed if one.startswith(("pipeline.train.losses.max", "pipeline.train.schemes.l2rm"))]
