"""vse-pipe extract: shares, engines, and that finished work is told without the rest of params.yaml."""

import json
import re
from pathlib import Path

import pytest

from tests.command_line import caller
from tests.extract import project

FEATURES = "{dataset: tiny, backbone: random_filters, image_size: 16, batch_size: 2, shard_size: 2}"


@pytest.fixture
def extract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture):
    monkeypatch.chdir(tmp_path)
    project.prepared(Path("raw"), project.pictures(Path("raw"), 9))
    text = project.PARAMS.replace("inferences: []", "inferences: [nns]")
    Path("params.yaml").write_text(text.replace("features: {}", f"features: {{small: {FEATURES}}}"))
    return caller(monkeypatch, capsys, "extract")


def test_shares_and_then_the_whole(extract) -> None:
    for share in ("2/2", "1/2"):
        status, _, err = extract("--features", "small", "--shard", share)
        assert status == 0, err
        assert f"share {share} is finished" in err
    status, _, err = extract("--features", "small")
    assert (status, "5 shards were there, put together" in err) == (0, True)
    status, _, err = extract()
    assert (status, "data/extract/tiny/small is up to date" in err) == (0, True)


def test_a_share_that_is_finished_is_told(extract) -> None:
    extract("--features", "small", "--shard", "1/2")
    status, _, err = extract("--features", "small", "--shard", "1/2")
    assert (status, "share 1/2 is finished" in err) == (0, True)


def test_a_mistake_in_a_run_is_told_before_anything_is_extracted(extract) -> None:
    params = Path("params.yaml")
    text = "{dataset: tinny, features: small, texts: t, noise: n, loss: summ, scheme: plain, similarity: cosine, text: gru, image: linear}"
    params.write_text(params.read_text().replace("runs: {}", f"runs: {{a: {text}}}"))
    status, _, err = extract("--features", "small")
    assert status == 2
    assert "unknown loss 'summ'" in err
    assert not Path("data/extract/tiny/small").exists()


def test_batch_sizes_are_measured_and_nothing_is_written(extract) -> None:
    before = sorted(Path().rglob("*"))
    status, out, err = extract("--features", "small", "--find-batch-size")
    assert status == 0
    assert re.fullmatch(r"features\.small\.batch_size: [1248]\n", out)
    assert [int(line.split()[0]) for line in err.splitlines()][:2] == [1, 2]
    status, out, _ = extract("--features", "small", "--find-batch-size", "--json")
    found = json.loads(out)
    assert str(found["batch_size"]) in found["images_per_second"]
    assert sorted(Path().rglob("*")) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--shard", "1/2"), "--shard divides the images of one feature set: name it with --features"),
        (("--shard", "1/2", "--features", "small", "--texts", "t"), "--shard divides the images"),
        (("--shard", "3/2", "--features", "small"), "--shard 3/2: expected i/n with i from 1 to n"),
        (("--find-batch-size", "--texts", "t"), "unknown texts 't'"),
        (("--engine", "spark"), "unknown engine 'spark'"),
        (("--workers", "2"), "--workers and --address belong to --engine ray"),
    ],
)
def test_refuses(extract, arguments: tuple, message: str) -> None:
    status, _, err = extract(*arguments)
    assert status == 2
    assert message in err
