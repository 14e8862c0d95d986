import json

import numpy as np
import pytest

from tests.evaluate.embedded import sides
from tests.evaluate.embedded import write as write_run
from tests.evaluate.files import sample, write, write_npy
from tests.toy_project import write_params


def test_files_are_exported_outside_a_project(call, tmp_path):
    files = write_npy(sample(), tmp_path)
    status, out, err = call(
        "-S",
        "inference.is.beta=20",
        "export",
        "--inference",
        "is",
        "--to",
        "clip-retrieval",
        "--out",
        "o",
        "--images",
        files.images,
        "--captions",
        files.captions,
        "--image-ids",
        files.image_ids,
    )
    assert (status, out) == (0, "")
    assert err == "o: 24 items and 60 queries of 9 values\n"
    assert np.load(tmp_path / "o" / "img_emb" / "img_emb_0.npy").shape == (24, 9)
    assert '"beta": 20' in (tmp_path / "o" / "manifest.json").read_text()


def test_a_run_is_exported_to_where_the_command_was_called(call, tmp_path, monkeypatch):
    write_params(tmp_path)
    write_run(*sides({"test": 24}))
    (tmp_path / "deep").mkdir()
    monkeypatch.chdir(tmp_path / "deep")
    status, _, err = call("export", "--run", "sum", "--inference", "csls", "--to", "npy", "--out", "o")
    assert status == 0, err
    assert np.load(tmp_path / "deep" / "o" / "items.npy").shape == (24, 9)
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["o"], "no lock is left"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((), "export what? give --run, or --images and --captions"),
        (("--run", "summ"), "unknown run 'summ'; did you mean 'sum'? known: sum"),
        (("--run", "sum", "--images", "a.parquet", "--captions", "b.parquet"), "--run and --images exclude each other"),
        (
            ("--images", "a.parquet", "--captions", "b.parquet", "--to", "fais"),
            "unknown export target 'fais'; did you mean",
        ),
        (
            ("--images", "a.parquet", "--captions", "b.parquet", "--inference", "rgm"),
            "rgm is more than one number an item",
        ),
    ],
)
def test_wrong_usage_is_status_2_and_one_line(call, tmp_path, given, message):
    write_params(tmp_path)
    write(sample(), tmp_path)
    more = {"--to": "npy", "--inference": "is", "--out": "o"}
    rest = [part for option, value in more.items() if option not in given for part in (option, value)]
    status, out, err = call("export", *given, *rest)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"error: {message}")
    assert not (tmp_path / "o").exists()


@pytest.fixture
def project(made, call, monkeypatch):
    monkeypatch.chdir(made)
    return made


def test_a_run_is_packed_to_where_the_command_was_called(project, call):
    status, out, err = call("pack", "--run", "sum", "--out", "deep/hub", "--licence", "mit", "--json")
    assert status == 0, err
    digests = json.loads(out)["sha256"]
    assert f"deep/hub: run sum, sha256 of config.json {digests['config.json']}" in err
    assert "license: mit" in (project / "deep" / "hub" / "README.md").read_text()


def test_a_typo_gets_the_near_miss(project, call):
    status, _, err = call("pack", "--run", "summ", "--out", "hub")
    assert (status, err) == (2, "error: unknown run 'summ'; did you mean 'sum'? known: sum\n")
