"""The page in a real browser: it must draw its charts, sort its tables and ask the network for nothing."""

import pytest

from tests.report.browser import Browser, installed

pytestmark = pytest.mark.skipif(
    installed() is None, reason="no Chromium installed; `apt-get install chromium` runs these tests"
)
DRAWN = "new Promise(done => { const wait = () => document.querySelectorAll('.plot svg').length >= 18 ? done(true) : setTimeout(wait, 50); wait(); })"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("profile")) as running:
        yield running


@pytest.fixture(scope="module")
def opened(browser, finished):
    browser.open(finished / "reports/index.html", 1280, 900)
    assert browser.evaluate(DRAWN)
    return browser


def test_no_error_and_no_request(opened, finished):
    assert opened.errors == []
    assert {url for url in opened.requests if not url.startswith(("data:", "about:"))} == {
        (finished / "reports/index.html").as_uri()
    }


def test_a_refused_request_would_be_seen(tmp_path, browser):
    planted = tmp_path / "planted.html"
    planted.write_text("<!doctype html><img src='http://127.0.0.1:9/x.png'>")
    before = len(browser.errors), len(browser.requests)
    browser.open(planted, 400, 400)
    assert len(browser.errors) > before[0]
    assert len(browser.requests) > before[1] + 1
    del browser.errors[before[0] :], browser.requests[before[1] :]


SCRIPT = """(() => {
  const table = document.querySelector('table.sortable');
  const heading = [...table.tHead.rows[1].cells].find(cell => cell.textContent.trim() === 'rsum');
  const read = () => [...table.tBodies[0].rows].map(row => row.cells[heading.cellIndex].dataset.value);
  const states = [];
  for (let click = 0; click < 2; click++) {
    heading.querySelector('button').click();
    states.push([heading.getAttribute('aria-sort'), read()]);
  }
  return states;
})()"""


def test_sorting(opened, finished):
    opened.open(finished / "reports/index.html", 1280, 900)
    (first, falling), (second, rising) = opened.evaluate(SCRIPT)
    assert (first, second) == ("descending", "ascending")
    assert [float(value) for value in falling] == sorted(map(float, falling), reverse=True)
    assert [float(value) for value in rising] == sorted(map(float, falling))
    assert len(set(falling)) > 10


def test_rows_without_a_value_stay_last(opened, finished):
    opened.open(finished / "reports/index.html", 1280, 900)
    script = SCRIPT.replace("cell.textContent.trim() === 'rsum'", "cell.textContent.endsWith('Med r')")
    for order, values in opened.evaluate(script):
        empty = [value == "" for value in values]
        assert any(empty)
        assert empty == sorted(empty), order


@pytest.mark.parametrize(("width", "dark"), [(390, False), (1280, True)])
def test_fits_the_screen_and_follows_the_scheme(opened, finished, width, dark):
    opened.open(finished / "reports/index.html", width, 900, dark)
    assert opened.evaluate(DRAWN)
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    paper = opened.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(20, 24, 27)" if dark else "rgb(252, 252, 250)")
    label = opened.evaluate("document.querySelector('.plot svg text').getAttribute('fill')")
    assert label == ("#9ba6ae" if dark else "#5c6670")


def test_a_closed_run_draws_its_charts_when_opened(opened, finished):
    opened.open(finished / "reports/index.html", 1280, 900)
    assert opened.evaluate(DRAWN)
    count = "document.querySelectorAll('details.run:not([data-seen]) .plot svg').length"
    before = opened.evaluate(count)
    opened.evaluate("document.querySelector('details.run:not([open])').open = true")
    drawn = f"new Promise(done => {{ const wait = () => {count} >= {before + 14} ? done(true) : setTimeout(wait, 50); wait(); }})"
    assert opened.evaluate(drawn)
    assert opened.errors == []
