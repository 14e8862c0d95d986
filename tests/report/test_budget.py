"""The page stays below 10 MB however many pictures it shows, and links those that do not fit."""

import re

import numpy as np
import pytest
from PIL import Image

from tests.report import project as artefacts
from vse_pipe.artifacts import images
from vse_pipe.project import paths
from vse_pipe.report import page as pages
from vse_pipe.report.stage import report

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
