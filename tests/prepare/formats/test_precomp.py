"""Precomputed features: rows per image and per caption, ids, groups of captions, arrays that must be refused."""

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hostile import Hostile
from tests.naive import data as naive
from tests.naive.data import vsepp_image_rows
from tests.prepare._data import ODD_CAPTIONS, captions_by_file, precomp, read, rows, three_splits
from vse_pipe.core.errors import InputError, MissingResource
from vse_pipe.prepare import source
from vse_pipe.prepare.formats.precomp import Grouping, group


def test_one_row_per_image(tmp_path):
    source = read("precomp", precomp(tmp_path, three_splits()), tmp_path / "out")
    assert source.root == str(tmp_path)
    assert source.images["image_id"].to_pylist() == [0, 1, 2, 3, 4, 5]
    assert source.images["split"].to_pylist() == ["train"] * 3 + ["val"] + ["test"] * 2
    files = [
        "train_ims.npy#0",
        "train_ims.npy#1",
        "train_ims.npy#2",
        "dev_ims.npy#0",
        "test_ims.npy#0",
        "test_ims.npy#1",
    ]
    assert source.images["file"].to_pylist() == files
    assert source.images["width"].to_pylist() == source.images["height"].to_pylist() == [0] * 6
    assert source.images["sha256"][1].as_py() == hashlib.sha256(rows(3, 3)[1].tobytes()).hexdigest()
    assert source.captions["caption_id"].to_pylist() == list(range(12))
    assert captions_by_file(source)["test_ims.npy#1"] == ["test 2", "test 3"]
    assert source.captions["split"].to_pylist() == ["train"] * 6 + ["val"] * 2 + ["test"] * 4


def test_rows_repeated_per_caption_in_one_split_only(tmp_path):
    splits = three_splits(5)
    splits["test"] = (np.repeat(splits["test"][0], 5, axis=0), splits["test"][1])
    source = read("precomp", precomp(tmp_path, splits), tmp_path / "out")
    assert source.images["file"].to_pylist()[-2:] == ["test_ims.npy#0", "test_ims.npy#5"]
    assert captions_by_file(source)["test_ims.npy#5"] == [f"test {i}" for i in range(5, 10)]


def test_a_short_array_whose_length_divides_the_captions_is_refused(tmp_path):
    """20 captions of 4 images, of whose rows 2 are left: 10 captions an image, where train has 5."""
    splits = three_splits(5)
    splits["test"] = (rows(2, 2), [f"test {i}" for i in range(20)])
    precomp(tmp_path, splits)
    with pytest.raises(
        InputError, match=r"captions per image \(train 5, dev 5, test 10\).*complete test_ims.npy and test_caps.txt"
    ):
        read("precomp", tmp_path, tmp_path / "out")
    with pytest.raises(InputError, match="with captions_per_image 5 there must be 5 captions a row"):
        read("precomp", tmp_path, tmp_path / "out", captions_per_image=5)
    source = read("precomp", tmp_path, tmp_path / "out", captions_per_image={"test": 10})
    assert len(captions_by_file(source)["test_ims.npy#1"]) == 10
    assert len(captions_by_file(source)["train_ims.npy#1"]) == 5


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
    source = read("precomp", precomp(folder, {"test": (features, captions)}), folder, splits=["test"])
    expected = features[vsepp_image_rows(len(features), len(captions))]
    digest = dict(zip(source.images["image_id"].to_pylist(), source.images["sha256"].to_pylist(), strict=True))
    owners = source.captions["image_id"].to_pylist()
    assert source.images.num_rows == images
    assert [digest[owner] for owner in owners] == [hashlib.sha256(row.tobytes()).hexdigest() for row in expected]


def test_fortran_order_has_the_digests_of_its_rows(tmp_path):
    features = rows(3, shape=(2, 5))
    precomp(tmp_path, {"test": (np.asfortranarray(features), ["a", "b", "c"])})
    source = read("precomp", tmp_path, tmp_path / "out", splits=["test"])
    assert source.images["sha256"].to_pylist() == [hashlib.sha256(row.tobytes()).hexdigest() for row in features]


def test_blocks_do_not_show(tmp_path, monkeypatch):
    precomp(tmp_path, {"test": (rows(7), list("abcdefg"))})
    whole = read("precomp", tmp_path, tmp_path / "out", splits=["test"]).images
    monkeypatch.setattr(source, "_BLOCK_BYTES", 3 * 16)
    assert read("precomp", tmp_path, tmp_path / "out", splits=["test"]).images.equals(whole)
    np.save(tmp_path / "test_ims.npy", np.where(np.arange(7)[:, None] == 5, np.nan, rows(7)).astype("float32"))
    broken = read("precomp", tmp_path, tmp_path / "out", splits=["test"]).broken
    assert broken == ["test_ims.npy#5 holds NaN or infinite values"]


def test_of_rows_that_are_repeated_a_broken_one_is_one_image(tmp_path):
    spoilt = rows(3, dtype="float16")
    spoilt[1, 2] = -np.inf
    precomp(tmp_path, {"test": (np.repeat(spoilt, 5, axis=0), [str(n) for n in range(15)])})
    broken = read("precomp", tmp_path, tmp_path / "out", splits=["test"]).broken
    assert broken == ["test_ims.npy#5 holds NaN or infinite values"]


def test_testall_is_read_when_asked_for(tmp_path, capsys):
    splits = three_splits()
    splits["testall"] = (rows(4, 9), [f"all {i}" for i in range(8)])
    precomp(tmp_path, splits)
    source = read("precomp", tmp_path, tmp_path / "out", test="testall")
    assert source.images["file"].to_pylist()[-4:] == [f"testall_ims.npy#{i}" for i in range(4)]
    assert source.images["split"].to_pylist()[-4:] == ["test"] * 4
    assert capsys.readouterr().err == ""
    assert read("precomp", tmp_path, tmp_path / "out").images.num_rows == 6
    assert "testall_ims.npy too; reading test_ims.npy" in capsys.readouterr().err
    read("precomp", tmp_path, tmp_path / "out", test="test")
    assert capsys.readouterr().err == ""


def test_captions_per_image_one_keeps_equal_rows_apart(tmp_path):
    precomp(tmp_path, {"test": (np.repeat(rows(2), 2, axis=0), ["a", "b", "c", "d"])})
    assert read("precomp", tmp_path, tmp_path, splits=["test"]).images.num_rows == 2
    assert read("precomp", tmp_path, tmp_path, splits=["test"], captions_per_image=1).images.num_rows == 4


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_odd_captions_come_back_unchanged(tmp_path, end, mark):
    precomp(tmp_path, {"test": (rows(1), [])})
    joined = (end or b"\n").join(text.encode() for text in ODD_CAPTIONS) + end
    (tmp_path / "test_caps.txt").write_bytes(mark + joined)
    source = read("precomp", tmp_path, tmp_path / "out", splits=["test"])
    assert source.captions["text"].to_pylist() == ODD_CAPTIONS


IDS = [
    ("numbers", {"train": "5\n9\n7\n", "dev": "1\n", "test": "3\n4\n"}, [5, 9, 7, 1, 3, 4]),
    ("no final newline, CRLF", {"train": "5\r\n9\r\n7", "dev": "1", "test": "3\r\n4\r\n"}, [5, 9, 7, 1, 3, 4]),
    ("names", {"train": "a\nb\nc\n", "dev": "d\n", "test": "e\nf\n"}, [0, 1, 2, 3, 4, 5]),
    ("numbers that start again", {"train": "0\n1\n2\n", "dev": "0\n", "test": "0\n1\n"}, [0, 1, 2, 3, 4, 5]),
    ("for some splits", {"train": "5\n9\n7\n"}, [0, 1, 2, 3, 4, 5]),
    ("per caption", {"train": "5\n5\n9\n9\n7\n7\n", "dev": "1\n1\n", "test": "3\n4\n"}, [5, 9, 7, 1, 3, 4]),
    ("of captions", {"train": "50\n51\n90\n91\n70\n71\n", "dev": "1\n", "test": "3\n4\n"}, [0, 1, 2, 3, 4, 5]),
    ("beyond int64", {"train": "99999999999999999999\n9\n7\n", "dev": "1\n", "test": "3\n4\n"}, [0, 1, 2, 3, 4, 5]),
]


@pytest.mark.parametrize(("ids", "expected"), [case[1:] for case in IDS], ids=[case[0] for case in IDS])
def test_image_ids(tmp_path, ids, expected):
    precomp(tmp_path, three_splits())
    for prefix, text in ids.items():
        (tmp_path / f"{prefix}_ids.txt").write_bytes(text.encode())
    assert read("precomp", tmp_path, tmp_path / "out").images["image_id"].to_pylist() == expected


BAD_IDS = [
    ("twice", {"train": "a\nb\na\n"}, "train_ids.txt: id 'a' names 2 images"),
    ("count", {"train": "a\nb\n"}, "train_ids.txt: 2 ids, expected one per image (3) or one per caption (6)"),
    ("groups", {"train": "5\n5\n9\n7\n7\n7\n"},
     "train_ids.txt line 4: id '7', but the 2 captions of that image begin with id '9'"),
    ("name in two splits", {"train": "a\nb\nc\n", "dev": "d\n", "test": "e\na\n"}, "_ids.txt: id 'a' names 2 images"),
]  # fmt: skip


@pytest.mark.parametrize(("ids", "message"), [case[1:] for case in BAD_IDS], ids=[case[0] for case in BAD_IDS])
def test_bad_ids(tmp_path, ids, message):
    precomp(tmp_path, three_splits())
    for prefix, text in ids.items():
        (tmp_path / f"{prefix}_ids.txt").write_text(text)
    with pytest.raises(InputError) as caught:
        read("precomp", tmp_path, tmp_path / "out")
    assert message in str(caught.value)


def _npy(array: np.ndarray):
    return lambda path: np.save(path, array)


def _raw(content: bytes):
    return lambda path: path.write_bytes(content)


def _cut(path):
    np.save(path, rows(3))
    path.write_bytes(path.read_bytes()[:-5])


def _longer(path):
    np.save(path, rows(3))
    path.write_bytes(path.read_bytes() + b"\0")


def _archive(path):
    with path.open("wb") as file:
        np.savez(file, rows(3))


BAD_ARRAYS = [
    ("wrong rows", _npy(rows(4)), "6 captions, 4 rows of features: not a multiple"),
    ("more rows than captions", _npy(rows(7)), "6 captions, 7 rows of features: not a multiple"),
    ("truncated", _cut, "train_ims.npy: not a whole .npy file (171 bytes, its header promises 176"),
    ("longer", _longer, "train_ims.npy: not a whole .npy file (177 bytes, its header promises 176"),
    ("integers", _npy(np.ones((3, 4), dtype=np.int64)), "holds int64, expected float16, float32 or float64"),
    ("complex", _npy(np.ones((3, 4), dtype=np.complex64)), "holds complex64"),
    ("flat", _npy(np.ones(3, dtype=np.float32)), "shape (3,), expected (rows, D) or (rows, regions, D)"),
    ("no rows", _npy(rows(0)), "shape (0, 4)"),
    ("no columns", _npy(np.ones((3, 0), dtype=np.float32)), "shape (3, 0)"),
    ("empty file", _raw(b""), "train_ims.npy: not a whole .npy file ("),
    ("text", _raw(b"<html>not found</html>"), "train_ims.npy: not a whole .npy file ("),
    ("archive", _archive, "train_ims.npy: not a whole .npy file ("),
    ("objects", lambda path: np.save(path, np.array([Hostile(path.parent / "pwned.txt")] * 3), allow_pickle=True),
     "holds pickled Python objects"),
    ("pickle", _raw(b"cbuiltins\nopen\n(Vpwned.txt\nVw\ntR."), "train_ims.npy: not a whole .npy file ("),
]  # fmt: skip


@pytest.mark.parametrize(("spoil", "message"), [case[1:] for case in BAD_ARRAYS], ids=[case[0] for case in BAD_ARRAYS])
def test_bad_array(tmp_path, monkeypatch, spoil, message):
    monkeypatch.chdir(tmp_path)
    precomp(tmp_path, three_splits())
    spoil(tmp_path / "train_ims.npy")
    with pytest.raises(InputError) as caught:
        read("precomp", tmp_path, tmp_path / "out")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "pwned.txt").exists()


BAD_CAPTIONS = [
    ("lost line", b"a\nb\nc\nd\ne\n",
     "train_caps.txt and train_ims.npy: 5 captions, 3 rows of features: not a multiple"),
    ("empty line", b"a\nb\n\nd\ne\nf\n", "train_caps.txt line 3: the caption is empty"),
    ("empty at the end", b"a\nb\nc\nd\ne\nf\n\n", "train_caps.txt line 7: the caption is empty"),
    ("blank", b"a\nb\nc\n \t\r\ne\nf\n", "train_caps.txt line 4: the caption is empty"),
    ("not UTF-8", b"a\nb\nc\ncaf\xe9\ne\nf\n", "train_caps.txt line 4: byte 0xe9 is not UTF-8"),
    ("UTF-16", "a\nb\n".encode("utf-16"), "train_caps.txt line 1: byte 0xff is not UTF-8"),
    ("no captions", b"", "train_caps.txt: no captions"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("content", "message"), [case[1:] for case in BAD_CAPTIONS], ids=[case[0] for case in BAD_CAPTIONS]
)
def test_bad_captions(tmp_path, content, message):
    precomp(tmp_path, three_splits())
    (tmp_path / "train_caps.txt").write_bytes(content)
    with pytest.raises(InputError) as caught:
        read("precomp", tmp_path, tmp_path / "out")
    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["dev_ims.npy", "dev_caps.txt"])
def test_missing_file(tmp_path, name):
    precomp(tmp_path, three_splits())
    (tmp_path / name).unlink()
    with pytest.raises(MissingResource, match=f"{name}: no such file"):
        read("precomp", tmp_path, tmp_path / "out")
    assert read("precomp", tmp_path, tmp_path / "out", splits=["test", "train"]).images.num_rows == 5


def test_header_written_by_python_2(tmp_path):
    precomp(tmp_path, {"test": (rows(3), ["a", "b", "c"])})
    path = tmp_path / "test_ims.npy"
    content = path.read_bytes()
    path.write_bytes(content.replace(b"(3, 4)", b"(3L, 4)", 1).replace(b" \n", b"\n", 1))
    assert len(path.read_bytes()) == len(content)
    assert read("precomp", tmp_path, tmp_path / "out", splits=["test"]).images.num_rows == 3


def digests(values: list[int]) -> np.ndarray:
    joined = b"".join(hashlib.sha256(str(value).encode()).digest() for value in values)
    return np.frombuffer(joined, np.uint8).reshape(-1, 32)


TABLE = [
    ("one row an image", 10, [1, 2], None, Grouping(5, 1)),
    ("rows repeated", 10, [1] * 5 + [2] * 5, None, Grouping(5, 5)),
    ("one caption an image", 3, [1, 2, 3], None, Grouping(1, 1)),
    ("equal neighbours among images", 15, [1] * 5 + [2] * 10, None, Grouping(5, 5)),
    ("one equal pair among single captions", 6, [1, 2, 2, 3, 4, 5], None, Grouping(1, 1)),
    ("seven captions an image", 14, [1, 2], None, Grouping(7, 1)),
    ("told, one row an image", 10, [1, 2], 5, Grouping(5, 1)),
    ("told, rows repeated", 10, [1] * 5 + [2] * 5, 5, Grouping(5, 5)),
    ("told one, rows repeated", 4, [1, 1, 2, 2], 1, Grouping(1, 1)),
    ("told a divisor", 4, [1, 1, 1, 1], 2, Grouping(2, 2)),
]


@pytest.mark.parametrize(
    ("captions", "values", "wanted", "expected"), [case[1:] for case in TABLE], ids=[case[0] for case in TABLE]
)
def test_groups(captions, values, wanted, expected):
    assert group(captions, digests(values), wanted, "here") == expected


BAD = [
    ("not a multiple", 9, [1, 2], None, "here: 9 captions, 2 rows of features: not a multiple"),
    ("more rows", 2, [1, 2, 3], None, "here: 2 captions, 3 rows of features: not a multiple"),
    ("uneven", 7, [1, 1, 1, 2, 2, 3, 3], None,
     "here: 7 of 7 rows are equal to the row before or after them, but not in groups"),
    ("told another", 10, [1, 2], 4, "with captions_per_image 4 there must be 4 captions a row"),
    ("told, no multiple", 7, [1, 2, 3, 4, 5, 6, 7], 5, "as many rows as captions and a multiple of 5"),
    ("told, rows differ", 10, [1] * 5 + [2, 2, 2, 2, 3], 5, "rows 5 to 9 differ"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("captions", "values", "wanted", "message"), [case[1:] for case in BAD], ids=[case[0] for case in BAD]
)
def test_refused(captions, values, wanted, message):
    with pytest.raises(InputError) as caught:
        group(captions, digests(values), wanted, "here")
    assert message in str(caught.value)


@given(values=st.lists(st.integers(0, 2), min_size=1, max_size=8), times=st.integers(1, 6))
def test_inferred_repetition_divides_every_run(values, times):
    repeated = [value for value in values for _ in range(times)]
    lengths = naive.runs(repeated)
    common = naive.divides_all(lengths)
    if common == 1 and sum(length for length in lengths if length > 1) * 2 > len(repeated):
        with pytest.raises(InputError, match="not in groups of one size"):
            group(len(repeated), digests(repeated), None, "here")
    else:
        assert group(len(repeated), digests(repeated), None, "here") == Grouping(common, common)
