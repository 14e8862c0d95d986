"""transfers of params.yaml, and those that a command line asks for."""

import pytest

from tests.toy_project import PARAMS, load_params
from vse_pipe.core.errors import ParamsError, UsageError
from vse_pipe.project.params.checks import with_transfers

RUN = PARAMS["runs"]["sum"]
FILTERS = {"backbone": "random_filters", "image_size": 32}
CHANGES = {
    "datasets": {name: {"format": "csv", "source": "toy.csv"} for name in ("toy", "mine", "bare")},
    "features": {
        "plain": {"dataset": "toy", "backbone": "precomp"},
        "filters": {"dataset": "toy", **FILTERS},
        "my_filters": {"dataset": "mine", **FILTERS},
        "coarse": {"dataset": "mine", **FILTERS, "filters": 8},
        "my_plain": {"dataset": "mine", "backbone": "precomp"},
        "my_other": {"dataset": "mine", "backbone": "precomp"},
    },
    "runs": {
        "sum": RUN,
        "seen": {**RUN, "features": "filters"},
        "often": {**RUN, "features": "filters", "seeds": [4, 2]},
    },
}


def _load(root, **transfers: dict):
    return load_params(root, **CHANGES, transfers=transfers)


def test_features_are_those_made_as_the_runs_own(tmp_path):
    node = _load(tmp_path, moved={"run": "seen", "dataset": "mine"}).transfers["moved"]
    assert (node.run, node.dataset, node.features, node.bank) == ("seen", "mine", "my_filters", "mine")


def test_of_a_run_with_seeds_every_model_is_moved(tmp_path):
    params = _load(tmp_path, moved={"run": "often", "dataset": "mine"})
    assert {name: node.run for name, node in params.transfers.items()} == {"moved/4": "often/4", "moved/2": "often/2"}
    assert params.groups["moved"] == ("moved/4", "moved/2")
    assert params.named(params.evaluated()) == ["sum", "seen", "often", "moved"]
    assert params.trained("moved/2") == "often/2"
    assert params.dataset("moved/2") == "mine"
    assert params.dataset("often/2") == "toy"


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ({"run": "seem", "dataset": "mine"}, r"transfers\.moved\.run: unknown run 'seem'; did you mean 'seen'\?"),
        (
            {"run": "seen", "dataset": "min"},
            r"transfers\.moved\.dataset: unknown data set 'min'; did you mean 'mine'\?",
        ),
        ({"run": "seen", "dataset": "toy"}, r"dataset: run 'seen' was trained on 'toy' itself; name another data set"),
        ({"run": "seen", "dataset": "bare"}, r"has none of that backbone .*`vse-pipe extract --features filters_bare`"),
        ({"run": "sum", "dataset": "mine"}, r"several that run 'sum' can read; name one: my_plain, my_other"),
        ({"run": "seen", "dataset": "mine", "features": "filters"}, r"'filters' belongs to data set 'toy', not 'mine'"),
        (
            {"run": "seen", "dataset": "mine", "features": "my_plain"},
            r"is of backbone precomp; run 'seen' reads random",
        ),
        ({"run": "seen", "dataset": "mine", "features": "my_filter"}, r"unknown features 'my_filter'"),
        (
            {"run": "seen", "dataset": "mine", "bank": "bare"},
            r"bank: 'bare' is neither of the data sets 'mine' and 'toy'",
        ),
        ({"run": "seen"}, r"transfers\.moved\.dataset"),
    ],
)
def test_what_does_not_fit_is_one_line(tmp_path, node, message):
    with pytest.raises(ParamsError, match=message) as error:
        _load(tmp_path, moved=node)
    assert len(error.value.problems) == 1


@pytest.mark.parametrize("name", ["sum", "often"])
def test_a_transfer_has_a_folder_of_its_own(tmp_path, name):
    with pytest.raises(ParamsError, match=rf"transfers\.{name}: a run or an ensemble has this name"):
        _load(tmp_path, **{name: {"run": "seen", "dataset": "mine"}})


def test_a_call_takes_the_entry_that_there_is_or_makes_a_name_that_no_entry_can_have(tmp_path):
    params = _load(tmp_path, moved={"run": "seen", "dataset": "mine"})
    found, names = with_transfers(params, ["seen", "often/4", "often/2"], "mine")
    assert names == ["moved", "often@mine/4", "often@mine/2"]
    assert found.groups["often@mine"] == ("often@mine/4", "often@mine/2")
    assert found.transfers["often@mine/2"].features == "my_filters"
    assert "often@mine/2" not in params.transfers
    one, names = with_transfers(params, ["often/2"], "mine")
    assert names == ["often@mine/2"]
    assert "often@mine" not in one.groups


@pytest.mark.parametrize(
    ("run", "dataset", "message"),
    [
        ("seen", "toy", "was trained on 'toy' itself"),
        ("seen", "mime", "unknown data set 'mime'; did you mean 'mine'"),
        ("seen", "bare", "vse-pipe extract --features filters_bare"),
    ],
)
def test_a_call_that_cannot_be_is_refused(tmp_path, run, dataset, message):
    with pytest.raises(UsageError, match=message):
        with_transfers(_load(tmp_path), [run], dataset)


def test_of_two_entries_for_one_data_set_none_is_taken_silently(tmp_path):
    node = {"run": "seen", "dataset": "mine"}
    params = _load(tmp_path, one=node, two={**node, "bank": "toy"})
    with pytest.raises(UsageError, match=r"run 'seen' has several transfers to 'mine': one, two; name one of them"):
        with_transfers(params, ["seen"], "mine")
    assert with_transfers(params, ["often/2"], "mine")[1] == ["often@mine/2"]
