"""Shards computed by shares of a job and by the workers of an engine."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.extract import project
from tests.extract.test_resume import outputs
from vse_pipe.core.errors import InputError, LockedError, MissingResource
from vse_pipe.core.locks import share
from vse_pipe.extract import stage
from vse_pipe.extract.compute import Forward
from vse_pipe.extract.job import plan
from vse_pipe.extract.stage import computed_shards
from vse_pipe.extract.work import Work
from vse_pipe.project.params.schema import EngineParams

OUT = project.OUT


def params(**more):
    return project.params("random_filters", **{"batch_size": 2, "shard_size": 2, **more})


def numbers() -> list[int]:
    return sorted(int(path.name[:6]) for path in OUT.glob("shards/*/*"))


def emptied() -> None:
    for path in OUT.iterdir():
        path.unlink()


def test_shares_then_one_call_equal_one_process(tiny: Path, capsys: pytest.CaptureFixture) -> None:
    stage.extract(params(), "small", "cpu")
    whole = outputs(tiny)
    emptied()
    stage.extract(params(), "small", "cpu", Work((2, 2)))
    assert numbers() == [1, 3]
    said = capsys.readouterr().err
    assert "share 2/2 is finished, 3 of 5 shards are missing" in said
    assert "`vse-pipe extract --features small` puts them together" in said
    assert not stage.finish(params(), "small", "cpu")
    stage.extract(params(), "small", "cpu", Work((1, 2)))
    assert numbers() == [0, 1, 2, 3, 4]
    assert "0 of 5 shards are missing" in capsys.readouterr().err
    assert not (OUT / "features.npy").exists()
    assert stage.finish(params(), "small", "cpu")
    assert outputs(tiny) == whole


def test_a_share_that_is_finished_is_told_without_the_network(tiny: Path, monkeypatch, capsys) -> None:
    assert not stage.finish(params(), "small", "cpu", Work((1, 2)))
    stage.extract(params(), "small", "cpu", Work((1, 2)))
    before = outputs(tiny)
    monkeypatch.setattr(stage, "plan", lambda *given: pytest.fail("the network was built"))
    capsys.readouterr()
    assert stage.finish(params(), "small", "cpu", Work((1, 2)))
    assert "share 1/2 is finished, 2 of 5 shards are missing" in capsys.readouterr().err
    assert not stage.finish(params(), "small", "cpu", Work((2, 2)))
    assert not stage.finish(params(filters=8), "small", "cpu", Work((1, 2)))
    assert outputs(tiny) == before


def test_one_call_computes_what_no_share_did(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.extract(params(), "small", "cpu")
    whole = outputs(tiny)
    emptied()
    stage.extract(params(), "small", "cpu", Work((1, 3)))
    seen = []
    run = Forward.__call__
    monkeypatch.setattr(Forward, "__call__", lambda self, batch: seen.append(len(batch)) or run(self, batch))
    stage.extract(params(), "small", "cpu")
    assert seen == [2, 2, 1]
    assert outputs(tiny) == whole


def test_a_share_that_was_killed_goes_on(tiny: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    run, seen = Forward.__call__, []

    def stopped(self, batch):
        if seen:
            raise KeyboardInterrupt
        seen.append(1)
        return run(self, batch)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Forward, "__call__", stopped)
        stage.extract(params(), "small", "cpu", Work((1, 2)))
    assert numbers() == [0]
    assert "1 of 5 shards are finished and kept" in capsys.readouterr().err
    stage.extract(params(), "small", "cpu", Work((1, 2)))
    assert numbers() == [0, 2, 4]
    assert "going on after 1 of 3 shards" in capsys.readouterr().err


def test_nobody_assembles_while_a_share_is_held(tiny: Path) -> None:
    with share(OUT, 1, 2):
        for call in (stage.extract, stage.finish):
            with pytest.raises(LockedError, match=r"process \d+ on .* \(share 1/2\)"):
                call(params(), "small", "cpu")


def test_a_share_leaves_shards_of_others_and_says_so(tiny: Path, capsys: pytest.CaptureFixture) -> None:
    stage.extract(params(), "small", "cpu", Work((1, 2)))
    stage.extract(params(filters=8), "small", "cpu", Work((2, 2)))
    assert numbers() == [0, 1, 2, 3, 4]
    assert len(list((OUT / "shards").iterdir())) == 2
    assert "hold shards of other extractions" in capsys.readouterr().err


@pytest.mark.acceptance
def test_finished_work_is_recognised_without_torch(tiny: Path) -> None:
    """In a process of its own: features that are there, and shards that only need to be put together."""
    code = (
        "import sys; from pathlib import Path; from vse_pipe.extract import stage\n"
        "from vse_pipe.project.params.typed import FeatureSet, Member; from types import SimpleNamespace\n"
        "from vse_pipe.extract.backbones.options import RandomFiltersOptions as Params\n"
        "node = FeatureSet('tiny', Member('random_filters', Params(batch_size=2, shard_size=2)))\n"
        "params = SimpleNamespace(seed=1, features={'small': node})\n"
        "print(stage.finish(params, 'small', 'cpu'), 'torch' in sys.modules)"
    )
    command = [sys.executable, "-c", code]
    env = {"PYTHONPATH": str(Path(stage.__file__).parents[2])}
    told = []
    for number in (1, 2):
        stage.extract(params(), "small", "cpu", Work((number, 2)))
    for _ in range(2):
        done = subprocess.run(command, capture_output=True, text=True, cwd=tiny, env=env, check=True)
        told.append((done.stdout.split(), done.stderr))
    assert [words for words, _ in told] == [["True", "False"]] * 2
    assert "5 shards were there" in told[0][1]
    assert "is up to date" in told[1][1]


def test_only_what_is_asked_for_in_order(tiny: Path) -> None:
    node = project.params("random_filters", batch_size=2, shard_size=3).features["small"]
    job = plan(node, 1, torch.device("cpu"))
    assert (job.size, job.count) == (4, 3)
    whole = dict(computed_shards(job, [0, 1, 2], "small", "cpu", EngineParams()))
    assert [shard.count for shard in whole.values()] == [4, 4, 1]
    some = list(computed_shards(job, [2, 0], "small", "cpu", EngineParams()))
    assert [number for number, _ in some] == [2, 0]
    for number, shard in some:
        assert np.array_equal(shard.rows.features, whole[number].rows.features)
        assert shard.failures == []


needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason='Ray is not installed (80 MB): pip install "vse-pipe[ray]"'
)
# Ray leaves sockets open when it is shut down, and warns of its own defaults.
quiet = pytest.mark.filterwarnings("ignore")
TWO = Work(engine=EngineParams(name="ray", workers=2))


@needs_ray
@quiet
def test_two_workers_equal_the_plain_run(tiny: Path, capsys: pytest.CaptureFixture) -> None:
    given = {"model": "random_filters", "image_size": 16, "rows": 2, "columns": 3}
    params = project.params("grid", batch_size=2, shard_size=2, **given)
    stage.extract(params, "small", "cpu")
    whole = outputs(tiny)
    assert sorted(whole) == ["contents.parquet", "errors.parquet", "features.npy", "index.parquet", "meta.json"]
    for path in project.OUT.iterdir():
        path.unlink()
    stage.extract(params, "small", "cpu", TWO)
    assert outputs(tiny) == whole


@needs_ray
@quiet
def test_an_error_of_a_worker_is_the_error_of_the_command(tiny: Path) -> None:
    project.prepared(Path("raw"), [f"{number:03d}.png" for number in range(9)], digests=[""] * 9)
    Path("raw/005.png").write_bytes(Path("raw/005.png").read_bytes()[:90])
    params = project.params("random_filters", batch_size=2, shard_size=2)
    with pytest.raises(InputError, match=r"005.png \(image_id 24\) does not decode"):
        stage.extract(params, "small", "cpu", TWO)
    assert [name.split("/")[0] for name in outputs(tiny)][:1] == ["shards"]


def test_without_ray_it_is_said_what_to_install(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingResource, match=r'engine ray needs the extra "ray": pip install "vse-pipe\[ray\]"'):
        stage.extract(project.params("random_filters"), "small", "cpu", TWO)
