"""Rows that go to the disk come back as they were, leave nothing there, and no longer count as memory."""

from pathlib import Path

import pyarrow as pa
import pytest

from tests.prepare._data import precomp, prepare
from tests.prepare._data import rows as features
from vse_pipe.core import memory
from vse_pipe.prepare import source
from vse_pipe.prepare.source import Rows, blocks

SCHEMA = pa.schema([pa.field("number", pa.int64(), nullable=False), pa.field("text", pa.string(), nullable=False)])


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "BLOCK", 4)


@pytest.mark.parametrize("count", [0, 1, 4, 11])
def test_what_was_added_comes_back(tmp_path: Path, count: int) -> None:
    kept = Rows(tmp_path, SCHEMA)
    wanted = [{"number": k, "text": f"caption {k}"} for k in range(count)]
    for row in wanted:
        kept.add(*row.values())
    kept.extend([100, 101], pa.array(["a", "b"]))
    table = kept.table()
    wanted += [{"number": 100, "text": "a"}, {"number": 101, "text": "b"}]
    assert (kept.count, table.schema, table.to_pylist()) == (count + 2, SCHEMA, wanted)
    found = list(blocks(table))
    assert [row for _, block in found for row in block.to_pylist()] == wanted
    assert [start for start, _ in found] == [sum(len(block) for _, block in found[:k]) for k in range(len(found))]
    assert max(len(block) for _, block in found) <= 4
    del kept
    assert (table.to_pylist(), list(tmp_path.iterdir())) == (wanted, [])


def test_memory_is_given_back_with_every_block(tmp_path: Path) -> None:
    with memory.limit(1, "datasets.x.memory"):
        memory.take("before", 1000)
        kept, counted = Rows(tmp_path, SCHEMA), []
        for number in range(9):
            memory.take("caption", 10)
            kept.add(number, "a")
            counted.append(memory.taken())
        kept.table()
        assert counted == [1010, 1020, 1030, 1000, 1010, 1020, 1030, 1000, 1010]
        assert memory.taken() == 1000


@pytest.mark.acceptance
def test_more_captions_than_memory_may_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(source, "BLOCK", 2**10)
    count = 20_000  # of 600 bytes each while they are read
    precomp(Path("raw"), {"train": (features(count // 5), [f"caption {number}" for number in range(count)])})
    assert prepare("precomp", "raw", memory=4, splits=["train"]).is_dir()


def test_ids_that_stay_in_memory_go_on_counting(tmp_path: Path) -> None:
    with memory.limit(1, "datasets.x.memory"):
        kept = Rows(tmp_path, SCHEMA)
        for number in range(9):
            memory.take("caption", 10)
            kept.add(number, "a")
            memory.take("id", 100)
            kept.reserve(100)
        kept.table()
        assert memory.taken() == 900
