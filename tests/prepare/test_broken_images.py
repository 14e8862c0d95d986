"""Pictures that prepare cannot use: they stop it, or keep their rows for extract to record."""

import hashlib
import json
from pathlib import Path

import pytest

from tests.prepare._data import entry, karpathy, pictures, prepare
from vse_pipe.artifacts import captions, images
from vse_pipe.core.errors import InputError
from vse_pipe.project import paths


@pytest.fixture(autouse=True)
def _own_project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def _skipping(kind: str, source: str, **options) -> Path:
    return prepare(kind, source, on_error="skip", **options)


def test_broken_images_may_be_left_to_extract(capsys):
    karpathy(Path("raw"), [entry(k) for k in range(4)])
    Path("raw/images/1.png").write_bytes(b"<html>")
    Path("raw/images/3.png").unlink()
    out = _skipping("karpathy", "raw")
    table = images.read(out)
    assert table["image_id"].to_pylist() == [0, 1, 2, 3]
    assert table["width"].to_pylist() == [8, 0, 8, 0]
    assert table["height"].to_pylist() == [6, 0, 6, 0]
    assert table["sha256"][1].as_py() == hashlib.sha256(b"<html>").hexdigest()
    assert table["sha256"][3].as_py() == images.UNREAD
    assert captions.read(out).num_rows == 8
    message = capsys.readouterr().err
    assert "2 of 4 images below raw/images cannot be used: dataset_tiny.json images[1]: 1.png is no image" in message
    assert "repeated: 0 images" in message


def test_what_to_do_about_broken_images_is_said():
    karpathy(Path("raw"), [entry(0), entry(1)])
    Path("raw/images/1.png").write_bytes(b"")
    with pytest.raises(InputError, match=r"1 of 2 .* set on_error: skip in datasets.tiny$"):
        prepare("karpathy", "raw")


@pytest.mark.parametrize("on_error", ["fail", "skip"])
@pytest.mark.parametrize(("folder", "named"), [("raw/pics", "pics"), ("elsewhere", "FOLDER")])
def test_pictures_in_another_folder_are_looked_for_there(on_error, folder, named):
    Path("raw").mkdir()
    Path("raw/captions.csv").write_text("image,caption\n0.png,one\n1.png,two\n")
    pictures(Path(folder), ["0.png", "1.png"])
    advice = rf"2 of 2 images .* If they lie in another folder, name it: images: {named} in datasets\.tiny$"
    with pytest.raises(InputError, match=advice):
        prepare("csv", "raw/captions.csv", on_error=on_error)


def test_a_data_set_without_any_image_is_refused_in_any_case():
    karpathy(Path("raw"), [entry(0), entry(1)])
    for number in (0, 1):
        Path(f"raw/images/{number}.png").unlink()
    with pytest.raises(InputError, match=r"2 of 2 images .* images: FOLDER in datasets.tiny"):
        _skipping("karpathy", "raw")
    assert [path.name for path in paths.prepared("tiny").parent.iterdir()] == []


def test_a_path_outside_of_the_root_is_an_error_in_any_case():
    karpathy(Path("raw"), [entry(0)])
    spoilt = {"images": [entry(0) | {"filename": "../../secret.png"}]}
    Path("raw/dataset_tiny.json").write_text(json.dumps(spoilt))
    with pytest.raises(InputError, match="lies outside its root"):
        _skipping("karpathy", "raw")
