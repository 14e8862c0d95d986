"""Features of a collection that changed: those that computing all anew gives, byte for byte, and only new pictures computed."""

import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from tests.acceptance import forked
from tests.extract import project
from tests.extract.test_resume import outputs
from tests.faults import kill_extract
from tests.rules.sources import ROOT
from tests.small_project import QUICK
from vse_pipe.artifacts import images
from vse_pipe.extract import stage
from vse_pipe.extract.compute import Forward
from vse_pipe.extract.job import job_of
from vse_pipe.extract.work import Work
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params

OUT = project.OUT
FILTERS = {"filters": 8, "batch_size": 4, "shard_size": 4}
NAMES = [f"{number:03d}.png" for number in range(14)]
# What a collection of the first nine becomes, and how many of it are new.
CHANGES = {
    "added": (NAMES, 5),
    "added in front": ([*NAMES[9:12], *NAMES[:9]], 3),
    "removed": ([NAMES[0], *NAMES[3:8]], 0),
    "in another order": (NAMES[8::-1], 0),
    "one twice": ([*NAMES[:9], NAMES[4]], 0),
    "all of it": ([NAMES[12], *NAMES[7:2:-1], NAMES[0], NAMES[13]], 2),
}


def filters(**options) -> Params:
    return project.params("random_filters", **{**FILTERS, **options})


def holds(names: Sequence[str], changed: bool = False) -> None:
    """Prepare a collection of these pictures."""
    everything = project.pictures(Path("raw"), len(NAMES))
    if changed:
        (Path("raw") / names[1]).write_bytes((Path("raw") / everything[-1]).read_bytes())
    project.prepared(Path("raw"), list(names))


def fresh(params: Params) -> dict[str, bytes]:
    """What there is after all of the collection has been computed; nothing of it stays."""
    stage.extract(params, "small", "cpu")
    found = outputs(Path.cwd())
    shutil.rmtree(OUT)
    return found


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of the batches that networks are given."""
    seen: list[int] = []
    run = Forward.__call__
    monkeypatch.setattr(
        Forward,
        "__call__",
        lambda self, batch: seen.append(len(batch[0] if isinstance(batch, tuple) else batch)) or run(self, batch),
    )
    return seen


def grown(params: Params, names: Sequence[str], computed: list[int], changed: bool = False) -> int:
    """How many pictures are computed when the first nine become these; the result is that of computing all."""
    holds(names, changed)
    wanted = fresh(params)
    holds(NAMES[:9])
    stage.extract(params, "small", "cpu")
    holds(names, changed)
    computed.clear()
    stage.extract(params, "small", "cpu")
    assert outputs(Path.cwd()) == wanted
    return sum(computed)


@pytest.mark.parametrize(("names", "new"), CHANGES.values(), ids=CHANGES)
def test_only_new_pictures_are_computed(folder: Path, computed: list[int], capsys, names: list[str], new: int) -> None:
    assert grown(filters(), names, computed) == new
    assert f"extract small: {len(names) - new} of {len(names)} pictures computed before" in capsys.readouterr().err


def test_a_picture_that_changed_is_new(folder: Path, computed: list[int]) -> None:
    assert grown(filters(), NAMES[:9], computed, changed=True) == 1


NETWORKS: dict[str, Callable[[], Params]] = {
    "grid": lambda: project.params(
        "grid", model="random_filters", image_size=16, rows=2, columns=3, batch_size=4, shard_size=4
    ),
    "float32": lambda: project.params(precision="float32"),
    "bfloat16": lambda: project.params(precision="bfloat16"),
    "mobilenet": lambda: project.params(model="mobilenet_v3_small", precision="float32", batch_size=3),
    "resnet": lambda: project.params(model="resnet18", precision="float32", store="float16"),
    "timm": lambda: project.params(
        "timm", model="vit_tiny_patch16_224", weights="random", image_size=224, batch_size=3, precision="float32"
    ),
}


@pytest.mark.parametrize(
    "network",
    [
        pytest.param(network, id=name, marks=pytest.mark.acceptance if name in ("grid", "resnet", "timm") else ())
        for name, network in NETWORKS.items()
    ],
)
def test_bits_do_not_depend_on_place_or_batch(folder: Path, computed: list[int], network: Callable[[], Params]) -> None:
    assert grown(network(), CHANGES["all of it"][0], computed) == CHANGES["all of it"][1]


def test_other_options_or_damage_compute_all(folder: Path, computed: list[int], capsys) -> None:
    holds(NAMES[:9])
    stage.extract(filters(filters=4), "small", "cpu")
    holds(NAMES)
    wanted = fresh(filters())
    holds(NAMES[:9])
    stage.extract(filters(), "small", "cpu")
    array = OUT / "features.npy"
    array.write_bytes(array.read_bytes()[:-1] + b"\0")
    holds(NAMES)
    computed.clear()
    stage.extract(filters(), "small", "cpu")
    assert sum(computed) == len(NAMES)
    assert "does not match the digest" in capsys.readouterr().err
    assert outputs(Path.cwd()) == wanted
    computed.clear()
    stage.extract(filters(filters=4), "small", "cpu")
    assert sum(computed) == len(NAMES)


def test_fewer_pictures_take_no_network(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    holds(NAMES[:9])
    stage.extract(filters(), "small", "cpu")
    holds(NAMES[2:7])
    monkeypatch.setattr(stage, "plan", lambda *given: pytest.fail("the network was built"))
    assert stage.finish(filters(), "small", "cpu")
    assert "5 of 5 pictures computed before" in capsys.readouterr().err
    assert stage.finish(filters(), "small", "cpu")
    assert "is up to date" in capsys.readouterr().err


def stopped_after(shards: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """An extraction that is interrupted."""
    run, left = Forward.__call__, [shards]

    def stopping(self: Forward, batch):
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        return run(self, batch)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Forward, "__call__", stopping)
        stage.extract(filters(), "small", "cpu")


def test_interrupted_while_it_grows_and_grown_again(folder: Path, computed: list[int], monkeypatch) -> None:
    """Neither the features from before are lost, nor shards of a list of pictures that is no longer the one wanted."""
    holds(NAMES)
    wanted = fresh(filters())
    holds(NAMES[:5])
    stage.extract(filters(), "small", "cpu")
    before = outputs(folder)
    holds(NAMES[:13])
    stopped_after(1, monkeypatch)
    assert {name: outputs(folder)[name] for name in before} == before
    holds(NAMES[::-1])
    stopped_after(0, monkeypatch)
    holds(NAMES)
    computed.clear()
    stage.extract(filters(), "small", "cpu")
    assert sum(computed) == 14 - 5 - 4
    assert outputs(folder) == wanted


def test_shares_of_what_is_new(folder: Path, computed: list[int]) -> None:
    params = filters(batch_size=2, shard_size=2)
    holds(NAMES)
    wanted = fresh(params)
    holds(NAMES[:9])
    stage.extract(params, "small", "cpu")
    holds(NAMES)
    computed.clear()
    for number in (1, 2):
        stage.extract(params, "small", "cpu", Work((number, 2)))
    assert stage.finish(params, "small", "cpu")
    assert sum(computed) == 5
    assert outputs(folder) == wanted


def test_a_picture_without_features_is_tried_again(folder: Path, computed: list[int]) -> None:
    """One that cannot be read and stays leaves everything else where it was."""
    params = filters()
    allowed = replace(params.features["small"], on_error="skip", max_errors=2)
    params = replace(params, features={"small": allowed})
    names = [*NAMES[:4], "broken.png", *NAMES[4:]]

    def with_broken(some: list[str]) -> None:
        project.pictures(Path("raw"), len(NAMES))
        (Path("raw") / "broken.png").write_bytes(b"no picture")
        project.prepared(Path("raw"), some)

    with_broken(names)
    wanted = fresh(params)
    with_broken(names[:10])
    stage.extract(params, "small", "cpu")
    with_broken(names)
    computed.clear()
    stage.extract(params, "small", "cpu")
    assert sum(computed) == 5
    assert outputs(folder) == wanted


@pytest.mark.acceptance
def test_dvc_repro_grows_what_it_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = forked.folder(**QUICK)
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}/pipeline:{ROOT}")
    kill_extract.make(folder)
    Path("dvc.yaml").write_text(kill_extract.DVC_YAML.replace(str(kill_extract.BIN), str(programs)))
    repro = [str(programs / "dvc"), "repro", "-q"]
    names = sorted(path.name for path in Path("raw").iterdir())
    project.prepared(Path("raw"), names[5:-5])
    kill_extract.run(repro)
    project.prepared(Path("raw"), names)
    done = subprocess.run(repro, capture_output=True, text=True, check=True)
    assert f"{len(names) - 10} of {len(names)} pictures computed before" in done.stdout + done.stderr
    found = outputs(folder)
    kill_extract.emptied()
    kill_extract.run([str(programs / "vse-pipe"), *kill_extract.STAGE[1:]])
    assert outputs(folder) == found


def test_a_job_has_each_column_in_one_piece(tiny, monkeypatch) -> None:
    """Of a million pictures there are many, and taking a shard's rows out of pieces copies them all."""
    whole = images.read(paths.prepared("tiny"))
    monkeypatch.setattr(images, "read", lambda _: pa.concat_tables([whole.slice(0, 2), whole.slice(2)]))
    node = filters().features["small"]
    job = job_of(node, 1, {})
    assert [column.num_chunks for column in job.table.columns] == [1, 1, 1]
    assert job.ids(0).to_pylist() == whole["image_id"].to_pylist()[: job.size]
