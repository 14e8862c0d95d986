"""The page in a real browser, with the keyboard alone."""

from pathlib import Path

import pytest

from tests.audit.review.project import HOSTILE, opened, post, rows_of, started, write_project
from tests.report.browser import Tab, installed

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.skipif(
        installed() is None, reason="no Chromium installed; `apt-get install chromium` runs these tests"
    ),
]
KEYS = {"ArrowLeft": 37, "ArrowRight": 39, "Tab": 9, "Escape": 27}
WHY = "document.getElementById('why').textContent"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Tab(tmp_path_factory.mktemp("profile")) as running:
        yield running


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    write_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def tab(browser):
    yield browser
    # The browser itself reports pictures that are gone, and requests to a server that has ended.
    assert [error for error in browser.errors if "Failed to load resource" not in error] == []
    browser.errors.clear()


@pytest.fixture
def url(project):
    with started(project, "--by", "anna") as (address, _):
        yield address


def press(tab: Tab, key: str, shown: str | None = None) -> None:
    """shown: the finding that the page must show then, as ``pair 0``."""
    tab.press(key, KEYS.get(key) or ord(key.upper()))
    if shown is not None:
        tab.until(f"{WHY}.startsWith('{shown} ')")


def open_page(tab: Tab, url: str, shown: str, query: str = "", **screen) -> None:
    tab.goto(f"{url}{query}", scripts=True, **screen)
    tab.until(f"{WHY}.startsWith('{shown} ')")


def test_the_keyboard_decides_goes_on_and_undoes(tab, url, project):
    open_page(tab, url, "duplicate 27")
    press(tab, "k", "duplicate 47")
    press(tab, "t", "leak 57")
    press(tab, "ArrowRight", "pair 0")
    press(tab, "t", "caption 3")
    press(tab, "t", "picture 37")  # the proposal is to drop
    press(tab, "t")  # there is none
    press(tab, "ArrowLeft", "leak 57")
    assert tab.text("#count") == "4 of 9 decided"
    # Nothing is decided on the finding that is shown, so the last decision is taken back.
    press(tab, "u", "caption 3")
    tab.until("document.getElementById('count').textContent === '3 of 9 decided'")
    press(tab, "w")
    press(tab, "k", "picture 37")
    decided = [("duplicate/27", "keep"), ("duplicate/47", "take"), ("pair/0", "take"), ("caption/3", "drop")]
    decided += [("caption/3", "undo"), ("caption/3", "keep")]
    assert rows_of(project / "decisions.csv") == [(*row, "anna") for row in decided]
    assert "caption 3 kept" in tab.text("[role=status]")


def test_tab_reaches_all_that_is_needed_in_the_order_of_the_page(tab, url):
    open_page(tab, url, "duplicate 27")
    tab.evaluate("document.body.focus()")
    stops = []
    for _ in range(25):
        tab.press("Tab", 9)
        stops.append(
            tab.evaluate(
                "(one => one.getAttribute('aria-label') ?? (one.id || one.textContent.trim()))(document.activeElement)"
            )
        )
    order = ["Skip to the finding", "state", "Filter", "text", "Previous", "Keep k", "Drop d"]
    order += ["Merge it into the one on the right", "Undo u", "Next", "whole"]
    places = [stops.index(name) for name in order]
    assert places == sorted(places)
    unnamed = "[...document.querySelectorAll('button, input, select, img')].filter(one => !(one.textContent.trim() || one.labels?.length || one.ariaLabel || one.hasAttribute('alt')))"
    assert tab.evaluate(f"{unnamed}.length") == 0


def test_keys_in_the_filter_are_words_and_words_choose_findings(tab, url, project):
    open_page(tab, url, "duplicate 27")
    press(tab, "/")
    tab.until("document.activeElement.id === 'text'")
    tab.type("kd rank", enter=False)
    tab.until("document.getElementById('question').textContent === 'No finding fits the filter'")
    tab.evaluate("document.getElementById('text').select()")
    tab.type("rank", enter=False)
    tab.until(f"{WHY}.startsWith('pair 1 ')")
    assert tab.evaluate("document.activeElement.id") == "text"
    assert not (project / "decisions.csv").exists()
    # A reloaded page shows the same.
    tab.goto(tab.evaluate("location.href"), scripts=True)
    tab.until(f"{WHY}.startsWith('pair 1 ')")
    assert tab.evaluate("document.getElementById('text').value") == "rank"


def choose(tab: Tab, state: str, shown: str) -> None:
    """In the list at the top of the page. shown: the finding that the page must show then."""
    tab.evaluate(f"document.getElementById('state').value = '{state}'")
    tab.evaluate("document.getElementById('state').dispatchEvent(new Event('change'))")
    tab.until(f"location.search.includes('state={state}')")
    tab.until(f"{WHY}.startsWith('{shown} ')")


@pytest.mark.parametrize("width", [400, 1400])
def test_what_nobody_has_decided_comes_first_and_the_choice_goes_with_kinds_words_and_arrows(tab, project, width):
    opened(project / "decisions.csv").decide(0.9)  # duplicate 27, leak 57, pair 0 and caption 3
    with started(project, "--by", "ben") as (other, _):
        post(other, "duplicate/47", "keep")
    with started(project, "--by", "anna") as (url, _):
        open_page(tab, url, "picture 37", width=width, height=800)
        assert tab.text("#count") == "5 of 9 decided"
        assert tab.evaluate("document.getElementById('state').getBoundingClientRect().height") > 20
        press(tab, "ArrowRight", "duplicate caption 4")
        choose(tab, "decided", "duplicate 27")
        assert tab.text("#others") == "auto 0.9: proposal taken"
        press(tab, "ArrowRight", "duplicate 47")
        assert tab.evaluate("document.getElementById('others').hidden")  # ben's decision, before the own one
        choose(tab, "all", "duplicate 27")
        choose(tab, "open", "duplicate 47")
        tab.evaluate("document.querySelector('[data-kind=pair]').click()")
        tab.until(f"{WHY}.startsWith('pair 1 ')")
        press(tab, "/")
        tab.type("100", enter=False)
        tab.until(f"{WHY}.startsWith('pair 2 ')")
        choose(tab, "undecided", "pair 2")
        press(tab, "d")
        tab.until("document.getElementById('question').textContent === 'All of these are decided'")


def test_texts_are_text_and_pictures_that_are_gone_are_tiles(tab, url):
    open_page(tab, url, "pair 1", "?at=pair/1")
    assert tab.text(".side .caption") == " ".join(HOSTILE.split())
    assert tab.evaluate("document.scripts.length") == 1
    open_page(tab, url, "leak 57", "?at=leak/57")
    tab.until("document.querySelector('.side .blank') !== null")
    assert tab.text(".side .blank") == "gone.png: no picture"
    tab.until("document.images.length === 1 && document.images[0].naturalWidth === 480")


def test_a_group_is_shown_together_and_decided_at_once(tab, url, project):
    open_page(tab, url, "duplicate 27")
    assert tab.evaluate("document.querySelectorAll('.group li').length") == 2
    press(tab, "g")
    press(tab, "t", "leak 57")
    assert [name for name, *_ in rows_of(project / "decisions.csv")] == ["duplicate/27", "duplicate/47"]
    assert tab.evaluate("document.querySelector('.whole').hidden")


def test_a_contradiction_stays_on_the_page_and_a_server_that_is_gone_is_said(tab, project):
    with started(project, "--by", "ben") as (other, _):
        post(other, "pair/0", "take")
        post(other, "leak/57", "take")
    with started(project, "--by", "anna") as (url, process):
        open_page(tab, url, "pair 0", "?kind=pair&state=open")
        assert tab.evaluate("document.getElementById('others').hidden")
        press(tab, "k")
        tab.until("!document.getElementById('others').hidden")
        assert (tab.text("#others"), tab.text(".verdict")) == ("ben: proposal taken", "kept")
        press(tab, "ArrowRight", "pair 1")
        process.kill()
        process.wait()
        press(tab, "k")
        tab.until("!document.getElementById('problem').hidden")
        assert "The server does not answer" in tab.text("#problem")
        assert tab.evaluate(WHY).startswith("pair 1 ")
    assert [row for row in rows_of(project / "decisions.csv") if row[2] == "anna"] == [("pair/0", "keep", "anna")]
    tab.errors.clear()


@pytest.mark.parametrize(("width", "height", "dark"), [(400, 800, True), (1400, 900, False)])
def test_a_finding_fits_the_screen(tab, url, width, height, dark):
    for name in ("pair 0", "pair 2", "picture 37", "duplicate 27"):
        open_page(tab, url, name, f"?at={name.replace(' ', '/')}", width=width, height=height, dark=dark)
        tab.until("[...document.images].every(one => one.complete)")
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        assert tab.evaluate("document.documentElement.scrollHeight") <= height, name
    paper = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(20, 24, 27)" if dark else "rgb(252, 252, 250)")
