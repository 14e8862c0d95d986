"""SIGKILL at every point where something appears on disk: the next call ends with the same bytes."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.extract import stage
from pipeline.extract.engine.forward import Forward
from tests.extract import project

REPOSITORY = Path(__file__).parents[2]


def outputs(folder: Path) -> dict[str, bytes]:
    out = folder / project.OUT
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


@pytest.mark.acceptance
def test_killed_anywhere_it_ends_with_the_same_bytes(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.extract.killed", str(tmp_path), "3"]
    # Byte code would be renamed into place too.
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=REPOSITORY, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    runs = [json.loads(line) for line in done.stdout.splitlines()]
    planned = [run for run in runs if not run["folder"].startswith("drawn")]
    whole = outputs(tmp_path / planned[-1]["folder"])
    assert sorted(whole) == ["errors.parquet", "features.npy", "index.parquet", "meta.json"]
    assert [run["killed"] for run in planned] == [signal.SIGKILL] * (len(planned) - 1) + [0]
    renamed = ["000000", "000001", "000002", "features.npy", "index.parquet", "errors.parquet", "meta.json"]
    removed = ["000000", "000001", "000002"]
    at = [run["at"] for run in planned[:-1]]
    assert at[:7] == [f"os.rename {name}" for name in renamed]
    assert sorted(at[7:10]) == [f"os.remove {name}" for name in removed]
    assert [event.split()[0] for event in at[10:12]] == ["os.rmdir", "os.rmdir"]
    assert at[12:] == ["os.remove small.lock"]
    for run in runs:
        assert run["resumed"] == 0, done.stderr
        assert outputs(tmp_path / run["folder"]) == whole, run


def test_only_what_is_missing_is_computed(
    tiny: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    seen: list[int] = []
    run = Forward.__call__

    def stopped(self: Forward, batch):
        if sum(seen) >= 4:
            raise KeyboardInterrupt
        seen.append(len(batch))
        return run(self, batch)

    monkeypatch.setattr(Forward, "__call__", stopped)
    with pytest.raises(KeyboardInterrupt):
        stage.extract(project.params(), "small", "cpu")
    assert not (project.OUT / "features.npy").exists()
    monkeypatch.setattr(Forward, "__call__", lambda self, batch: seen.append(len(batch)) or run(self, batch))
    stage.extract(project.params(), "small", "cpu")
    assert seen == [4, 4, 1]
    assert "going on after 1 of 3 shards" in capsys.readouterr().err
    assert not (project.OUT / "shards").exists()


def test_a_full_disk_leaves_the_shards_and_no_half_written_file(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.extract(project.params(), "small", "cpu")
    whole = outputs(tiny)
    shutil.rmtree(project.OUT)
    # A limit on the size of files fails as a full disk does; the nine rows exceed it, a batch of four does not.
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            stage.extract(project.params(), "small", "cpu")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [name.split("/")[0] for name in outputs(tiny)] == ["shards"] * 3
    stage.extract(project.params(), "small", "cpu")
    assert outputs(tiny) == whole


def test_the_time_of_all_calls_is_counted(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    timing = project.OUT.with_name("small.timing.json")
    stage.extract(project.params(), "small", "cpu")
    first = json.loads(timing.read_text())["seconds"]
    stage.extract(project.params(), "small", "cpu")
    assert json.loads(timing.read_text())["seconds"] == first
    assert first > 0


def test_boxes_lie_in_the_shards_too(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An extraction of regions that stops after its first shard ends with the bytes of one that does not."""
    given = {"model": "random_filters", "image_size": 16, "rows": 2, "columns": 3, "batch_size": 4, "shard_size": 4}
    stage.extract(project.params("grid", **given), "small", "cpu")
    whole = outputs(tiny)
    shutil.rmtree(project.OUT)
    run, done = Forward.__call__, []

    def stopped(self: Forward, batch):
        if done:
            raise KeyboardInterrupt
        done.append(batch)
        return run(self, batch)

    monkeypatch.setattr(Forward, "__call__", stopped)
    with pytest.raises(KeyboardInterrupt):
        stage.extract(project.params("grid", **given), "small", "cpu")
    assert [name.split("/")[0] for name in outputs(tiny)] == ["shards"]
    monkeypatch.setattr(Forward, "__call__", run)
    stage.extract(project.params("grid", **given), "small", "cpu")
    assert outputs(tiny) == whole
