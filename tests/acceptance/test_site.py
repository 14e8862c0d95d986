"""The site of the documentation: it builds without a warning, is complete, loads nothing from elsewhere, and its notebooks run."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from tests.docs import notebooks, site
from tests.docs.site import PAGES, SITE
from tests.rules.sources import ROOT
from vse_pipe.project.registry import INFERENCES, LOSSES

pytestmark = pytest.mark.acceptance

# What a browser loads with a page; links that a reader follows may lead anywhere.
_LOADED = re.compile(r"<(?:script|img|iframe|source|link)\b[^>]*?\b(?:src|href)=[\"']?((?:https?:)?//[^\"'\s>]+)")
_NUMBER = re.compile(r"-?\d+(?:[.,]\d+)*")


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    """The HTML of every page by its path."""
    site.write()
    assert site.build() == 0
    return {path.relative_to(SITE).as_posix(): path.read_text() for path in SITE.rglob("*.html")}


def test_it_loads_nothing_from_another_host(pages):
    assert _LOADED.findall('<script defer src="https://a/b.js">') == ["https://a/b.js"]
    assert {name: _LOADED.findall(text) for name, text in pages.items() if _LOADED.search(text)} == {}
    assert not any("class=mermaid" in text or 'class="mermaid"' in text for text in pages.values())
    styles = "".join(path.read_text() for path in SITE.rglob("*.css"))
    assert re.findall(r"(?:url\(|@import\s*)[\"']?(?:https?:)?//[^)\"']*", styles) == []


def test_the_first_page_is_the_readme_and_every_page_is_in_the_navigation(pages):
    first = (ROOT / "README.md").read_text().split("\n\n")[1].split("(")[0]
    assert " ".join(first.split()) in " ".join(re.sub(r"<[^>]*>", "", pages["index.html"]).split())
    nav = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]
    listed = set(re.findall(r"[\w./-]+\.md", json.dumps(nav)))
    assert listed == {path.relative_to(PAGES).as_posix() for path in PAGES.rglob("*.md")}


def test_the_reference_has_every_member_with_its_text(pages):
    for title, family in (("criteria", INFERENCES), ("losses", LOSSES)):
        names = re.findall(rf'id="vse_pipe\.api\.{title}\.(\w+)"', pages[f"api/{title}/index.html"])
        members = {name.replace("_", "") for name in family.names()}
        assert members <= {name.lower().replace("_", "") for name in names}
    assert "hubness-aware loss" in pages["api/losses/index.html"]
    assert "mean similarity of both neighbourhoods" in pages["api/criteria/index.html"]
    assert "&gt;&gt;&gt; " in pages["api/ranking/index.html"]


@pytest.mark.parametrize("path", notebooks.NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_gives_the_outputs_that_it_shows(path: Path):
    shown = json.loads(path.read_text())["cells"]
    for before, now in zip(shown, notebooks.run(path).cells, strict=True):
        for stored, output in zip(before.get("outputs", []), now.get("outputs", []), strict=True):
            assert stored["output_type"] == output["output_type"] == "execute_result"
            assert stored["data"].keys() == output["data"].keys()
            texts = "".join(stored["data"]["text/plain"]), output["data"]["text/plain"]
            words, others = (_NUMBER.sub("N", text).split() for text in texts)
            assert words == others
            numbers, found = ([float(text.replace(",", "")) for text in _NUMBER.findall(text)] for text in texts)
            assert found == pytest.approx(numbers, rel=0.1, abs=5), "another processor rounds otherwise, not more"
