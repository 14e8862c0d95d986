import pytest

from vse_pipe.artifacts import rematching
from vse_pipe.core.errors import InputError

BINS = {"edges": [0.0, 1.0, 2.0], "matched": [5, 1], "mismatched": [0, 4]}
WHOLE = {**dict.fromkeys(rematching.KEYS), "epoch": 1, "cost": BINS}


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
    rematching.write(tmp_path, [WHOLE])
    assert rematching.read(tmp_path) == [WHOLE]
    rematching.write(tmp_path, [WHOLE, {**WHOLE, **change}])
    with pytest.raises(InputError, match=r"entry 1 has no epoch or no histogram of costs"):
        rematching.read(tmp_path)


def test_an_entry_without_its_keys_is_refused(tmp_path):
    rematching.write(tmp_path, [WHOLE, {key: None for key in rematching.KEYS if key != "cost"}])
    with pytest.raises(InputError, match=r"rematching\.json: entry 1 has no cost"):
        rematching.read(tmp_path)


def test_a_missing_file_is_said(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        rematching.read(tmp_path)


def test_what_is_no_list_is_refused(tmp_path):
    (tmp_path / rematching.NAME).write_text("{}")
    with pytest.raises(InputError, match="expected a list"):
        rematching.read(tmp_path)
    (tmp_path / rematching.NAME).write_text("[3]")
    with pytest.raises(InputError, match="entry 0 has no"):
        rematching.read(tmp_path)
