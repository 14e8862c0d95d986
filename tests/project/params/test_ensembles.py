import pytest

from tests.project.params.test_sweeps import FAR, OTHER, RUN
from tests.toy_project import load_params
from vse_pipe.core.errors import ParamsError

LISTED = {"first": None, "second": None}
RUNS = {"a": RUN, "b": RUN, "far": FAR}


def loaded(path, name="both", **node):
    return load_params(path, runs=RUNS, **OTHER, ensembles={name: {"first": "a", "second": "b", **node}})


def test_an_ensemble_is_ranked_after_the_runs(tmp_path):
    params = loaded(tmp_path)
    assert params.evaluated() == ["a", "b", "far", "both"]
    assert (params.ensembles["both"].first, params.ensembles["both"].second) == ("a", "b")


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ({"second": "fah"}, "ensembles.both.second: unknown run 'fah'; did you mean 'far'? known: a, b, far"),
        ({"first": "zz"}, "ensembles.both.first: unknown run 'zz'; known: a, b, far"),
        (
            {"second": "far"},
            "ensembles.both: both runs must be of one data set, but 'a' is of 'toy' and 'far' is of 'more'",
        ),
        ({"name": "b"}, "ensembles.b: a run has this name, and its folder in data/evaluate; rename one"),
        ({"third": "b"}, "ensembles.both.third: unknown key"),
        ({"row": "nopaper 1"}, "ensembles.both.row: "),
        ({"runs": ["a", "b"]}, "ensembles.both: name its runs, as first and second or as a list under runs"),
        ({"first": None}, "ensembles.both: name its runs, as first and second or as a list under runs"),
        ({**LISTED, "runs": ["a", "zz"]}, "ensembles.both.runs: unknown run 'zz'; known: a, b, far"),
        ({**LISTED, "runs": ["a", "b", "a"]}, "ensembles.both.runs: 'a' is among them already"),
        ({**LISTED, "runs": ["a"]}, "ensembles.both.runs: 'a' is one model; name two runs at least"),
        ({"weights": [1.0]}, "ensembles.both.weights: 1 weights for 2 runs; give one for each"),
        ({"weights": [0.0, 0.0]}, "ensembles.both.weights: all are 0"),
        ({"weights": [1.0, -1.0]}, "ensembles.both.weights"),
        ({"weights": "best"}, "ensembles.both.weights"),
        ({"cascade": 5, "fusion": "rrf"}, "ensembles.both.cascade: is of two runs in turn"),
        ({"cascade": 5, "weights": [1.0, 2.0]}, "ensembles.both.cascade: is of two runs in turn"),
        ({"cascade": 0}, "ensembles.both.cascade"),
        ({"fusion": "rff"}, "ensembles.both.fusion"),
    ],
)
def test_what_is_wrong_is_said_with_its_address(tmp_path, node, message):
    with pytest.raises(ParamsError) as caught:
        loaded(tmp_path, **node)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "first", "second", "message"),
    [
        ("x", "a", "a", r"ensembles\.x\.second: 'a' is the first run already"),
        ("../x", "a", "b", "should match pattern"),
    ],
)
def test_what_is_no_ensemble_is_named(tmp_path, name, first, second, message):
    with pytest.raises(ParamsError, match=message):
        loaded(tmp_path, name, first=first, second=second)


def test_members_are_those_named_either_way(tmp_path):
    assert loaded(tmp_path).ensembles["both"].members == ("a", "b")
    listed = loaded(tmp_path, **LISTED, runs=["b", "a"]).ensembles["both"]
    assert listed.members == ("b", "a")
    assert not listed.pair


def test_a_run_with_seeds_stands_in_a_list_for_all_its_models(tmp_path):
    runs = {**RUNS, "a": {**RUN, "seeds": [1, 2]}}
    params = load_params(
        tmp_path, runs=runs, **OTHER, ensembles={"seeds": {"runs": ["a"]}, "more": {"runs": ["b", "a/2"]}}
    )
    assert params.ensembles["seeds"].members == ("a/1", "a/2")
    assert params.ensembles["more"].members == ("b", "a/2")
    with pytest.raises(
        ParamsError, match="has a model for each of its seeds; name one: a/1, a/2, or give it under runs"
    ):
        load_params(tmp_path, runs=runs, **OTHER, ensembles={"both": {"first": "a", "second": "b"}})
