"""Cases 7 to 10, 13 to 21, 26 and 28 of the acceptance suite: files that are damaged, hostile or merely odd."""

import hashlib
import re
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

from tests.command_line import failure, output
from tests.commands.script import arguments
from tests.evaluate.files import sample, write, write_npy
from tests.extract import test_corpus
from tests.hostile import Hostile
from tests.prepare import _data
from tests.sealed import made_anew
from vse_pipe.artifacts import captions, features, images, texts

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


def test_case_07_a_truncated_array_says_what_it_should_have(raw, call, tmp_path):
    _data.precomp(Path("given"), _data.three_splits())
    _cut(Path("given/train_ims.npy"))
    assert re.search(r"train_ims\.npy: not a whole", failure(call, 3, *_PRECOMP, "prepare"))
    files = write_npy(sample(), tmp_path)
    _cut(files.images)
    err = failure(call, 3, "rank", *arguments(files))
    assert re.search(r"a\.npy: not a whole \.npy file", err)


@pytest.mark.parametrize("damage", [_cut, lambda path: _flip(path, 60)], ids=["truncated", "flipped"])
def test_case_08_a_damaged_parquet_file_is_never_read(made, call, damage):
    damage(Path("data/prepare/toy/captions.parquet"))
    assert "data/prepare/toy/captions.parquet: damaged" in failure(call, 5, "inject")
    damage(Path("data/embed/sum/images.parquet"))
    sides = "--images", "data/embed/sum/images.parquet", "--captions", "data/embed/sum/captions.parquet"
    assert "data/embed/sum/images.parquet" in failure(call, 5, "rank", *sides)


def test_case_09_captions_that_do_not_fit_the_rows_are_counted(raw, call):
    _data.precomp(Path("given"), {**_data.three_splits(), "dev": (_data.rows(4), ["a", "b", "c"])})
    err = failure(call, 3, *_PRECOMP, "prepare")
    assert "dev_caps.txt and dev_ims.npy: 3 captions, 4 rows of features: not a multiple" in err


def test_case_10_values_that_are_not_finite_are_counted_and_dropped_only_when_asked(raw, call, tmp_path):
    splits = _data.three_splits()
    splits["train"][0][1, 2] = np.nan
    _data.precomp(Path("given"), splits)
    err = failure(call, 3, *_PRECOMP, "prepare")
    assert "1 of 6 images below given cannot be used: train_ims.npy#1 holds NaN or infinite values" in err
    skip = "-S", "datasets.toy.on_error=skip", "-S", "features.plain={dataset: toy, backbone: precomp, on_error: skip}"
    for command in ("prepare", "extract"):
        output(call, *_PRECOMP, *skip, "-S", "features.plain.max_errors=1", command)
    assert images.read_unreadable(Path("data/extract/toy/plain"))["file"].to_pylist() == ["train_ims.npy#1"]
    one = sample()
    spoilt = np.where(np.arange(24)[:, None] < 2, np.inf, one.images)
    files = write(one.but(images=spoilt), tmp_path)
    err = failure(call, 3, "rank", *arguments(files))
    assert f"2 rows hold NaN or infinite values: image_id {one.image_ids[0]}, {one.image_ids[1]}" in err


def test_case_13_repeated_ids_are_refused_and_repeated_captions_counted(raw, call, tmp_path):
    one = sample()
    files = write(one.but(caption_ids=np.r_[one.caption_ids[:1], one.caption_ids[:-1]]), tmp_path)
    err = failure(call, 3, "rank", *arguments(files))
    assert f"1 ids occur more than once: caption_id {one.caption_ids[0]}" in err
    other = _data.entry(1)
    other |= {"imgid": 0, "sentences": [sentence | {"imgid": 0} for sentence in other["sentences"]]}
    _data.karpathy(Path("given"), [_data.entry(0), other])
    assert "image_id '0' is given twice" in failure(
        call, 3, "-S", "datasets.toy={format: karpathy, source: given}", "prepare"
    )
    _caption("picture 0 of a", 2)
    assert "repeated: 0 images, 1 captions" in output(call, "prepare")[1]


def test_case_14_a_missing_image_stops_it_or_is_recorded_within_a_limit(raw, call):
    Path("raw/7.png").unlink()
    assert "7.png does not exist" in failure(call, 3, "prepare")
    assert not Path("data/prepare/toy").exists()
    skip = "-S", "datasets.toy.on_error=skip", "-S", "features.plain.on_error=skip"
    output(call, *skip, "prepare")
    output(call, *skip, "-S", "features.plain.max_errors=0.01", "extract", "--features", "plain")
    assert images.read_unreadable(Path("data/extract/toy/plain"))["file"].to_pylist() == ["7.png"]
    shutil.rmtree("data/extract")
    for name in ("8.png", "9.png"):  # after prepare has seen them
        Path("raw", name).unlink()
    err = failure(call, 3, *skip, "-S", "features.plain.max_errors=1", "extract", "--features", "plain")
    assert "max_errors 1 allows 1" in err


def test_case_15_pictures_of_every_kind_are_read_or_recorded(raw, call):
    output(call, "prepare")
    output(call, "extract", "--features", "plain")
    found = features.read(Path("data/extract/toy/plain"))
    whole = dict(zip(found.image_ids.tolist(), np.asarray(found.array), strict=True))
    good = [case for case in test_corpus.good() if case.name in ("cmyk.jpg", "palette.gif", "alpha.png")]
    for number, case in enumerate(good):
        Path(f"raw/{number}.png").write_bytes(case.content)
    for number, content in enumerate((b"", b"<html>not found</html>", _data.picture(1)[:-40]), start=10):
        Path(f"raw/{number}.png").write_bytes(content)
    skip = "-S", "datasets.toy.on_error=skip", "-S", "features.plain.on_error=skip", "-S", "features.plain.max_errors=3"
    output(call, *skip, "prepare")
    output(call, *skip, "extract", "--features", "plain")
    recorded = images.read_unreadable(Path("data/extract/toy/plain"))
    assert recorded["image_id"].to_pylist() == [10, 11, 12]
    again = features.read(Path("data/extract/toy/plain"))
    assert again.image_ids.tolist() == [number for number in range(40) if number not in (10, 11, 12)]
    for number, row in zip(again.image_ids.tolist(), np.asarray(again.array), strict=True):
        if number >= len(good):
            np.testing.assert_array_equal(row, whole[number])


def test_case_16_a_decompression_bomb_is_refused_before_it_is_decoded(raw, call, monkeypatch):
    Path("raw/3.png").write_bytes(test_corpus.bomb(30_000, 30_000))
    assert re.search(r"3\.png .*pixels", failure(call, 3, "prepare"))


def test_case_17_and_19_captions_come_back_as_they_are(raw, call):
    """Of every script, with separators of lines, byte order mark and CRLF, or the words NA and null."""
    for row, text in enumerate(_data.ODD_CAPTIONS[:-1], start=1):
        _caption(text, row)
    told = _CSV.read_text(encoding="utf-8")
    _CSV.write_bytes(("\ufeff" + told.replace("\n", "\r\n")).encode())
    Path("raw/0.png").rename("raw/кошка 🐈.png")
    _CSV.write_bytes(_CSV.read_bytes().replace(b"\r\n0.png", "\r\nкошка 🐈.png".encode()))
    output(call, "prepare")
    found = captions.read(Path("data/prepare/toy"))["text"].to_pylist()
    assert found[: len(_data.ODD_CAPTIONS) - 1] == _data.ODD_CAPTIONS[:-1]
    assert len(found) == 80
    assert {"NA", "null"} <= set(found)
    assert images.read(Path("data/prepare/toy"))["file"].to_pylist()[0] == "кошка 🐈.png"


@pytest.mark.parametrize("text", ["", "   ", "\t"], ids=["none", "spaces", "tab"])
def test_case_18_an_empty_caption_is_left_out_and_told(raw, call, text):
    _caption(text)
    assert "captions without text: 1 (0.png)" in output(call, "prepare")[1]
    assert len(captions.read(Path("data/prepare/toy"))) == 79


def test_case_18_long_captions_are_cut_and_unknown_words_are_one_word(raw, call):
    _caption("word " * 10_000)
    _caption("zzyzx qwrtp", 8)  # of the test split: no word of it is known
    output(call, "prepare")
    assert "1 cut" in output(call, "extract", "--texts", "words")[1]
    found = texts.read(Path("data/extract/toy/words"))
    unknown = found.tokens.tokens[found.tokens.starts[7] + 1 :][:2]
    assert [found.words[id] for id in unknown] == ["<unk>"] * 2
    for command in (("extract", "--features", "plain"), ("inject",), ("train",), ("embed",)):
        output(call, *command)


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


def test_case_26_tampered_weights_are_refused(raw, call, tmp_path):
    path = tmp_path / "w.pth"
    torch.save({"a": torch.ones(2)}, path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    _flip(path, 200)
    output(call, "prepare")
    network = f"{{dataset: toy, backbone: torchvision, model: shufflenet_v2_x0_5, weights: {path}, sha256: {digest}}}"
    err = failure(call, 5, "-S", f"features.plain={network}", "extract", "--features", "plain")
    assert digest in err
    assert str(path) in err


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
