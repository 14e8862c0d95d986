"""Every image is opened and decoded; what cannot be used is counted and named."""

from pathlib import Path

import pytest
from PIL import Image

from tests.pictures.corpus import saved
from tests.prepare._data import pictures
from vse_pipe.core.errors import InputError
from vse_pipe.prepare.assembly import Assembly
from vse_pipe.prepare.source import Source


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_sizes_are_those_of_the_upright_picture(tmp_path, kind):
    exif = Image.Exif()
    exif[0x0112] = 6
    (tmp_path / "a").write_bytes(saved(Image.new("RGB", (45, 31)), kind, exif=exif))
    assert sizes(scanned(tmp_path, "a")) == [(31, 45)]


def scanned(root: Path, *files: str) -> Source:
    assembly = Assembly(root, root / "out")
    for number, file in enumerate(files):
        assembly.image(file, "train", f"row {number}")
    return assembly.source()


def sizes(source: Source) -> list[tuple[int, int]]:
    return list(zip(source.images["width"].to_pylist(), source.images["height"].to_pylist(), strict=True))


def test_names_that_leave_the_root_are_not_opened(tmp_path, monkeypatch):
    root = tmp_path / "images"
    pictures(root, ["good.png"])
    pictures(tmp_path, ["secret.png"])
    opened, absolute = [], [str(tmp_path / "secret.png"), str(root / "good.png")]
    monkeypatch.setattr(Path, "read_bytes", lambda path: opened.append(path))
    for name in ["../secret.png", "a/../good.png", "x/../../secret.png", *absolute]:
        with pytest.raises(InputError, match=r"^row 1: file .* (lies outside its root|is absolute)"):
            scanned(root, "good.png", name)
    for name in ["", "."]:
        with pytest.raises(InputError, match=r"^row 1: '.?' names no picture"):
            scanned(root, "good.png", name)
    assert opened == []
