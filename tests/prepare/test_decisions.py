"""Decisions on a data set: what is removed, merged and moved, and what cannot be applied."""

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.prepare._data import entry, karpathy, picture, pictures, prepare
from tests.toy_project import write_decisions
from vse_pipe.artifacts import captions, identity, images, names
from vse_pipe.core.errors import InputError
from vse_pipe.project import paths

SPLITS = ["train"] * 4 + ["val"] * 2 + ["test"] * 4


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    """Ten images, two captions each: image n has the captions 10 n and 10 n + 1."""
    monkeypatch.chdir(tmp_path)
    karpathy(Path("raw"), [entry(n, split, (f"one of {n}", f"two of {n}")) for n, split in enumerate(SPLITS)])


def _decide(*rows: dict, dataset: str = "tiny") -> str:
    write_decisions(dataset, rows)
    return "decisions.csv"


def _tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    out = paths.prepared("tiny")
    return images.read(out).to_pandas().set_index("image_id"), captions.read(out).to_pandas().set_index("caption_id")


def test_every_decision_is_applied_and_ids_stay(capsys):
    prepare("karpathy", "raw")
    pictures_before, captions_before = _tables()
    path = _decide(
        {"kind": "picture", "id": 0, "decision": "drop", "file": "0.png"},
        {"kind": "caption", "id": 11, "decision": "drop", "caption": "two of 1"},
        {"kind": "duplicate", "id": 3, "decision": "take", "proposal": "merge", "other": 2},
        {"kind": "duplicate_caption", "id": 41, "decision": "take", "proposal": "merge", "other": 40},
        {"kind": "leak", "id": 5, "decision": "take", "proposal": "move", "other": 6},
        {"kind": "pair", "id": 60, "decision": "take", "proposal": "picture", "other": 7},
        {"kind": "pair", "id": 70, "decision": "drop"},
        {"kind": "pair", "id": 90, "decision": "drop"},
        {"kind": "pair", "id": 91, "decision": "drop"},  # the last caption of image 9
        {"kind": "pair", "id": 20, "decision": "drop"},  # of train: inject applies it
        {"kind": "picture", "id": 8, "decision": "keep"},
        {"kind": "picture", "id": 8, "decision": "drop", "sha256": "7" * 64},  # of another picture
        {"kind": "leak", "id": 77, "decision": "drop"},
    )
    told_before = capsys.readouterr().err
    assert "decisions" not in told_before
    prepare("karpathy", "raw", decisions=path)
    pictures_after, captions_after = _tables()
    expected = pictures_before.drop([0, 3, 9])
    expected.loc[5, "split"] = "test"
    pd.testing.assert_frame_equal(pictures_after, expected)
    sentences = captions_before.drop([0, 1, 11, 41, 70, 90, 91])
    sentences.loc[[30, 31], "image_id"] = 2
    sentences.loc[[50, 51], "split"] = "test"
    sentences.loc[60, "image_id"] = 7
    pd.testing.assert_frame_equal(captions_after, sentences)
    told = capsys.readouterr().err
    assert (
        "decisions that are not applied, because their picture or caption is not there now: 1 (leak 77 of , row 14)"
        in told
    )
    assert (
        "3 images removed (1 because no caption is left), 7 captions removed (0 because their new image has the same words), "
        "3 captions moved to another image, 1 images moved to another split" in told
    )


def test_captions_that_the_new_image_has_already_do_not_come_with_a_copy(capsys):
    said = [("A dog runs.", "two of 0"), ("a dog  RUNS", "its own"), ("its own!", "?"), ("!", "A dog runs")]
    karpathy(Path("raw"), [entry(n, "train", texts) for n, texts in enumerate(said)] + [entry(4, "test", ("x", "X"))])
    prepare("karpathy", "raw")
    merged = {"kind": "duplicate", "decision": "take", "proposal": "merge"}
    path = _decide({**merged, "id": 1, "other": 0}, {**merged, "id": 2, "other": 1}, {**merged, "id": 3, "other": 0})
    prepare("karpathy", "raw", decisions=path)
    sentences = _tables()[1]
    # What one image had twice from the start is a finding, and texts without words are never the same.
    assert sentences["text"].to_dict() == {
        0: "A dog runs.", 1: "two of 0", 11: "its own", 21: "?", 30: "!", 40: "x", 41: "X"
    }  # fmt: skip
    assert set(sentences["image_id"]) == {0, 4}
    assert "3 captions removed (3 because their new image has the same words)" in capsys.readouterr().err


def test_a_dropped_pair_stays_dropped_when_its_picture_leaves_train_or_enters_it(capsys):
    prepare("karpathy", "raw")
    path = _decide(
        {"kind": "leak", "id": 0, "decision": "take", "proposal": "move", "other": 6},
        {"kind": "leak", "id": 4, "decision": "take", "proposal": "move", "other": 1},
        *({"kind": "pair", "id": number, "decision": "drop"} for number in (0, 40, 20)),
    )
    prepare("karpathy", "raw", decisions=path)
    pictures_after, captions_after = _tables()
    assert (pictures_after.split[0], pictures_after.split[4]) == ("test", "train")
    assert not {0, 40} & set(captions_after.index)
    assert "2 images moved to another split; 1 train pairs are left to inject" in capsys.readouterr().err


def _as_csv(order: list[int]) -> dict[str, str]:
    """A table of three pictures, named by place; order: the picture that each name has."""
    Path("c").mkdir(exist_ok=True)
    for place, number in enumerate(order):
        Path(f"c/{place}.png").write_bytes(picture(number))
    Path("c/t.csv").write_text("image,caption,split\n0.png,a,val\n1.png,b,val\n2.png,c,train\n")
    return {"kind": "csv", "source": "c/t.csv"}


def _as_parquet(order: list[int]) -> dict[str, str]:
    cells = [{"bytes": picture(number), "path": None} for number in order]
    table = pa.table({"image": cells, "caption": list("abc"), "split": ["val", "val", "train"]})
    pq.write_table(table, "t.parquet")
    return {"kind": "parquet", "source": "t.parquet", "split": "split"}


@pytest.mark.parametrize("write", [_as_csv, _as_parquet], ids=["a name", "a row"])
def test_a_picture_that_took_the_place_of_the_one_that_was_judged_stays(write, capsys):
    out = prepare(**write([0, 1, 2]))
    before = images.read(out)["image_id"].to_pylist()
    path = _decide(
        {"kind": "picture", "id": before[0], "decision": "drop"},
        {"kind": "pair", "id": 1, "decision": "drop"},
    )
    assert images.read(prepare(**write([0, 1, 2]), decisions=path)).num_rows == 1
    capsys.readouterr()
    out = prepare(**write([2, 0, 1]), decisions=path)
    assert (images.read(out).num_rows, captions.read(out).num_rows) == (3, 3)
    told = capsys.readouterr().err
    assert "picture or caption is another one now: 2 (" in " ".join(told.split())


def test_names_of_removed_rows_go():
    pictures(Path("c"), ["a.png", "b.png", "d.png"])
    Path("c/t.csv").write_text("image,caption,image_id\na.png,x,one\nb.png,y,two\nd.png,z,three\n")
    out = prepare("csv", "c/t.csv")
    number = names.read(out).number("image_id", "two")
    path = _decide({"kind": "picture", "id": number, "decision": "drop"})
    kept = names.read(prepare("csv", "c/t.csv", decisions=path))
    assert kept.table["name"].to_pylist() == ["one", "three"]
    assert images.read(out)["file"].to_pylist() == ["a.png", "d.png"]


def test_what_cannot_be_applied_leaves_the_folder_as_it_was():
    prepare("karpathy", "raw")
    before = (paths.prepared("tiny") / "images.parquet").read_bytes()
    path = _decide(*({"kind": "picture", "id": n, "decision": "drop"} for n in range(10)))
    with pytest.raises(InputError, match="no images"):
        prepare("karpathy", "raw", decisions=path)
    Path(path).write_text(Path(path).read_text().replace("picture,9", "pciture,9"))
    with pytest.raises(InputError, match=r"decisions\.csv row 11: unknown kind 'pciture'"):
        prepare("karpathy", "raw", decisions=path)
    with pytest.raises(InputError, match=r"none\.csv does not exist"):
        prepare("karpathy", "raw", decisions="none.csv")
    assert (paths.prepared("tiny") / "images.parquet").read_bytes() == before


def _splits(folder: Path) -> dict[str, str]:
    return identity.parts_of(folder, "train", "val", "test")[str(folder)]


def test_decisions_on_train_leave_the_other_splits_as_they_were_measured():
    """So `compare` pairs runs on the data set before and after, also under another name."""
    before = _splits(prepare("karpathy", "raw"))
    path = _decide(
        {"kind": "picture", "id": 0, "decision": "drop"},
        {"kind": "caption", "id": 11, "decision": "drop"},
        {"kind": "duplicate", "id": 3, "decision": "take", "proposal": "merge", "other": 2},
    )
    after = _splits(prepare("karpathy", "raw", decisions=path))
    assert {split for split in before if after[split] != before[split]} == {"train"}
