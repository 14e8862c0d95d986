"""The page of an answer, in a real browser."""

import re

import pytest

from tests.report.browser import Browser, installed
from tests.search.project import HOSTILE, SPLITS
from vse_pipe.core.errors import UsageError
from vse_pipe.search.query import PHOTO, TO_CAPTIONS, TO_IMAGES, Limits, Term
from vse_pipe.search.show import answer_document, check_free, page, write_page

TEST = SPLITS.count("test")


@pytest.fixture
def written(opened, tmp_path):
    """A function of a sentence to the page's path, with one picture gone."""

    def write(text="a red disc"):
        engine = opened("sum", "csls")
        answer = engine.by_text(text, TEST)
        engine.picture(answer.hits[1].image_id).unlink(missing_ok=True)
        write_page(tmp_path / "out.html", answer_document(engine, answer, TO_IMAGES, "as asked"), engine.content)
        return tmp_path / "out.html"

    return write


def test_pictures_have_a_text_and_captions_and_query_are_text(written):
    html = written().read_text(encoding="utf-8")
    pictures = re.findall(r"<img [^>]*>", html)
    assert (len(pictures), html.count('role="img"')) == (TEST - 1, 1)
    assert all(re.search(r'alt="Picture \d+: .+"', picture) for picture in pictures)
    html = written('a red disc <script>alert("q")</script>').read_text(encoding="utf-8")
    assert "<script" not in html
    for number in ("1", "q"):
        assert f"&lt;script&gt;alert(&#34;{number}&#34;)&lt;/script&gt;" in html
    assert "<img src=x" not in html


def test_the_image_asked_with_is_shown_and_what_cannot_be_read_is_left_out(opened):
    engine = opened()
    content = engine.picture(5).read_bytes()
    told = answer_document(
        engine, engine.ask((Term(PHOTO, "photo.png", content=content),), Limits(3)), TO_CAPTIONS, "as asked"
    )
    html = page(told, engine.content, content)
    assert ('alt="The image asked with: photo.png"' in html, html.count("<li>\n    <figure>")) == (True, 3)
    told = answer_document(engine, engine.by_text("a red disc", 1), TO_IMAGES, "as asked")
    assert "no picture</div>" in page(told, lambda number: b"no picture")


@pytest.mark.skipif(installed() is None, reason="no Chromium installed; `apt-get install chromium` runs these tests")
def test_the_page_in_a_browser_asks_for_nothing_and_fits_a_phone(written, tmp_path):
    out = written(HOSTILE + " \u05e9\u05dc\u05d5\u05dd a red disc")
    with Browser(tmp_path / "profile") as browser:
        paper = {}
        for width, dark in ((390, False), (1400, True)):
            browser.open(out, width, 900, dark)
            assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth")
            paper[dark] = browser.evaluate("getComputedStyle(document.body).backgroundColor")
            columns = "new Set([...document.querySelectorAll('.hits li')].map(one => one.offsetLeft)).size"
            assert (browser.evaluate(columns) == 1) == (width == 390)
        assert paper[False] != paper[True], "the style is allowed by its digest and follows the reader's scheme"
        assert browser.evaluate("[...document.images].filter(one => one.naturalWidth > 0).length") == TEST - 1
        assert browser.errors == []
        assert {url for url in browser.requests if not url.startswith(("data:", "about:"))} == {out.as_uri()}


@pytest.mark.parametrize("make", [lambda path: path.write_text("seed: 1\n"), lambda path: path.mkdir()])
def test_what_is_no_page_is_not_replaced(written, tmp_path, make):
    make(tmp_path / "params.yaml")
    with pytest.raises(UsageError, match="exists and is not a page of `vse-pipe search`; choose another name"):
        check_free(tmp_path / "params.yaml")
    check_free(tmp_path / "out.html")
    check_free(written())
