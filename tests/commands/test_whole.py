"""Every command in turn on a data set of pictures in shards, one of them broken and left out."""

import io
import shutil
import tarfile
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from starlette.testclient import TestClient

from tests import made
from tests.command_line import caller, failure, json_document, output
from tests.commands.script import succeed
from tests.prepare._data import picture
from tests.toy_project import PARAMS
from vse_pipe.project import paths
from vse_pipe.project.params.load import load
from vse_pipe.search.app import create
from vse_pipe.search.engine import Engine

SPLITS = {"train": 12, "val": 4, "test": 5}
WORDS = ["red", "blue", "green", "dog"]
BROKEN = 3
EXTRACTED = (("extract", "--texts", "words"), ("extract", "--features", "filters"))
COMMANDS = [("prepare",), *EXTRACTED, ("inject",), ("train",), ("embed",), ("evaluate",), ("report",)]
FILTERS = {"filters": 8, "image_size": 32, "size": 5}
SECTIONS = {
    "datasets": {"toy": {"format": "webdataset", "source": "shards", "on_error": "skip"}},
    "features": {"filters": {"dataset": "toy", "backbone": "random_filters", **FILTERS}},
    "noises": {"clean": {"dataset": "toy", "protocol": "image", "rate": 0.0}},
    "runs": {"sum": {**PARAMS["runs"]["sum"], "features": "filters"}},
    "train": {**PARAMS["train"], "epochs": 1},
    "evaluate": {"resamples": 10},
}


def _shards(folder: Path) -> None:
    """Of the test pictures one is no picture."""
    folder.mkdir()
    number = 0
    for split, count in SPLITS.items():
        with tarfile.open(folder / f"{split}.tar", "w") as tar:
            for place in range(count):
                content = b"<html>" if (split, place) == ("test", BROKEN) else picture(number, (40, 40))
                caption = f"a {WORDS[number % 4]} {WORDS[(number // 4) % 4]}"
                for ending, part in (("png", content), ("txt", caption.encode())):
                    info = tarfile.TarInfo(f"{number:03d}.{ending}")
                    info.size = len(part)
                    tar.addfile(info, io.BytesIO(part))
                number += 1


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The project and what each command said."""
    root = tmp_path_factory.mktemp("whole") / "project"
    root.mkdir()
    said = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        _shards(root / "shards")
        with (root / "params.yaml").open("w", encoding="utf-8") as file:
            YAML().dump({**PARAMS, **made.SECTIONS, **SECTIONS}, file)
        made.write_dvc_yaml()
        for command in COMMANDS:
            said[command[0], command[-1]] = succeed(patch, *command)
    return root, said


@pytest.fixture
def call(finished, tmp_path, monkeypatch, capsys):
    root = tmp_path / "project"
    shutil.copytree(finished[0], root)
    monkeypatch.chdir(root)
    return caller(monkeypatch, capsys)


def test_every_command_says_how_many_are_left_out(finished):
    said = {command: err for (command, _), err in finished[1].items()}
    assert "1 of 21 images below shards cannot be used" in said["prepare"]
    assert "20 of 21 images, 1 unreadable" in said["extract"]
    assert "1 images that could not be read are left out, with 1 captions" in said["embed"]
    assert "1 images of split 'test' that could not be read are left out" in said["evaluate"]


def test_search_offers_the_others_and_shows_them(call):
    told = json_document(call, "search", "a red dog", "--json", "--html", "found.html", "--k", 99)
    left = sum(SPLITS.values()) - SPLITS["test"] + BROKEN
    assert left not in {hit["image_id"] for hit in told["hits"]}
    assert len(told["hits"]) == told["searched"] == 4
    assert told["left_out"] == {"images": 1, "captions": 1}
    assert all(hit["file"].startswith("test.tar::") for hit in told["hits"])
    assert Path("found.html").read_text(encoding="utf-8").count("data:image/webp") == 4
    _, err = output(call, "search", f"image:{told['hits'][0]['image_id']}", "--html", "found.html")
    assert "1 images that could not be read are not searched, nor their 1 captions" in err
    assert "The image asked with" in Path("found.html").read_text(encoding="utf-8")
    none = f"error: data/embed/sum: run 'sum' has embedded no image_id {left}\n"
    assert failure(call, 3, "search", f"image:{left}") == none


def test_serve_shows_them_and_answers_as_search_does(call):
    ours = json_document(call, "search", "a red dog", "--run", "sum", "--json")
    engine = Engine.open(load(paths.PARAMS), "sum", "nns", "test", "cpu")
    client = TestClient(create({"nns": engine}), base_url="http://127.0.0.1:8000")
    theirs = client.get("/api/search", params={"text": "a red dog"}).json()
    assert theirs == {**ours, "seconds": theirs["seconds"], "offset": 0, "next": None}
    assert "/picture/" in client.get("/", params={"text": "a red dog"}).text
    assert client.get(f"/picture/{ours['hits'][0]['image_id']}").headers["content-type"] == "image/webp"
