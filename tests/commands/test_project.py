from types import SimpleNamespace

import pytest

from pipeline.commands import _project
from pipeline.core.errors import UsageError


def test_an_ensemble_is_refused_with_its_runs_where_a_model_is_needed():
    pair = SimpleNamespace(members=("sgr", "saf"))
    nodes = {"runs": {"sgr": 1, "saf": 2}, "ensembles": {"sgraf": pair}, "groups": {}, "transfers": {}}
    params = SimpleNamespace(**nodes, models=lambda name: (name,))
    with pytest.raises(UsageError, match=r"'sgraf' is an ensemble .* sgr or saf"):
        _project.chosen_runs("sgraf", params)
    assert _project.chosen_runs("saf", params) == ["saf"]
    assert _project.chosen_runs(None, params) == ["sgr", "saf"]
