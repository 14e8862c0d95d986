"""pairs: every form read back, with the pairs of a noise, and what no form can hold."""

from pathlib import Path

import pandas as pd
import pytest

from tests.command_line import caller, failure
from tests.prepare._data import ODD_CAPTIONS, karpathy, pictures
from tests.toy_project import PARAMS, write_decisions, write_params
from vse_pipe.artifacts import captions, images, names
from vse_pipe.inject.stage import inject
from vse_pipe.papers import overlay
from vse_pipe.prepare.stage import prepare
from vse_pipe.project import paths
from vse_pipe.project.params.load import load

SPLITS = ["train"] * 4 + ["val", "test"]
TEXTS = [f"{text} {n}" for n, text in enumerate([*ODD_CAPTIONS[:8], "a\r\nbreak", "=1", "last", "two"])]


@pytest.fixture
def call(tmp_path, monkeypatch, capsys):
    """A data set ``mine`` of six images with two captions each, in a json, and ``back`` for what is exported of it."""
    monkeypatch.chdir(tmp_path)
    sentences = [{"raw": text, "imgid": 10 + n // 2, "sentid": 100 - n} for n, text in enumerate(TEXTS)]
    entries = [
        {
            "filename": f"{n}.png",
            "filepath": "ü b",
            "imgid": 10 + n,
            "split": split,
            "sentences": sentences[2 * n : 2 * n + 2],
        }
        for n, split in enumerate(SPLITS)
    ]
    karpathy(Path("raw"), entries)
    _params()
    prepare(_loaded(), "mine")
    capsys.readouterr()
    return caller(monkeypatch, capsys, "pairs")


def _params(**back: str) -> None:
    sections = {
        "datasets": {
            "mine": {"format": "karpathy", "source": "raw"},
            "back": back or {"format": "csv", "source": "x.csv"},
        },
        "noises": {"cleaned": {"dataset": "mine", "protocol": "decisions", "file": "d.csv", "base": "image"}},
    }
    write_params(Path(), **sections, features={}, texts={}, runs={}, text={}, train={}, grid=PARAMS["grid"])


def _loaded():
    return load(Path("params.yaml"), further=[overlay.row_problems])


def _tables(dataset: str) -> list[pd.DataFrame]:
    folder = paths.prepared(dataset)
    keyed = (images.read(folder).to_pandas(), "image_id"), (captions.read(folder).to_pandas(), "caption_id")
    return [table.sort_values(key).reset_index(drop=True) for table, key in keyed]


@pytest.mark.parametrize(("to", "out"), [("csv", "deep/back.csv"), ("karpathy", "dataset_back.json")])
def test_what_is_written_is_read_back_as_the_same_data_set(call, to, out):
    status, _, told = call("--dataset", "mine", "--to", to, "--out", out)
    assert (status, told) == (0, f"{Path(out).resolve()}: 12 pairs of data set 'mine'\n")
    _params(format=to, source=out, images={"csv": "../raw/images", "karpathy": "raw/images"}[to])
    prepare(_loaded(), "back")
    for back, mine in zip(_tables("back"), _tables("mine"), strict=True):
        pd.testing.assert_frame_equal(back, mine)


@pytest.mark.parametrize(("to", "out"), [("csv", "back.csv"), ("karpathy", "dataset_back.json")])
def test_the_pairs_of_a_noise_are_those_that_training_sees(call, to, out):
    rows = [
        {"kind": "pair", "id": 100, "decision": "drop"},
        {"kind": "pair", "id": 99, "decision": "drop"},  # the last of its image
        {"kind": "pair", "id": 98, "decision": "take", "proposal": "picture", "other": 13},
        {"kind": "pair", "id": 97, "decision": "weight", "doubt": 0.5},
    ]
    write_decisions("mine", rows, path="d.csv")
    inject(_loaded(), "cleaned")
    status, _, told = call("--dataset", "mine", "--noise", "cleaned", "--to", to, "--out", out, "--split", "train")
    assert (status, "1 pairs have a weight between 0 and 1" in told) == (0, True)
    _params(format=to, source=out, images="raw/images")
    prepare(_loaded(), "back")
    back, mine = _tables("back"), _tables("mine")
    pd.testing.assert_frame_equal(back[0], mine[0][mine[0]["image_id"].isin([11, 12, 13])].reset_index(drop=True))
    expected = mine[1][mine[1]["caption_id"].isin(range(93, 99))].reset_index(drop=True)
    expected.loc[expected["caption_id"] == 98, "image_id"] = 13
    pd.testing.assert_frame_equal(back[1], expected)


def test_text_ids_come_back(call):
    pictures(Path("c"), ["a.png", "b.png"])
    Path("c/t.csv").write_text("image,caption,image_id,caption_id\na.png,x,f0,one\nb.png,y,012e,two\n")
    _params(format="csv", source="c/t.csv")
    prepare(_loaded(), "back")
    before = _tables("back"), names.read(paths.prepared("back")).table
    assert call("--dataset", "back", "--to", "csv", "--out", "c/again.csv")[0] == 0
    _params(format="csv", source="c/again.csv")
    prepare(_loaded(), "back")
    for back, mine in zip(_tables("back"), before[0], strict=True):
        pd.testing.assert_frame_equal(back, mine)
    assert names.read(paths.prepared("back")).table.equals(before[1])


def test_an_unknown_noise_is_one_line_and_nothing_is_written(call):
    told = failure(call, 2, "--dataset", "mine", "--to", "csv", "--out", "x", "--noise", "clean")
    assert "data set 'mine' 'clean'" in told
    assert not Path("x").exists()
