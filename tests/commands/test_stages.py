"""The commands of the stages: shares and Ray."""

import sys
from pathlib import Path

import pytest

from tests.command_line import caller, failure, output
from tests.extract import project
from vse_pipe.core.errors import missing_package

WHAT = f"error: {missing_package('engine ray', 'ray')}\n"


@pytest.fixture
def extract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture):
    monkeypatch.chdir(tmp_path)
    project.prepared(Path("raw"), project.pictures(Path("raw"), 9))
    small = "{dataset: tiny, backbone: random_filters, image_size: 16, batch_size: 2, shard_size: 2}"
    text = project.PARAMS.replace("inferences: []", "inferences: [nns]")
    Path("params.yaml").write_text(text.replace("features: {}", f"features: {{small: {small}}}"))
    return caller(monkeypatch, capsys, "extract")


def test_shares_and_then_the_whole(extract) -> None:
    for share in ("2/2", "1/2", "1/2"):  # a share that is finished says so too
        assert f"share {share} is finished" in output(extract, "--features", "small", "--shard", share)[1]
    assert "going on after 5 of 5 shards" in output(extract, "--features", "small")[1]
    assert "data/extract/tiny/small is up to date" in output(extract)[1]


def test_params_yaml_and_set_name_the_engine(extract, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    params = Path("params.yaml")
    params.write_text(params.read_text() + "\nengine: {name: ray, workers: 2}\n")
    assert WHAT in failure(extract, 4, "--features", "small")
    params.write_text(params.read_text().replace("name: ray", "name: local"))
    output(extract, "--features", "small")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--shard", "1/2"), "--shard divides the images of one feature set: name it with --features"),
        (("--shard", "3/2", "--features", "small"), "--shard 3/2: expected i/n with i from 1 to n"),
        (("--features", "small", "--weights", "random"), "--dataset and --weights go with --backbone"),
    ],
)
def test_refuses(extract, arguments: tuple, message: str) -> None:
    assert message in failure(extract, 2, *arguments)
