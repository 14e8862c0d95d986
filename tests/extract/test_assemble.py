"""Shards: written, read, damaged, and put together."""

import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from tests.extract import project
from tests.extract.project import OUT
from vse_pipe.artifacts import features
from vse_pipe.core.errors import IntegrityError
from vse_pipe.extract.job import Job, Output, Shard, plan
from vse_pipe.extract.shards import Shards, assemble, read


@pytest.fixture
def job(tiny: Path) -> Job:
    """Nine images in shards of 4, 4 and 1; image_ids 59, 52, ... 3."""
    return plan(project.params("random_filters").features["small"], 1, torch.device("cpu"))


def ids(job: Job, number: int) -> list[int]:
    return job.table["image_id"].take(job.places(number)).to_pylist()


def filled(job: Job, without: set[int] = frozenset()) -> tuple[Shards, dict[int, str]]:
    """All shards, each row full of its image_id; regions of two with boxes; those ``without`` failed."""
    shards, failures = Shards(OUT, job), {image_id: f"{image_id} is cut" for image_id in without}
    for number in range(job.shard_count):
        whole = [image_id for image_id in ids(job, number) if image_id not in without]
        values = np.array(whole, dtype=np.float32)[:, None, None]
        rows = Output(np.tile(values, (1, 2, 3)), np.tile(values, (1, 2, 4))) if whole else None
        lost = {image_id: failures[image_id] for image_id in ids(job, number) if image_id in without}
        shards.write(number, Shard(rows, lost))
    return shards, failures


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def test_round_trip(job: Job) -> None:
    shards, failures = filled(job, {45, 3})
    again = Shards(OUT, job)
    assert sorted(again.files()) == [0, 1, 2]
    rows, lost = read(again.files()[0]).rows, read(again.files()[0]).failures
    assert rows.features[:, 0, 0].tolist() == rows.boxes[:, 1, 3].tolist() == [59, 52, 38]
    assert (rows.scores, lost) == (None, {45: "45 is cut"})
    assert read(again.files()[2]).rows is None
    assert again.finished() == {0: {45: failures[45]}, 1: {}, 2: {3: failures[3]}}
    before = {path.name: path.read_bytes() for path in shards.files().values()}
    shutil.rmtree(OUT)
    assert {path.name: path.read_bytes() for path in filled(job, {45, 3})[0].files().values()} == before


@pytest.mark.parametrize("damage", [
    *(lambda path, place=place: flip(path, place) for place in (0, 9, 60, -1)),
    lambda path: path.write_bytes(path.read_bytes()[:100]),
    lambda path: path.rename(path.with_name(path.name.replace("000001", "000000"))),
])  # fmt: skip
def test_damage_is_noticed_and_the_shard_is_missing_then(job: Job, damage, capsys) -> None:
    shards, _ = filled(job)
    shards.files()[0].unlink()
    damage(shards.files()[1])
    with pytest.raises(IntegrityError, match=r"00000[01]-.*safetensors"):
        read(shards.files()[min(shards.files())])
    assert sorted(shards.finished()) == [2]
    assert sorted(shards.files()) == [2]
    assert "again" in capsys.readouterr().err


def test_tidy_leaves_nothing_but_the_shards_of_this_extraction(job: Job) -> None:
    shards, _ = filled(job)
    path = shards.files()[1]
    path.with_name(f".{path.name}.17.tmp").write_bytes(b"half")
    (OUT / "shards" / "bbbb").mkdir()
    (OUT / "shards" / "note").write_text("no folder")
    names = sorted(path.name for path in shards.files().values())
    shards.tidy()
    assert sorted(path.name for path in (OUT / "shards").rglob("*") if path.is_file()) == names
    assert len(list((OUT / "shards").iterdir())) == 1


@pytest.mark.parametrize("without", [set(), {59}, {52, 3}, {45, 31, 24, 17, 10}, {59, 52, 45, 38, 3}])
def test_images_without_features_are_left_out_with_their_reason(job: Job, without: set[int]) -> None:
    shards, failures = filled(job, without)
    assemble(job, shards, failures, OUT)
    stored = features.read(OUT)
    everything = job.table["image_id"].to_pylist()
    whole = [i for i in everything if i not in without]
    assert stored.image_ids.tolist() == whole
    assert stored.array[stored.rows, 0, 0].tolist() == stored.boxes[stored.rows, 1, 3].tolist() == whole
    assert len(stored.array) == len(whole)
    index = pq.read_table(OUT / "index.parquet").to_pylist()
    assert [row["image_id"] for row in index] == everything
    for row in index:
        lost = row["image_id"] in without
        assert (row["row"] is None) == (row["boxes"] is None) == lost
        said = ("unreadable", f"{row['image_id']} is cut") if lost else ("ok", "")
        assert (row["status"], row["detail"]) == said
