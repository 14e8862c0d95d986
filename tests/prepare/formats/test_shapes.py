"""The rendered data set through the stage: where its images lie once the folder has its final name."""

import hashlib

import pytest

from tests.prepare._data import prepare
from vse_pipe.artifacts import captions, images, regions
from vse_pipe.project import paths

FEW = {"train": 6, "val": 2, "test": 3, "pixels": 32, "min_captions": 1, "max_captions": 3}


@pytest.fixture(autouse=True)
def _own_project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_root_names_the_folder_the_images_end_in():
    table = images.read(prepare("shapes", "pipeline/vse_pipe/prepare/scenes", **FEW))
    assert images.root(table) == paths.prepared("tiny") / "images"
    assert table.num_rows == 11
    for row in table.to_pylist():
        content = (images.root(table) / row["file"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == row["sha256"]


def test_phrases_are_written_where_asked_for_and_counted(capsys):
    plain = prepare("shapes", "pipeline/vse_pipe/prepare/scenes", **FEW)
    assert "phrases" not in capsys.readouterr().err
    texts = captions.read(plain)
    assert not (plain / regions.PHRASES).exists()
    out = prepare("shapes", "pipeline/vse_pipe/prepare/scenes", phrases=True, **FEW)
    assert captions.read(out) == texts
    found = regions.read_phrases(out)["split"].to_pylist()
    assert "/ {} phrases, val 2 images".format(found.count("train")) in capsys.readouterr().err
    prepare("shapes", "pipeline/vse_pipe/prepare/scenes", **FEW)
    assert not (plain / regions.PHRASES).exists()


def test_same_seed_same_bytes():
    def content(seed: int) -> dict[str, bytes]:
        out = prepare("shapes", "pipeline/vse_pipe/prepare/scenes", seed=seed, **FEW)
        return {
            str(p.relative_to(out)): p.read_bytes() for p in out.rglob("*") if p.is_file() and p.name != "timing.json"
        }

    first = content(1)
    assert content(1) == first
    assert content(2) != first
