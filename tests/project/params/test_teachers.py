import pytest

from tests.project.params.test_sweeps import FAR, OTHER, RUN
from tests.rules.sources import ROOT
from tests.toy_project import load_params
from vse_pipe.core.errors import ParamsError
from vse_pipe.project.params.document import read_document
from vse_pipe.tools.check import dvc_yaml

TEACHER = {"dataset": "toy", "noise": "clean", "run": "big"}
STUDENT = {**RUN, "scheme": "distil", "noise": "taught"}


def loaded(path, teachers=None, **runs):
    given = {"taught": TEACHER} if teachers is None else teachers
    return load_params(path, **OTHER, teachers=given, runs={"big": RUN, "far": FAR, "small": STUDENT, **runs})


def test_the_pairs_behind_a_teacher_are_those_of_its_noise(tmp_path):
    params = loaded(tmp_path, {"taught": {**TEACHER, "noise": "other"}, "other": {**TEACHER, "noise": "half"}})
    assert params.pairs("taught") == params.noises["half"] == params.pairs("half")


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ({"run": "bih"}, "teachers.taught.run: unknown run 'bih'; did you mean 'big'?"),
        ({"run": "far"}, "teachers.taught.run: 'far' is of data set 'more', not 'toy'"),
        ({"noise": "cleen"}, "teachers.taught.noise: unknown noise 'cleen'; did you mean 'clean'?"),
        ({"noise": "more"}, "teachers.taught.noise: 'more' belongs to data set 'more', not 'toy'"),
        ({"run": "small"}, "teachers.taught: what it is made of is trained on it, in a circle"),
        ({"noise": "taught"}, "teachers.taught: what it is made of is trained on it, in a circle"),
        ({"weight": 0.0}, "teachers.taught.weight: input should be greater than 0"),
        ({"dataset": "tot"}, "teachers.taught.dataset: unknown data set 'tot'"),
    ],
)
def test_what_is_wrong_is_said_with_its_address(tmp_path, node, message):
    with pytest.raises(ParamsError) as caught:
        loaded(tmp_path, {"taught": {**TEACHER, **node}})
    assert message in str(caught.value)


def test_runs_and_folders_that_do_not_fit(tmp_path):
    def told(**changes):
        with pytest.raises(ParamsError) as caught:
            loaded(tmp_path, **changes)
        return str(caught.value)

    assert "runs.small.scheme: scheme 'distil' learns from a teacher" in told(small={**STUDENT, "noise": "clean"})
    assert "runs.small.noise: 'taught' is a teacher, whom scheme 'plain'" in told(small={**STUDENT, "scheme": "plain"})
    assert "teachers.half: noises.half of the same data set" in told(teachers={"half": TEACHER, "taught": TEACHER})
    order = {**RUN, "similarity": "order"}
    assert "'big' is compared by order; a teacher is compared by cosine" in told(big=order)


def test_a_model_that_is_given_needs_no_teacher(tmp_path):
    given = {"noise": "clean", "model": "models/small", "sha256": "0" * 64}
    assert loaded(tmp_path, small={**STUDENT, **given}).runs["small"].noise == "clean"


def test_in_dvc_yaml_a_student_depends_on_its_teacher_and_on_no_other_run():
    """Through its pairs: by the stages' own outputs, from the student back to what the teacher is trained on."""
    document = read_document(ROOT / "params.yaml")
    document["teachers"] = {"taught": {"dataset": "shapes", "noise": "clean", "run": "max"}}
    document["runs"]["small"] = {**document["runs"]["sum"], "scheme": "distil", "noise": "taught"}
    stages, problems = dvc_yaml.read(ROOT / "dvc.yaml", document)
    assert not problems
    made = {out: stage for stage in stages for out in stage.outs}
    found, waiting = set(), ["train@small"]
    while waiting:
        name = waiting.pop()
        (stage,) = (one for one in stages if one.name == name)
        found.add(stage.name)
        waiting += [made[dep].name for dep in stage.deps if dep in made]
    assert found >= {"inject_teachers@taught", "embed@max", "train@max", "inject@clean"}
    assert not found & {"embed@small", "train@sum", "embed@sum", "train@hal"}
