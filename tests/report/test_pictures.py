"""Thumbnails, and the page that stays below its limit however many pictures it shows."""

import io
import re

import numpy as np
import pytest
from PIL import Image

from tests.report import project as artefacts
from vse_pipe.artifacts import images
from vse_pipe.project import paths
from vse_pipe.report import page as pages
from vse_pipe.report.pictures import data_uri, fit, thumbnail
from vse_pipe.report.stage import report


def encoded(size, mode="RGB", kind="PNG", **options):
    out = io.BytesIO()
    Image.new(mode, size, 1).save(out, kind, **options)
    return out.getvalue()


def opened(webp):
    return Image.open(io.BytesIO(webp))


@pytest.mark.parametrize(
    ("size", "side", "expected"), [((400, 200), 100, (100, 50)), ((200, 400), 64, (32, 64)), ((30, 20), 100, (30, 20))]
)
def test_keeps_proportions_and_never_enlarges(size, side, expected):
    small = opened(thumbnail(encoded(size), side))
    assert (small.size, small.format) == (expected, "WEBP")


@pytest.mark.parametrize(
    ("mode", "kind"), [("CMYK", "JPEG"), ("P", "PNG"), ("L", "PNG"), ("RGBA", "PNG"), ("I;16", "PNG")]
)
def test_every_colour_mode(mode, kind):
    assert opened(thumbnail(encoded((40, 40), mode, kind), 32)).mode == "RGB"


def test_a_thumbnail_is_upright_and_has_an_address():
    exif = Image.Exif()
    exif[0x0112] = 6
    assert opened(thumbnail(encoded((80, 40), kind="JPEG", exif=exif), 40)).size == (20, 40)
    assert data_uri(b"\0\1") == "data:image/webp;base64,AAE="


@pytest.mark.parametrize("content", [b"", b"<html>not found</html>", encoded((50, 50))[:60]])
def test_no_picture(content):
    assert thumbnail(content, 32) is None


@pytest.mark.parametrize(("budget", "expected"), [(10**6, 200), (4 * 200 * 3, None)])
def test_side_shrinks_until_all_fit(budget, expected):
    asked = []

    def make(side):
        asked.append(side)
        return {"a": bytes(9 * side), "b": bytes(9 * side)}

    made, side = fit(make, 200, budget)
    assert asked == sorted(asked, reverse=True)
    assert len(made["a"]) == 9 * side
    assert set(made) == {"a", "b"}
    if expected:
        assert side == expected
    else:
        assert 64 <= side < 200
        assert sum(len(one) for one in made.values()) * 4 / 3 <= budget


@pytest.mark.parametrize(("budget", "kept"), [(2 * 4 * 64, ["a", "b"]), (4 * 64, ["a"]), (4 * 64 - 1, []), (0, [])])
def test_below_64_pixels_the_last_are_left_out(budget, kept):
    made, side = fit(lambda side: {name: bytes(3 * side) for name in "abc"}, 200, budget)
    assert (list(made), side) == (kept, 64)


def test_no_program_is_started_and_whatever_a_decoder_raises_is_no_picture(monkeypatch):
    """Pillow draws EPS with Ghostscript; what a data set holds must not decide that."""
    started = []
    monkeypatch.setattr("subprocess.check_call", lambda *given, **_: started.append(given))
    eps = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n%%EOF\n"
    assert Image.open(io.BytesIO(eps)).format == "EPS"  # it would
    assert thumbnail(eps, 32) is None
    assert not started

    def broken(image):
        raise IndexError("index out of range")

    monkeypatch.setattr("PIL.PngImagePlugin.PngImageFile.load", broken)
    assert thumbnail(encoded((40, 40)), 32) is None


MANY = {"runs": ["hal"], "inferences": ["nns", "csls"], "examples": 60}


@pytest.fixture
def noisy(project):
    """Pictures that no compression makes small."""
    rng = np.random.default_rng(0)
    for path in (project / "pictures").iterdir():
        Image.fromarray(rng.integers(0, 256, (200, 200, 3), np.uint8)).save(path)
    return project


def embedded(text: str) -> list[str]:
    return re.findall(r"data:image/webp;base64,[A-Za-z0-9+/=]+", text)


def test_large_thumbnails_shrink_until_the_page_is_below_its_limit(noisy, monkeypatch):
    assert pages.LIMIT < 10_000_000
    monkeypatch.setattr(pages, "LIMIT", 3_000_000)
    text = report(artefacts.params(**MANY, thumbnail=200)).read_text(encoding="utf-8")
    assert 2_000_000 < len(text.encode()) < 3_050_000
    assert len(embedded(text)) > 50
    width = int(re.search(r"Pictures are at most (\d+) px wide", text).group(1))
    assert 64 <= width < 200


def test_pictures_that_do_not_fit_are_linked(noisy, monkeypatch):
    monkeypatch.setattr(pages, "LIMIT", 0)
    bare = report(artefacts.params(**MANY)).read_text(encoding="utf-8")
    assert embedded(bare) == []
    assert "<symbol" not in bare
    room = len(bare.encode()) + 150_000
    monkeypatch.setattr(pages, "LIMIT", room)
    text = report(artefacts.params(**MANY)).read_text(encoding="utf-8")
    assert len(text.encode()) < room + 10_000
    shown, linked = embedded(text), set(re.findall(r'<a class="picture blank" href="([^"]*)">Picture', text))
    assert shown
    assert len(shown) + len(linked) <= artefacts.IMAGES
    assert len(linked) > 5
    assert all((noisy / "reports" / link).resolve().is_file() for link in linked)
    assert f"{len(linked)} pictures did not fit into the page and are linked" in text
    symbols = set(re.findall(r'<symbol id="([^"]*)"', text))
    assert set(re.findall(r'<use href="#([^"]*)"/>', text)) == symbols
    ids = re.findall(r'id="(chart-\d+)"', text)
    assert len(ids) == len(set(ids)) > 0


def test_the_link_of_a_picture_outside_the_project(noisy, monkeypatch):
    """Its address is absolute, and characters that mean something in an address are escaped."""
    monkeypatch.setattr(pages, "LIMIT", 0)
    folder = noisy / "pictures"
    table = images.read(paths.prepared("shapes"))
    files = table["file"].to_pylist()
    (folder / files[0]).rename(folder / "a #1 & b.png")
    files[0] = "a #1 & b.png"
    images.write(paths.prepared("shapes"), table.set_column(1, table.schema.field("file"), [files]), str(folder))
    text = report(artefacts.params(**MANY)).read_text(encoding="utf-8")
    links = set(re.findall(r'<a class="picture blank" href="([^"]*)">', text))
    assert f"{folder.as_uri()}/a%20%231%20%26%20b.png" in links
    assert all(link.startswith("file:///") for link in links)
