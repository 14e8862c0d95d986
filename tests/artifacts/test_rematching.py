import pytest

from vse_pipe.artifacts import pairs
from vse_pipe.core.errors import InputError

BINS = {"edges": [0.0, 1.0, 2.0], "matched": [5, 1], "mismatched": [0, 4]}
WHOLE = {**dict.fromkeys(pairs.REMATCHING_KEYS), "epoch": 1, "cost": BINS}


@pytest.mark.parametrize(
    "change",
    [
        {"epoch": "<b>"},
        {"cost": None},
        {"cost": {**BINS, "edges": [0.0, 1.0]}},
        {"cost": {**BINS, "matched": [5, "1"]}},
        {"cost": {"edges": [0.0, 1.0, 2.0], "matched": [5, 1]}},
    ],
)
def test_what_is_no_histogram_is_refused(tmp_path, change):
    pairs.write_rematching(tmp_path, [WHOLE])
    assert pairs.read_rematching(tmp_path) == [WHOLE]
    pairs.write_rematching(tmp_path, [WHOLE, {**WHOLE, **change}])
    with pytest.raises(InputError, match=r"entry 1 has no epoch or no histogram of costs"):
        pairs.read_rematching(tmp_path)


def test_an_entry_without_its_keys_is_refused(tmp_path):
    pairs.write_rematching(tmp_path, [WHOLE, {key: None for key in pairs.REMATCHING_KEYS if key != "cost"}])
    with pytest.raises(InputError, match=r"rematching\.json: entry 1 has no cost"):
        pairs.read_rematching(tmp_path)


def test_a_missing_file_is_said(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        pairs.read_rematching(tmp_path)


def test_what_is_no_list_is_refused(tmp_path):
    (tmp_path / pairs.REMATCHING).write_text("{}")
    with pytest.raises(InputError, match="expected a list"):
        pairs.read_rematching(tmp_path)
    (tmp_path / pairs.REMATCHING).write_text("[3]")
    with pytest.raises(InputError, match="entry 0 has no"):
        pairs.read_rematching(tmp_path)
