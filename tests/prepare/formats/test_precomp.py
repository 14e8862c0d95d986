"""Precomputed features, a row an image or a caption, and CC152K: ids, groups of captions, arrays that must be refused."""

import hashlib
import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hostile import Hostile
from tests.naive.data import vsepp_image_rows
from tests.prepare._data import captions_by_file, one_line, precomp, prepare, read, rows, three_splits
from tests.toy_project import PARAMS, load_params
from vse_pipe.artifacts import captions
from vse_pipe.core.errors import InputError, MissingResource, ParamsError
from vse_pipe.prepare.formats.precomp import per_image
from vse_pipe.prepare.source import Source


def whole(folder: Path, parts: dict | None = None, **options) -> Source:
    return read("precomp", precomp(folder, parts), folder, **options)


def alone(folder: Path, features: np.ndarray, texts: list[str] | str, **options) -> Source:
    """A data set of a test split alone."""
    return whole(folder, {"test": (features, list(texts))}, splits=["test"], **options)


def digests_of(rows: np.ndarray) -> list[str]:
    return [hashlib.sha256(row.tobytes()).hexdigest() for row in rows]


def test_one_row_per_image(tmp_path):
    source = whole(tmp_path)
    assert source.root == str(tmp_path)
    assert source.images["image_id"].to_pylist() == [0, 1, 2, 3, 4, 5]
    assert source.images["split"].to_pylist() == ["train"] * 3 + ["val"] + ["test"] * 2
    files = [f"{name}_ims.npy#{row}" for name, count in (("train", 3), ("dev", 1), ("test", 2)) for row in range(count)]
    assert source.images["file"].to_pylist() == files
    assert source.images["width"].to_pylist() == source.images["height"].to_pylist() == [0] * 6
    assert source.images["sha256"].to_pylist()[:3] == digests_of(rows(3, 3))
    assert source.captions["caption_id"].to_pylist() == list(range(12))
    assert captions_by_file(source)["test_ims.npy#1"] == ["test 2", "test 3"]
    assert source.captions["split"].to_pylist() == ["train"] * 6 + ["val"] * 2 + ["test"] * 4


def test_rows_repeated_per_caption_in_one_split_only(tmp_path):
    splits = three_splits(5)
    source = whole(tmp_path, {**splits, "test": (np.repeat(splits["test"][0], 5, axis=0), splits["test"][1])})
    assert source.images["file"].to_pylist()[-2:] == ["test_ims.npy#0", "test_ims.npy#5"]
    assert captions_by_file(source)["test_ims.npy#5"] == [f"test {i}" for i in range(5, 10)]


def test_a_short_array_whose_length_divides_the_captions_is_refused(tmp_path):
    """20 captions of 4 images, of whose rows 2 are left: 10 captions an image, where train has 5."""
    splits = {**three_splits(5), "test": (rows(2, 2), [f"test {i}" for i in range(20)])}
    with pytest.raises(InputError, match=r"captions per image differ .*\(train 5, dev 5, test 10\)"):
        whole(tmp_path, splits)
    with pytest.raises(InputError, match="captions_per_image 5"):
        whole(tmp_path, splits, captions_per_image=5)


@settings(max_examples=25, deadline=None)
@given(
    images=st.integers(2, 6),
    repeated=st.booleans(),
    shape=st.sampled_from([(3,), (2, 3)]),
    dtype=st.sampled_from(["<f2", "<f4", "<f8", ">f4"]),
)
def test_five_captions_pair_with_the_rows_that_vsepp_reads(tmp_path_factory, images, repeated, shape, dtype):
    folder = tmp_path_factory.mktemp("set")
    features = rows(images, images, shape, dtype)
    features = np.repeat(features, 5, axis=0) if repeated else features
    captions = [str(i) for i in range(images * 5)]
    source = alone(folder, features, captions)
    digest = dict(zip(source.images["image_id"].to_pylist(), source.images["sha256"].to_pylist(), strict=True))
    assert source.images.num_rows == images
    expected = features[vsepp_image_rows(len(features), len(captions))]
    assert [digest[owner] for owner in source.captions["image_id"].to_pylist()] == digests_of(expected)


def test_testall_is_read_when_asked_for(tmp_path):
    splits = three_splits() | {"testall": (rows(4, 9), [f"all {i}" for i in range(8)])}
    source = whole(tmp_path, splits, test="testall")
    assert source.images["file"].to_pylist()[-4:] == [f"testall_ims.npy#{i}" for i in range(4)]
    assert source.images["split"].to_pylist()[-4:] == ["test"] * 4
    assert whole(tmp_path, splits).images.num_rows == 6


def _saved(array: np.ndarray, cut: int | None = None, **options) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, **options)
    return stream.getvalue()[:cut]


IMS, CAPS = "train_ims.npy", "train_caps.txt"
PART = f"{IMS}: not a whole .npy file ("
SPOILT = {
    "wrong rows": (IMS, _saved(rows(4)), "6 captions, 4 rows of features"),
    "truncated": (IMS, _saved(rows(3), -5), "train_ims.npy: not a whole .npy file"),
    "integers": (IMS, _saved(np.ones((3, 4), np.int64)), "holds int64, expected float16, float32 or float64"),
    "flat": (IMS, _saved(np.ones(3, np.float32)), "shape (3,), expected (rows, D) or (rows, regions, D)"),
    "objects": (IMS, _saved(np.array([Hostile(Path("pwned.txt"))] * 3), allow_pickle=True), "Python objects"),
    "pickle": (IMS, b"cbuiltins\nopen\n(Vpwned.txt\nVw\ntR.", PART),
    "not UTF-8": (CAPS, b"a\nb\nc\ncaf\xe9\ne\nf\n", "train_caps.txt line 4: not UTF-8"),
    "no captions": (CAPS, b"", "train_caps.txt: no captions"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "content", "message"), SPOILT.values(), ids=SPOILT)
def test_a_file_that_is_spoilt(tmp_path, monkeypatch, name, content, message):
    monkeypatch.chdir(tmp_path)
    precomp(tmp_path)
    Path(name).write_bytes(content)
    with one_line(message):
        read("precomp", tmp_path, tmp_path)
    assert not Path("pwned.txt").exists()


def digests(values: list[int]) -> np.ndarray:
    joined = b"".join(hashlib.sha256(str(value).encode()).digest() for value in values)
    return np.frombuffer(joined, np.uint8).reshape(-1, 32)


TABLE = {
    "rows repeated": (10, [1] * 5 + [2] * 5, None, 5),
    "one caption an image": (3, [1, 2, 3], None, 1),
    "equal neighbours among images": (15, [1] * 5 + [2] * 10, None, 5),
    "one equal pair among single captions": (6, [1, 2, 2, 3, 4, 5], None, 1),
    "count, rows repeated": (10, [1] * 5 + [2] * 5, 5, 5),
    "count of one, rows repeated": (4, [1, 1, 2, 2], 1, 1),
    "count of a divisor": (4, [1, 1, 1, 1], 2, 2),
    "not a multiple": (9, [1, 2], None, "here: 9 captions, 2 rows"),
    "uneven": (7, [1, 1, 1, 2, 2, 3, 3], None, "here: 7 of 7 rows equal a neighbour"),
    "another count": (10, [1, 2], 4, "captions_per_image 4"),
    "rows differ": (10, [1] * 5 + [2, 2, 2, 2, 3], 5, "captions_per_image 5"),
}  # fmt: skip


@pytest.mark.parametrize(("captions", "values", "wanted", "expected"), TABLE.values(), ids=TABLE)
def test_groups_or_what_is_wrong(captions, values, wanted, expected):
    if isinstance(expected, int):
        assert per_image(captions, digests(values), wanted, "here") == expected
    else:
        with one_line(expected):
            per_image(captions, digests(values), wanted, "here")


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
def test_line_and_row_go_together(folder, shape):
    source = read("cc", _cc(folder, shape=shape), folder)
    assert source.images["image_id"].to_pylist() == source.captions["image_id"].to_pylist() == list(range(6))
    assert source.images["file"].to_pylist()[2:5] == ["train_ims.npy#2", "dev_ims.npy#0", "test_ims.npy#0"]
    assert source.images["split"].to_pylist() == ["train"] * 3 + ["val"] + ["test"] * 2
    texts = [text.partition("\t")[2] for prefix in LINES for text in LINES[prefix]]
    assert source.captions["text"].to_pylist() == texts
    assert source.root == str(folder)
    assert captions.read(prepare("cc", folder))["text"].to_pylist() == texts
    (folder / "test_caps.tsv").write_text("0_1\ta\r\n1_2\tb")
    assert read("cc", folder, folder, splits=["test"]).captions["text"].to_pylist() == ["a", "b"]


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


def test_no_protocol_may_claim_to_know_its_pairs(tmp_path):
    datasets = {"toy": {"format": "cc", "source": "raw"}}
    with pytest.raises(ParamsError, match=r"noises\.half\.protocol: nobody knows which pairs of data set 'toy'"):
        load_params(tmp_path, datasets=datasets)
    own = {name: {"dataset": "toy", "protocol": "as_is"} for name in PARAMS["noises"]}
    assert load_params(tmp_path, datasets=datasets, noises=own).noises["clean"].protocol.name == "as_is"
