"""pairs: every form read back, with the pairs of a noise, and what no form can hold."""

import io
import tarfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.command_line import caller, failure
from tests.prepare._data import ODD_CAPTIONS, karpathy, picture, pictures
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


def test_text_ids_come_back_and_are_uids(call):
    pictures(Path("c"), ["a.png", "b.png"])
    uids = ["f" * 32, "0123456789abcdef" * 2]
    Path("c/t.csv").write_text(f"image,caption,image_id,caption_id\na.png,x,{uids[0]},one\nb.png,y,{uids[1]},two\n")
    _params(format="csv", source="c/t.csv")
    prepare(_loaded(), "back")
    before = _tables("back"), names.read(paths.prepared("back")).table
    assert call("--dataset", "back", "--to", "csv", "--out", "c/again.csv")[0] == 0
    assert call("--dataset", "back", "--to", "uids", "--out", "uids.txt")[0] == 0
    assert call("--dataset", "back", "--to", "uids", "--out", "uids.npy")[0] == 0
    assert Path("uids.txt").read_text().split() == uids
    array = np.load("uids.npy")
    assert array.dtype == np.dtype("u8,u8")
    assert array.tolist() == [(0x0123456789ABCDEF, 0x0123456789ABCDEF), (2**64 - 1, 2**64 - 1)]
    _params(format="csv", source="c/again.csv")
    prepare(_loaded(), "back")
    for back, mine in zip(_tables("back"), before[0], strict=True):
        pd.testing.assert_frame_equal(back, mine)
    assert names.read(paths.prepared("back")).table.equals(before[1])


def _shard(path: Path, keys: list[str]) -> None:
    path.parent.mkdir(exist_ok=True)
    with tarfile.open(path, "w") as file:
        for number, key in enumerate(keys):
            for name, content in ((f"{key}.png", picture(number)), (f"{key}.txt", b"a caption")):
                member = tarfile.TarInfo(name)
                member.size = len(content)
                file.addfile(member, io.BytesIO(content))


def test_keys_are_those_of_webdataset_and_uids_where_there_are_no_names(call):
    _shard(Path("w/train-0.tar"), ["a/001", "a/002"])
    _shard(Path("w/train-1.tar"), ["003"])
    _params(format="webdataset", source="w", train="train-*.tar", val=0.0, test=0.0)
    prepare(_loaded(), "back")
    for to in ("keys", "uids"):
        assert call("--dataset", "back", "--to", to, "--out", f"{to}.txt", "--split", "train")[0] == 0
        assert Path(f"{to}.txt").read_text().split() == ["a/001", "a/002", "003"]
    _shard(Path("w/train-2.tar"), ["003"])
    prepare(_loaded(), "back")
    message = "1 keys stand in several shards, the first is '003'"
    assert message in failure(call, 3, "--dataset", "back", "--to", "keys", "--out", "more.txt")


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        (
            ("--to", "csv", "--out", "x", "--noise", "clean"),
            2,
            "data set 'mine' has no noise 'clean'; did you mean 'cleaned'",
        ),
        (("--to", "keys", "--out", "x"), 3, "--to keys: 'ü b/0.png' is no member of a tar shard; take --to uids"),
        (("--to", "uids", "--out", "x.npy"), 3, "'ü b/0.png' has not the 32 hexadecimal digits of DataComp"),
    ],
)
def test_what_cannot_be_written_is_one_line(call, options, status, message):
    assert message in failure(call, status, "--dataset", "mine", *options)
    assert not Path("x").exists()
