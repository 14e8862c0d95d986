"""``format: regions`` in params.yaml."""

import pytest

from tests.toy_project import load_params
from vse_pipe.core.errors import ParamsError


def test_params_name_the_proposals_and_their_options(tmp_path):
    node = {"format": "regions", "source": "data/prepare/whole"}
    assert load_params(tmp_path, datasets={"toy": node | {"options": {"scales": [0.5]}}})
    for given, message in [
        (
            {"proposals": "window"},
            "datasets.toy.proposals: unknown proposals 'window'; did you mean 'windows'? known: ",
        ),
        ({"options": {"scale": [0.5]}}, "datasets.toy.options.scale: unknown key; did you mean 'scales'?"),
        ({"options": {"scales": [2.0]}}, "datasets.toy.options.scales.0: input should be less than or equal to 1"),
        ({"count": 0}, "datasets.toy.count: input should be greater than 0"),
        ({"splits": ["tset"]}, "datasets.toy.splits.0: "),
    ]:
        with pytest.raises(ParamsError) as caught:
            load_params(tmp_path, datasets={"toy": node | given})
        assert message in str(caught.value)
