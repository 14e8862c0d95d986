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

from tests.extract import project
from vse_pipe.extract import stage
from vse_pipe.extract.compute import Forward

REPOSITORY = Path(__file__).parents[2]


def outputs(folder: Path) -> dict[str, bytes]:
    out = folder / project.OUT
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


def killed(root: Path, rounds: int, before: int) -> list[dict]:
    """What ``tests.extract.killed`` tells of its runs."""
    command = [sys.executable, "-m", "tests.extract.killed", str(root), str(rounds), str(before)]
    # Byte code would be renamed into place too.
    env = {**os.environ, "PYTHONPATH": f"{REPOSITORY}/pipeline:{REPOSITORY}", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=REPOSITORY, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.acceptance
def test_killed_anywhere_it_ends_with_the_same_bytes(tmp_path: Path) -> None:
    runs = killed(tmp_path, rounds=3, before=0)
    planned = [run for run in runs if not run["folder"].startswith("drawn")]
    whole = outputs(tmp_path / planned[-1]["folder"])
    assert sorted(whole) == ["contents.parquet", "errors.parquet", "features.npy", "index.parquet", "meta.json"]
    assert [run["killed"] for run in planned] == [signal.SIGKILL] * (len(planned) - 1) + [0]
    parts = ["000000", "000001", "000002"]
    written = ["features.npy", "index.parquet", "errors.parquet", "contents.parquet", "meta.json"]
    at = [run["at"] for run in planned[:-1]]
    assert at[:10] == [f"os.rename {name}" for name in [*parts, *written, "small", "small.partial"]]
    assert sorted(at[10:13]) == [f"os.remove {name}" for name in parts]
    assert [event.split()[0] for event in at[13:16]] == ["os.rmdir"] * 3
    assert at[16:] == ["os.remove shards", "os.remove small.lock"]
    for run in runs:
        assert run["resumed"] == 0, run
        assert outputs(tmp_path / run["folder"]) == whole, run


@pytest.mark.acceptance
def test_killed_anywhere_while_it_grows_nothing_is_lost(tmp_path: Path) -> None:
    """The features of eight of nine pictures are there whole, or those of all nine, whatever was killed."""
    runs = killed(tmp_path, rounds=0, before=8)
    whole = outputs(tmp_path / runs[-1]["folder"])
    assert [run["killed"] for run in runs] == [signal.SIGKILL] * (len(runs) - 1) + [0]
    assert len(runs) > 8
    for run in runs:
        assert run["resumed"] == 0, run
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
