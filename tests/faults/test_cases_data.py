"""Cases 8, 16, 20, 21 and 28 of the acceptance suite: files that are damaged or hostile."""

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

from tests.command_line import failure, output
from tests.commands.script import arguments
from tests.evaluate.files import sample, write, write_npy
from tests.hostile import Hostile
from tests.pictures import corpus
from tests.prepare import _data
from tests.sealed import made_anew

pytestmark = pytest.mark.acceptance
_CSV, _PRECOMP = Path("raw/t.csv"), ("-S", "datasets.toy={format: precomp, source: given}")


def _flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def _cut(path: Path, by: int = 5) -> None:
    path.write_bytes(path.read_bytes()[:-by])


def _caption(text: str, row: int = 1) -> None:
    """In the CSV file, quoted."""
    lines = _CSV.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    image, _, split = lines[row].split(",")
    quoted = text.replace('"', '""')
    lines[row] = f'{image},"{quoted}",{split}'
    _CSV.write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.mark.parametrize("damage", [_cut, lambda path: _flip(path, 60)], ids=["truncated", "flipped"])
def test_case_08_a_damaged_parquet_file_is_never_read(made, call, damage):
    damage(Path("data/prepare/toy/captions.parquet"))
    assert "data/prepare/toy/captions.parquet: damaged" in failure(call, 5, "inject")
    damage(Path("data/embed/sum/images.parquet"))
    sides = "--images", "data/embed/sum/images.parquet", "--captions", "data/embed/sum/captions.parquet"
    assert "data/embed/sum/images.parquet" in failure(call, 5, "rank", *sides)


def test_case_16_a_decompression_bomb_is_refused_before_it_is_decoded(raw, call, monkeypatch):
    Path("raw/3.png").write_bytes(corpus.bomb(30_000, 30_000))
    assert re.search(r"3\.png .*pixels", failure(call, 3, "prepare"))


@pytest.mark.parametrize("name", ["../secret.png", "/etc/hostname", "sub/../0.png"])
def test_case_20_no_name_leaves_its_root(raw, call, name):
    Path("secret.png").write_bytes(_data.picture(0))
    _CSV.write_text(_CSV.read_text().replace("0.png,", f"{name},", 2))
    err = failure(call, 3, "prepare")
    assert name in err
    assert "outside its root" in err or "is absolute" in err


def test_case_21_no_pickle_is_ever_opened(raw, call, tmp_path):
    acted, hostile = tmp_path / "pwned.txt", tmp_path / "w.pth"
    torch.save({"a": Hostile(acted)}, hostile)
    output(call, "prepare")
    network = f"{{dataset: toy, backbone: torchvision, model: shufflenet_v2_x0_5, weights: {hostile}}}"
    err = failure(call, 3, "-S", f"features.plain={network}", "extract", "--features", "plain")
    assert "holds more than tensors, refused" in err
    _data.precomp(Path("given"), _data.three_splits())
    np.save("given/train_ims.npy", np.array([Hostile(acted)] * 3), allow_pickle=True)
    failure(call, 3, *_PRECOMP, "prepare")
    files = write_npy(sample(), tmp_path)
    np.save(files.images, np.array([Hostile(acted)]), allow_pickle=True)
    failure(call, 3, "rank", *arguments(files))
    assert not acted.exists()


def test_case_28_sides_that_do_not_belong_together_are_refused(made, call, tmp_path):
    one = sample()
    files = write(one.but(captions=one.captions[:, :5]), tmp_path, pa.list_(pa.float32()))
    assert "width is 5, that of" in failure(call, 3, "rank", *arguments(files))
    files = write(one.but(owners=np.r_[999, one.owners[1:]]), tmp_path)
    failure(call, 3, "rank", *arguments(files))
    output(call, "-S", "train.epochs=1", "train")
    Path("data/embed/first").mkdir()
    Path("data/embed/sum/captions.parquet").rename("data/embed/first/captions.parquet")
    output(call, "embed")
    sides = "--images", "data/embed/sum/images.parquet", "--captions", "data/embed/first/captions.parquet"
    assert len(set(re.findall(r"'[0-9a-f]{64}'", failure(call, 3, "rank", *sides)))) == 2
    Path("data/embed/first/captions.parquet").replace("data/embed/sum/captions.parquet")
    assert "model_sha256" in failure(call, 3, "evaluate")
    made_anew(Path("data/extract/toy/plain"), features="0")
    assert "data/train/sum: made from other features than data/extract/toy/plain now holds" in failure(call, 5, "embed")
