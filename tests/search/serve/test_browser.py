"""The page in a real browser without scripts: a sentence is typed, pictures appear, no request goes elsewhere."""

import time
from urllib.parse import urlsplit

import pytest

from tests.report.browser import Tab, installed
from tests.search.serve.standin import photo, served
from tests.toy_project import write_params

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.skipif(
        installed() is None, reason="no Chromium installed; `apt-get install chromium` runs these tests"
    ),
]


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    project = tmp_path_factory.mktemp("project")
    write_params(project)
    with served(project, "--inference", "nns,csls") as (address, _):
        yield address


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Tab(tmp_path_factory.mktemp("profile")) as running:
        yield running


@pytest.fixture
def tab(browser):
    yield browser
    assert browser.errors == []


def test_a_typed_sentence_shows_pictures_and_asks_nobody_else_and_a_link_searches_with_one(tab, url):
    tab.goto(url)
    tab.act("document.querySelector('input[name=text]').focus()")
    tab.type("a blue square")
    tab.arrive()
    tab.loaded(4)
    asked = "?text=a+blue+square&k=10&inference=nns&to=&where="
    assert tab.evaluate("location.search") == asked
    assert tab.evaluate("document.querySelector('.gallery img').alt") == "a blue square"
    assert tab.evaluate("[...document.images].every(one => one.alt)")
    addresses = [asked for asked in tab.requests if not asked.startswith("about:")]
    assert {urlsplit(asked).netloc for asked in addresses} == {urlsplit(url).netloc}
    assert any("/picture/27" in asked for asked in addresses)
    tab.act("document.querySelector('.more a').click()")
    tab.arrive()
    assert tab.evaluate("location.search") == "?image_id=27&k=10&inference=nns"
    assert tab.text("h2") == "Captions nearest to image 27"


def test_the_policy_is_at_work(tab, url):
    """A request to anywhere else is refused, and seen here: the tests around this one can fail."""
    tab.goto(url)
    tab.evaluate("document.body.append(Object.assign(new Image(), {src: 'http://127.0.0.1:9/x.png'}))")
    deadline = time.monotonic() + 5
    while not tab.errors and time.monotonic() < deadline:
        tab.evaluate("true")  # what the browser has to report comes with the next answer
    assert any("Content Security Policy" in error for error in tab.errors), tab.errors
    tab.errors.clear()
    tab.requests.clear()


def test_a_photo_is_uploaded(tab, url, tmp_path):
    (tmp_path / "photo.jpg").write_bytes(photo())
    tab.goto(url)
    tab.act("document.querySelector('details').open = true")
    node = tab.send("DOM.querySelector", nodeId=tab.send("DOM.getDocument")["root"]["nodeId"], selector="[name=photo]")
    tab.send("DOM.setFileInputFiles", files=[str(tmp_path / "photo.jpg")], nodeId=node["nodeId"])
    tab.evaluate("document.querySelector('details button').click()")
    tab.arrive()
    assert tab.text("h2") == "Captions nearest to the photo"
    tab.loaded(5)


def test_the_keyboard_reaches_the_search_box_and_the_results(tab, url):
    tab.goto(f"{url}?text=red&k=2")
    stops = []
    for _ in range(9):
        tab.press("Tab", 9)
        stops.append(tab.evaluate("document.activeElement.name || document.activeElement.textContent.trim()"))
    assert stops == [
        "Skip to the results", "vse-pipe search", "text", "k", "inference", "Search", "Narrow the results",
        "Search with a photo", "Search with this picture",
    ]  # fmt: skip


@pytest.mark.parametrize(("width", "dark"), [(390, False), (1280, True)])
def test_fits_the_screen_and_follows_the_scheme(tab, url, width, dark):
    tab.goto(f"{url}?text=red", width, 900, dark)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    paper = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(20, 24, 27)" if dark else "rgb(252, 252, 250)")
    columns = tab.evaluate("getComputedStyle(document.querySelector('.gallery')).gridTemplateColumns.split(' ').length")
    assert columns == (2 if width == 390 else 5)


SHOWN = "[...document.querySelectorAll('.gallery .rank')].map(one => one.textContent)"


def test_further_results_come_as_one_scrolls(tab, url):
    tab.goto(f"{url}?text=blue&k=2", height=300, scripts=True)
    tab.until(SHOWN + ".length >= 2")
    tab.evaluate("scrollTo(0, document.body.scrollHeight)")
    tab.until(SHOWN + ".length === 5")
    assert tab.evaluate(SHOWN) == ["1", "2", "3", "4", "5"]
    assert tab.evaluate("document.querySelector('.further')") is None
    assert tab.text("[role=status]") == "5 results are shown"
    assert tab.evaluate("location.search") == "?text=blue&k=2"
    tab.loaded(4)


def test_a_word_chosen_by_keys_is_drawn_alone_on_a_narrow_screen(tab, url):
    tab.goto(f"{url}?text=matched&k=1", width=400)
    shown = "[...document.querySelectorAll('.over')].map(one => getComputedStyle(one).opacity)"
    assert tab.evaluate(shown) == ["1", "1"]
    tab.evaluate("document.querySelector('.words input').focus()")
    tab.press("ArrowRight", 39)
    assert tab.evaluate(shown) == ["1", "0"]
    picture, box = (
        f"(box => [box.x, box.y, box.width, box.height].map(Math.round))(document.querySelector('{name}').getBoundingClientRect())"
        for name in (".gallery .picture", ".over")
    )
    assert tab.evaluate(picture) == tab.evaluate(box)
    assert tab.evaluate("document.documentElement.scrollWidth") <= 400
