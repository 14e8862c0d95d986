"""Shards computed by shares of a job, by the workers of an engine, and by calls after one that was killed anywhere."""

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.extract import project
from tests.extract.project import OUT, WRITTEN, extract, outputs
from vse_pipe.core.errors import InputError, LockedError, MissingResource
from vse_pipe.core.locks import claim, share
from vse_pipe.extract import stage
from vse_pipe.project.params.nodes import EngineParams
from vse_pipe.project.params.typed import Params


def params(**more) -> Params:
    return project.params("random_filters", **{"batch_size": 2, "shard_size": 2, **more})


def numbers() -> list[int]:
    return sorted(int(path.name[:6]) for path in OUT.glob("shards/*/*"))


def extracted(share: str | None = None, given: Params | None = None) -> dict[str, bytes]:
    stage.extract(given or params(), "small", "cpu", share)
    return outputs()


def fresh(given: Params | None = None) -> dict[str, bytes]:
    """What one process makes; nothing of it stays."""
    found = extracted(given=given)
    shutil.rmtree(OUT)
    return found


def test_shares_then_one_call_equal_one_process(tiny: Path, capsys: pytest.CaptureFixture) -> None:
    whole = fresh()
    extracted("2/2")
    assert numbers() == [1, 3]
    said = capsys.readouterr().err
    assert "share 2/2 is finished" in said
    assert "`vse-pipe extract --features small` puts them together" in said
    extracted("1/2")
    assert numbers() == [0, 1, 2, 3, 4]
    assert not (OUT / "features.npy").exists()
    assert extracted() == whole


def test_a_link_in_the_place_of_the_shards_goes_and_what_it_leads_to_stays(tiny: Path, tmp_path: Path) -> None:
    (scratch := tmp_path / "scratch").mkdir()
    (scratch / "notes.txt").write_text("mine")
    OUT.mkdir(parents=True)
    (OUT / "shards").symlink_to(scratch)
    extracted()
    assert (scratch / "notes.txt").read_text() == "mine"


def test_a_share_that_was_killed_goes_on(tiny: Path, capsys) -> None:
    project.interrupted(1, params(), "1/2")
    assert numbers() == [0]
    extracted("1/2")
    assert numbers() == [0, 2, 4]
    assert "going on after 1 of 3 shards" in capsys.readouterr().err


def test_nobody_assembles_while_a_share_is_held(tiny: Path) -> None:
    with share(OUT, 1), pytest.raises(LockedError, match=r"process \d+ on "):
        stage.extract(params(), "small", "cpu")
    with claim(OUT), pytest.raises(LockedError, match=r"process \d+ on "):
        extracted("1/2")


needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason='Ray is not installed (80 MB): pip install "vse-pipe[ray]"'
)
# Ray leaves sockets open when it is shut down, and warns of its own defaults.
quiet = pytest.mark.filterwarnings("ignore")
TWO = EngineParams(name="ray", workers=2)


@pytest.mark.acceptance
@needs_ray
@quiet
def test_two_workers_equal_the_plain_run(tiny: Path) -> None:
    given = project.params("grid", batch_size=2, shard_size=2)
    whole = fresh(given)
    assert sorted(whole) == project.WRITTEN
    assert extracted(given=replace(given, engine=TWO)) == whole


@pytest.mark.acceptance
@needs_ray
@quiet
def test_an_error_of_a_worker_is_the_error_of_the_command(tiny: Path) -> None:
    project.prepared(Path("raw"), [f"{number:03d}.png" for number in range(9)], digests=[""] * 9)
    Path("raw/005.png").write_bytes(Path("raw/005.png").read_bytes()[:90])
    with pytest.raises(InputError, match=r"005.png \(image_id 24\) does not decode"):
        extracted(given=replace(params(), engine=TWO))
    assert next(iter(outputs())).startswith("shards/")


def test_without_ray_it_is_said_what_to_install(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingResource, match=r"engine ray .*: pip install ray"):
        extracted(given=replace(params(), engine=TWO))


REPOSITORY = Path(__file__).parents[2]


def killed(root: Path, rounds: int, before: int) -> list[dict]:
    """What ``tests.extract.killed`` tells of its runs."""
    command = [sys.executable, "-m", "tests.extract.killed", str(root), str(rounds), str(before)]
    # Byte code would be renamed into place too.
    env = {**os.environ, "PYTHONPATH": f"{REPOSITORY}/pipeline:{REPOSITORY}", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=REPOSITORY, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.acceptance
def test_killed_anywhere_it_ends_with_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = killed(tmp_path, rounds=3, before=0)
    planned = [run for run in runs if not run["folder"].startswith("drawn")]
    assert sorted(resumed(tmp_path, runs, planned[-1], monkeypatch)) == WRITTEN
    assert [run["killed"] for run in planned] == [signal.SIGKILL] * (len(planned) - 1) + [0]
    parts = ["000000", "000001", "000002"]
    written = ["features.npy", "index.parquet", "meta.json", "made_from.json"]
    at = [run["at"] for run in planned[:-1]]
    assert at[:9] == [f"os.rename {name}" for name in [*parts, *written, "small", "small.partial"]]
    assert sorted(at[9:12]) == [f"os.remove {name}" for name in parts]
    assert [event.split()[0] for event in at[12:15]] == ["os.rmdir"] * 3
    assert at[15:] == ["os.remove small.lock"]


def resumed(root: Path, runs: list[dict], whole: dict, patch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """What the run ``whole`` left, as all others did."""
    left = {}
    for run in runs:
        assert run["resumed"] == 0, run
        patch.chdir(root / run["folder"])
        left[run["folder"]] = outputs()
    expected = left[whole["folder"]]
    assert [folder for folder, found in left.items() if found != expected] == []
    return expected


@pytest.mark.acceptance
def test_killed_anywhere_while_it_grows_nothing_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The features of eight of nine pictures are there whole, or those of all nine, whatever was killed."""
    runs = killed(tmp_path, rounds=0, before=8)
    resumed(tmp_path, runs, runs[-1], monkeypatch)
    assert [run["killed"] for run in runs] == [signal.SIGKILL] * (len(runs) - 1) + [0]
    assert len(runs) > 8


@pytest.mark.parametrize("backbone", ["torchvision", "grid"])
def test_only_what_is_missing_is_computed(tiny: Path, computed: list[int], capsys, backbone: str) -> None:
    """Of regions, their boxes lie in the shards too. The time is that of the last call."""
    whole = extract(backbone)
    timing = OUT.with_name("small.timing.json")
    first = timing.read_text()
    assert json.loads(first)["seconds"] > 0
    extract(backbone)
    assert timing.read_text() == first
    shutil.rmtree(OUT)
    computed.clear()
    timing.write_text('{"seconds": 9999}')  # of features of another code
    project.interrupted(1, project.params(backbone))
    assert [name.split("/")[0] for name in outputs()] == ["shards"]
    assert extract(backbone) == whole
    assert computed == [4, 4, 1]
    assert "going on after 1 of 3 shards" in capsys.readouterr().err
    assert not (OUT / "shards").exists()
    assert json.loads(timing.read_text())["seconds"] < 9999
