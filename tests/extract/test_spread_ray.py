"""Engine ray: two workers on this machine give the bytes of the plain run."""

import importlib.util
import sys
from pathlib import Path

import pytest

from tests.extract import project
from tests.extract.test_resume import outputs
from vse_pipe.core.errors import InputError, MissingResource
from vse_pipe.extract import stage
from vse_pipe.extract.work import Work
from vse_pipe.project.params.schema import EngineParams

needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason='Ray is not installed (80 MB): pip install "vse-pipe[ray]"'
)
# Ray leaves sockets open when it is shut down, and warns of its own defaults.
pytestmark = pytest.mark.filterwarnings("ignore")
TWO = Work(engine=EngineParams(name="ray", workers=2))


@needs_ray
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
