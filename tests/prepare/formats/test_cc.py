"""CC152K: a tab-separated line and a row of features an image."""

from pathlib import Path

import numpy as np
import pytest

from tests.prepare._data import prepare, read, rows
from tests.toy_project import PARAMS, load_params
from vse_pipe.core.errors import InputError, MissingResource, ParamsError

LINES = {
    "train": ['1100_19\t"quoted , from the start', "1101_29\tcaf\u00e9 \u2028 on", "1102_11\tthe same"],
    "dev": ["0_1\ta dev caption"],
    "test": ["0_1\ta test caption", "1_2\tthe same"],
}


def _cc(folder: Path, lines=LINES, shape=(2, 3)) -> Path:
    for prefix, texts in lines.items():
        np.save(folder / f"{prefix}_ims.npy", rows(len(texts), len(prefix), shape))
        (folder / f"{prefix}_caps.tsv").write_bytes("".join(f"{text}\n" for text in texts).encode())
    return folder


@pytest.mark.parametrize("shape", [(4,), (36, 5)])
def test_line_and_row_go_together(tmp_path, shape):
    source = read("cc", _cc(tmp_path, shape=shape), tmp_path)
    assert source.images["image_id"].to_pylist() == source.captions["image_id"].to_pylist() == list(range(6))
    assert source.images["file"].to_pylist()[2:5] == ["train_ims.npy#2", "dev_ims.npy#0", "test_ims.npy#0"]
    assert source.images["split"].to_pylist() == ["train"] * 3 + ["val"] + ["test"] * 2
    texts = [text.partition("\t")[2] for prefix in LINES for text in LINES[prefix]]
    assert source.captions["text"].to_pylist() == texts
    assert source.root == str(tmp_path)


def test_one_split_and_no_final_newline(tmp_path):
    _cc(tmp_path)
    (tmp_path / "test_caps.tsv").write_text("0_1\ta\r\n1_2\tb")
    source = read("cc", tmp_path, tmp_path, splits=["test"])
    assert source.captions["text"].to_pylist() == ["a", "b"]


BAD = [
    ("no tab here", r"line 2: expected <image id><tab><caption>, found 1 fields"),
    ("1\ta\thttp://x", r"line 2: expected <image id><tab><caption>, found 3 fields"),
    ("1\t  ", "line 2: the caption is empty"),
    ("", r"line 2: expected <image id><tab><caption>, found 1 fields"),
]


@pytest.mark.parametrize(("line", "message"), BAD)
def test_refuses_a_line_that_is_no_pair(tmp_path, line, message):
    _cc(tmp_path, {**LINES, "train": ["1\ta", line, "2\tb"]})
    with pytest.raises(InputError, match=message):
        read("cc", tmp_path, tmp_path)


def test_refuses_other_counts_bad_rows_and_missing_files(tmp_path):
    _cc(tmp_path)
    np.save(tmp_path / "dev_ims.npy", rows(2))
    with pytest.raises(InputError, match=r"dev_caps\.tsv: 1 lines, but dev_ims\.npy has 2 rows"):
        read("cc", tmp_path, tmp_path)
    np.save(tmp_path / "dev_ims.npy", np.full((1, 4), np.nan, np.float32))
    assert read("cc", tmp_path, tmp_path).broken == ["dev_ims.npy#0 holds NaN or infinite values"]
    (tmp_path / "dev_caps.tsv").unlink()
    with pytest.raises(MissingResource, match=r"dev_caps\.tsv: no such file"):
        read("cc", tmp_path, tmp_path)
    with pytest.raises(MissingResource, match="put the data set there"):
        read("cc", tmp_path / "nowhere", tmp_path)


def test_prepare_writes_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "raw").mkdir()
    out = prepare("cc", _cc(tmp_path / "raw"))
    assert (out / "captions.parquet").is_file()


def test_no_protocol_may_claim_to_know_its_pairs(tmp_path):
    datasets = {"toy": {"format": "cc", "source": "raw"}}
    with pytest.raises(ParamsError, match=r"noises\.half\.protocol: data set 'toy' \(cc\) is noisy by itself"):
        load_params(tmp_path, datasets=datasets)
    own = {name: {"dataset": "toy", "protocol": "as_is"} for name in PARAMS["noises"]}
    assert load_params(tmp_path, datasets=datasets, noises=own).noises["clean"].protocol.name == "as_is"
