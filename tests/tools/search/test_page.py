"""The page of an answer, in a real browser where there is one."""

import re

import pytest

from tests.report.browser import Browser, installed
from tests.tools.search.project import HOSTILE, SPLITS
from vse_pipe.core.errors import UsageError
from vse_pipe.tools.search import page
from vse_pipe.tools.search.answer import document
from vse_pipe.tools.search.query import TO_CAPTIONS, TO_IMAGES

TEST = SPLITS.count("test")


@pytest.fixture
def written(opened, tmp_path):
    """A function of a sentence to the page's path, with one picture gone."""

    def write(text="a red disc"):
        engine = opened("sum", "csls")
        answer = engine.by_text(text, TEST)
        gone = engine.picture(answer.hits[1].image_id)
        gone.unlink(missing_ok=True)
        page.write(tmp_path / "out.html", document(engine, answer, TO_IMAGES, "as asked"), engine.picture)
        return tmp_path / "out.html"

    return write


def test_captions_and_query_are_text_and_nothing_else(written):
    html = written('a red disc <script>alert("q")</script>').read_text(encoding="utf-8")
    assert "<script" not in html
    assert "&lt;script&gt;alert(&#34;1&#34;)&lt;/script&gt;" in html
    assert "&lt;script&gt;alert(&#34;q&#34;)&lt;/script&gt;" in html
    assert "<img src=x" not in html


def test_every_picture_has_a_text_and_a_missing_one_says_so(written):
    html = written().read_text(encoding="utf-8")
    pictures = re.findall(r"<img [^>]*>", html)
    assert len(pictures) == TEST - 1
    assert all(re.search(r'alt="Picture \d+: .+"', picture) for picture in pictures)
    assert html.count('role="img"') == 1


def test_the_image_asked_with_is_shown(opened, tmp_path):
    engine = opened()
    content = engine.picture(5).read_bytes()
    told = document(engine, engine.by_image(content, 3, "photo.png"), TO_CAPTIONS, "as asked")
    html = page.render(told, engine.picture, content)
    assert 'alt="The image asked with: photo.png"' in html
    assert html.count("<li>\n    <figure>") == 3


def test_a_picture_that_cannot_be_read_is_left_out(opened, project):
    engine = opened()
    told = document(engine, engine.by_text("a red disc", 1), TO_IMAGES, "as asked")
    engine.picture(told["hits"][0]["image_id"]).write_bytes(b"no picture")
    assert "no picture</div>" in page.render(told, engine.picture)


@pytest.mark.skipif(installed() is None, reason="no Chromium installed; `apt-get install chromium` runs these tests")
def test_the_page_in_a_browser_asks_for_nothing_and_fits_a_phone(written, tmp_path):
    out = written(HOSTILE + " \u05e9\u05dc\u05d5\u05dd a red disc")
    with Browser(tmp_path / "profile") as browser:
        paper = {}
        for width, dark in ((390, False), (1400, True)):
            browser.open(out, width, 900, dark)
            assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth")
            paper[dark] = browser.evaluate("getComputedStyle(document.body).backgroundColor")
            columns = browser.evaluate(
                "new Set([...document.querySelectorAll('.hits li')].map(one => one.offsetLeft)).size"
            )
            assert (columns == 1) == (width == 390)
        assert paper[False] != paper[True], "the style is allowed by its digest and follows the reader's scheme"
        drawn = browser.evaluate("[...document.images].filter(one => one.naturalWidth > 0).length")
        assert drawn == TEST - 1
        assert browser.errors == []
        asked = {url for url in browser.requests if not url.startswith(("data:", "about:"))}
        assert asked == {out.as_uri()}


@pytest.mark.parametrize("make", [lambda path: path.write_text("seed: 1\n"), lambda path: path.mkdir()])
def test_what_is_no_page_is_not_replaced(tmp_path, make):
    make(tmp_path / "params.yaml")
    with pytest.raises(UsageError, match="exists and is no page of `vse-pipe search`; choose another name"):
        page.check_free(tmp_path / "params.yaml")


def test_a_page_is_replaced(written, tmp_path):
    page.check_free(tmp_path / "out.html")
    page.check_free(written())
