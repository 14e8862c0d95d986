"""vse-pipe extract: shares, engines, and that finished work is told without the rest of params.yaml."""

from pathlib import Path

import pytest

from tests.command_line import caller
from tests.extract import project

FEATURES = "{dataset: tiny, backbone: random_filters, image_size: 16, batch_size: 2, shard_size: 2}"


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture):
    monkeypatch.chdir(tmp_path)
    project.prepared(Path("raw"), project.pictures(Path("raw"), 9))
    text = project.PARAMS.replace("inferences: []", "inferences: [nns]")
    Path("params.yaml").write_text(text.replace("features: {}", f"features: {{small: {FEATURES}}}"))
    return caller(monkeypatch, capsys, "extract")


def test_shares_and_then_the_whole(call) -> None:
    for share in ("2/2", "1/2"):
        status, _, err = call("--features", "small", "--shard", share)
        assert status == 0, err
        assert f"share {share} is finished" in err
    status, _, err = call("--features", "small")
    assert (status, "5 shards were there, put together" in err) == (0, True)
    status, _, err = call()
    assert (status, "data/extract/tiny/small is up to date" in err) == (0, True)


def test_runs_are_looked_at_as_soon_as_there_is_something_to_do(call) -> None:
    call("--features", "small")
    params = Path("params.yaml")
    params.write_text(params.read_text().replace("runs: {}", "runs: {a: {dataset: tinny}}"))
    assert call("--features", "small")[0] == 2  # what a run must have is checked in any case
    text = "{dataset: tinny, features: small, texts: t, noise: n, loss: summ, scheme: plain, similarity: cosine, text: gru, image: linear}"
    params.write_text(params.read_text().replace("{dataset: tinny}", text))
    assert call("--features", "small")[0] == 0
    Path("data/extract/tiny/small/meta.json").unlink()
    status, _, err = call("--features", "small")
    assert status == 2
    assert "unknown loss 'summ'" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--shard", "1/2"), "--shard divides the images of one feature set: name it with --features"),
        (("--shard", "1/2", "--features", "small", "--texts", "t"), "--shard divides the images"),
        (("--shard", "3/2", "--features", "small"), "--shard 3/2: expected i/n with i from 1 to n"),
        (("--engine", "spark"), "unknown engine 'spark'"),
        (("--workers", "2"), "--workers and --address belong to --engine ray"),
    ],
)
def test_refuses(call, arguments: tuple, message: str) -> None:
    status, _, err = call(*arguments)
    assert status == 2
    assert message in err
