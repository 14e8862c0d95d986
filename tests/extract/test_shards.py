"""Shards survive a kill, say what they are, and only intact shards of the same extraction are used."""

import hashlib
from pathlib import Path

import numpy as np
import pytest

from vse_pipe.extract.job import Failure, Output
from vse_pipe.extract.shards import Damaged, Shard, Shards, earlier

BOXES = np.ones((3, 1, 4), dtype=np.float32)
ROWS = np.arange(6, dtype=np.float32).reshape(3, 2)
ABOUT = {"about": {"backbone": "x"}, "images": 3}


def written(out: Path, *numbers: int, fingerprint: str = "a" * 64) -> Shards:
    shards = Shards(out, fingerprint)
    for number in numbers:
        shards.write(number, Shard(Output(ROWS)), ABOUT)
    return shards


def test_round_trip(tmp_path: Path) -> None:
    shards = written(tmp_path, 0)
    failed = [Failure(7, "truncated", "é.jpg: ends after 3 bytes")]
    shards.write(12, Shard(Output(ROWS.astype(np.float16), BOXES), failed), ABOUT)
    again = Shards(tmp_path, "a" * 64)
    files = again.files()
    assert sorted(files) == [0, 12]
    assert np.array_equal(again.rows(0, files[0])["features"], ROWS)
    assert again.rows(12, files[12])["features"].dtype == np.float16
    assert again.boxes_and_scores(0, files[0]) == {}
    assert np.array_equal(again.boxes_and_scores(12, files[12])["boxes"], BOXES)
    expected = {**ABOUT, "shard": 12, "rows": 3, "failures": failed, "fingerprint": "a" * 64}
    assert again.manifest(12, files[12]) == expected
    assert [one["about"] for one in earlier(tmp_path).values()] == [{"backbone": "x"}]
    again.remove()
    assert list(tmp_path.iterdir()) == []
    assert again.files() == {}


def test_a_shard_without_any_rows(tmp_path: Path) -> None:
    shards = Shards(tmp_path, "a" * 64)
    shards.write(0, Shard(None, [Failure(1, "missing", "gone")]), ABOUT)
    path = shards.files()[0]
    assert shards.rows(0, path) == {}
    assert shards.manifest(0, path)["rows"] == 0


def test_the_bytes_follow_from_the_content(tmp_path: Path) -> None:
    first, second = written(tmp_path / "1", 3).files()[3], written(tmp_path / "2", 3).files()[3]
    assert first.name == second.name
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("place", [0, 9, 60, -1])
def test_a_flipped_bit_anywhere_is_noticed(tmp_path: Path, place: int) -> None:
    shards = written(tmp_path, 1)
    path = shards.files()[1]
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    with pytest.raises(Damaged, match=r"000001-.*: its content does not match the digest in its name") as error:
        shards.rows(1, path)
    assert error.value.number == 1


def test_cut_short_and_gone(tmp_path: Path) -> None:
    shards = written(tmp_path, 1)
    path = shards.files()[1]
    path.write_bytes(path.read_bytes()[:100])
    for read in (shards.manifest, shards.rows):
        with pytest.raises(Damaged):
            read(1, path)
    assert earlier(tmp_path) == {}
    shards.drop(1)
    shards.drop(1)
    with pytest.raises(Damaged, match="cannot be read"):
        shards.rows(1, path)


def test_a_shard_under_another_number_is_not_taken(tmp_path: Path) -> None:
    shards = written(tmp_path, 1)
    path = shards.files()[1]
    moved = path.rename(path.with_name(path.name.replace("000001", "000002")))
    with pytest.raises(Damaged, match="that of another shard"):
        shards.manifest(2, moved)


def test_tidy_leaves_nothing_but_the_shards_of_this_extraction(tmp_path: Path) -> None:
    written(tmp_path, 0, 1, fingerprint="b" * 64)
    shards = written(tmp_path, 1)
    path = shards.files()[1]
    path.with_name(f".{path.name}.17.tmp").write_bytes(b"half")
    (tmp_path / "shards" / "note").write_text("no folder")
    assert [other.name for other in shards.strangers()] == ["b" * 16, "note"]
    shards.tidy()
    assert [found.name for found in sorted((tmp_path / "shards").rglob("*"))] == ["a" * 16, path.name]


@pytest.mark.parametrize("cut", [1, 24])
def test_another_file_under_a_digest_that_fits_is_damaged_too(tmp_path: Path, cut: int) -> None:
    shards = written(tmp_path, 0)
    path = shards.files()[0]
    content = path.read_bytes()[:-cut]
    digest = hashlib.sha256(content).hexdigest()[:16]
    path = path.with_name(f"000000-{digest}.safetensors")
    path.write_bytes(content)
    shards.manifest(0, path)  # whole, so that only the tensors are left to complain about
    with pytest.raises(Damaged, match="holds no tensors that can be read"):
        shards.rows(0, path)


def test_links_are_removed_and_what_they_lead_to_is_left_alone(tmp_path: Path) -> None:
    precious = tmp_path / "elsewhere" / "precious"
    precious.parent.mkdir()
    precious.touch()
    shards = written(tmp_path, 1)
    folder = shards.files()[1].parent
    for link in (folder.with_name("other"), folder / "inside"):
        link.symlink_to(precious.parent)
    (folder / "a folder").mkdir()
    shards.tidy()
    assert [path.name[:6] for path in folder.iterdir()] == ["000001"]
    shards.remove()
    (tmp_path / "shards").symlink_to(precious.parent)
    shards.remove()
    (tmp_path / "shards").symlink_to(precious.parent)
    shards.tidy()
    assert [path.name for path in tmp_path.iterdir()] == ["elsewhere"]
    assert precious.exists()
