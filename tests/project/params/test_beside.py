"""Judgements and labels by data set."""

import pytest

from tests.project.params.test_transfers import CHANGES
from tests.toy_project import load_params
from vse_pipe.core.errors import ParamsError, UsageError
from vse_pipe.project.params.checks import with_transfers
from vse_pipe.project.params.load import load_measuring

TWO = {**CHANGES, "transfers": {"moved": {"run": "seen", "dataset": "mine"}}}


def test_a_data_set_has_its_own_files(tmp_path):
    one = {"judgements": {"mine": "j.csv"}, "labels": {"toy": "l.csv"}, "sha256": {"j.csv": "0" * 64}}
    evaluate = load_params(tmp_path, **TWO, evaluate=one).evaluate
    assert (evaluate.of("mine").judgements, evaluate.of("mine").labels) == ("j.csv", None)
    assert (evaluate.of("toy").judgements, evaluate.of("toy").labels) == (None, "l.csv")
    assert load_params(tmp_path, evaluate={"labels": "l.csv"}).evaluate.of("toy").labels == "l.csv"


@pytest.mark.parametrize(
    ("evaluate", "message"),
    [
        (
            {"judgements": "j.csv"},
            r"evaluate\.judgements: runs are on several data sets, toy, mine; say which .*\{toy: j",
        ),
        ({"labels": "l.csv"}, r"evaluate\.labels: runs are on several data sets"),
        ({"labels": {"tox": "l.csv"}}, r"evaluate\.labels\.tox: unknown data set 'tox'; did you mean 'toy'"),
        ({"sha256": {"j.csv": "0" * 64}}, r"evaluate\.sha256\.j\.csv: neither judgements nor labels name that file"),
    ],
)
def test_what_is_of_no_data_set_is_refused(tmp_path, evaluate, message):
    with pytest.raises(ParamsError, match=message):
        load_params(tmp_path, **TWO, evaluate=evaluate)


def test_vectors_from_files_are_of_no_data_set():
    with pytest.raises(ParamsError, match=r"evaluate\.judgements: names data sets, and vectors from files are of none"):
        load_measuring(["evaluate.judgements={toy: j.csv}"])


def test_a_data_set_of_one_call_counts_too(tmp_path):
    params = load_params(tmp_path, **CHANGES, evaluate={"judgements": "j.csv"})
    with pytest.raises(
        UsageError, match=r"params\.yaml evaluate\.judgements: runs are on several data sets, toy, mine"
    ):
        with_transfers(params, ["seen"], "mine")
