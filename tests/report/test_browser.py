"""The page in a real browser: it must draw its charts, sort its tables and ask the network for nothing."""

import contextlib
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.report import project as base
from tests.report.browser import Browser, installed
from tests.report.project import write_audit
from tests.report.test_audits import write_cleaning, write_localisation
from tests.report.test_sections import SIDE
from vse_pipe.artifacts import evaluation, identity
from vse_pipe.core.files import read_json, write_json
from vse_pipe.project import paths
from vse_pipe.report.page import SECTIONS
from vse_pipe.report.stage import report

without = pytest.mark.skipif(installed() is None, reason="no Chromium: `apt-get install chromium` runs these tests")
pytestmark = [pytest.mark.acceptance, without]


def until(condition: str) -> str:
    """A promise of true that gives up, since a test must end."""
    return f"""new Promise((done, fail) => {{
      const start = Date.now();
      const wait = () => {condition} ? done(true) : Date.now() - start > 30000 ? fail("never: " + {condition!r}) : setTimeout(wait, 50);
      wait(); }})"""


DRAWN = until("document.querySelectorAll('.plot svg').length >= 18")


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
    asked = {url for url in opened.requests if not url.startswith(("data:", "about:"))}
    assert asked == {(finished / "reports/index.html").as_uri()}


SCRIPT = """(() => {
  const table = document.querySelector('table.sortable');
  const heading = [...table.tHead.rows[1].cells].find(cell => cell.textContent.endsWith('rsum'));
  const read = () => [...table.tBodies[0].rows].map(row => row.cells[heading.cellIndex].dataset.value);
  const states = [];
  for (const click of [1, 2]) { heading.querySelector('button').click(); states.push([heading.getAttribute('aria-sort'), read()]); }
  return states;
})()"""


def test_sorting_leaves_rows_without_a_value_last(opened, finished):
    opened.open(finished / "reports/index.html", 1280, 900)
    (first, falling), (second, rising) = opened.evaluate(SCRIPT)
    assert (first, second) == ("descending", "ascending")
    assert [float(value) for value in falling] == sorted(map(float, falling), reverse=True)
    assert [float(value) for value in rising] == sorted(map(float, falling))
    assert len(set(falling)) > 10
    opened.open(finished / "reports/index.html", 1280, 900)
    script = SCRIPT.replace("'rsum'", "'Med r'")
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


def test_every_wide_table_can_be_scrolled_by_keyboard_and_none_is_wider_than_a_page_of_1400(opened, finished):
    opened.open(finished / "reports/index.html", 1400, 900)
    opened.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    wider = """[...document.querySelectorAll('.scroll')].filter(one => one.scrollWidth > one.clientWidth)
      .map(one => one.getAttribute('aria-label'))"""
    assert opened.evaluate(wider) == []
    # Everything that overflows its place is a region with a name that takes the focus.
    opened.open(finished / "reports/index.html", 390, 900)
    for details in ("true", "false"):
        opened.evaluate(f"document.querySelectorAll('details').forEach(one => one.open = {details})")
        lost = """[...document.querySelectorAll('table')].filter(table => table.offsetWidth && !table.closest('.scroll')
          && table.scrollWidth > document.documentElement.clientWidth).map(table => table.caption.textContent)"""
        assert opened.evaluate(lost) == []
    named = "one => one.tabIndex === 0 && one.getAttribute('aria-label')"
    assert opened.evaluate(f"[...document.querySelectorAll('.scroll')].every({named})")


def test_a_closed_run_draws_its_charts_when_opened_and_seconds_open_beside_the_page(opened, finished):
    opened.open(finished / "reports/index.html", 1280, 900)
    assert opened.evaluate(DRAWN)
    count = "document.querySelectorAll('#hubness details.run .plot svg').length"
    before = opened.evaluate(count)
    assert before == 14
    opened.evaluate("document.querySelector('#hubness details.run:not([open])').open = true")
    assert opened.evaluate(until(f"{count} >= {before + 14}"))
    opened.evaluate("document.querySelector('#hubness details.run[open] details.sub:not([open])').open = true")
    assert opened.evaluate(until(f"{count} >= {before + 21}"))
    assert opened.errors == []
    before = len(opened.requests)
    opened.open(finished / "reports/timings.html", 390, 900)
    assert opened.evaluate("document.documentElement.scrollWidth") <= 390
    assert opened.evaluate("document.querySelector('a').href") == (finished / "reports/index.html").as_uri()
    assert opened.requests[before:] == [(finished / "reports/timings.html").as_uri()]
    assert opened.errors == []


def press(browser, key: str, code: str, text: str) -> None:
    about = {"key": key, "code": code, "windowsVirtualKeyCode": ord(text)}
    browser.send("Input.dispatchKeyEvent", type="keyDown", text=text, **about)
    browser.send("Input.dispatchKeyEvent", type="keyUp", **about)


def test_intervals_can_be_hidden_and_the_first_tab_stop_skips_to_the_results(opened, finished):
    opened.open(finished / "reports/index.html", 1280, 900)
    script = """(() => {
      const button = document.querySelector('button.toggle'), shown = () => document.querySelector('.wide .interval').offsetHeight > 0;
      const states = [[button.getAttribute('aria-pressed'), shown()]];
      for (let click = 0; click < 2; click++) { button.click(); states.push([button.getAttribute('aria-pressed'), shown()]); }
      return states;
    })()"""
    assert opened.evaluate(script) == [["true", True], ["false", False], ["true", True]]
    opened.open(finished / "reports/index.html", 1280, 900)
    opened.send("Input.dispatchKeyEvent", type="keyDown", key="Tab", code="Tab", windowsVirtualKeyCode=9)
    assert opened.evaluate("document.activeElement.className") == "skip"
    assert opened.evaluate("document.activeElement.getBoundingClientRect().left >= 0")
    press(opened, "Enter", "Enter", "\r")
    assert opened.evaluate(until("location.hash === '#summary'"))


# Headings that a reader does not see: with a word broken across lines, transparent, out of their row, outside their pane
# when scrolled to, or under something else.
UNREADABLE = """(() => {
  document.documentElement.style.scrollBehavior = 'auto';
  document.querySelectorAll('details').forEach(one => one.open = true);
  const range = document.createRange();
  const texts = cell => {
    const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), nodes = [];
    while (walker.nextNode()) nodes.push(walker.currentNode);
    return nodes.filter(node => node.data.trim() && !node.parentElement.closest('.unseen, .caption, svg'));
  };
  const isBroken = node => [...node.data.matchAll(/[\\p{L}\\p{N}_]+/gu)].some(word => {
    range.setStart(node, word.index);
    range.setEnd(node, word.index + word[0].length);
    return new Set([...range.getClientRects()].map(line => line.top)).size > 1;
  });
  const fault = cell => {
    for (let one = cell; one; one = one.parentElement) {
      const style = getComputedStyle(one);
      if (Number(style.opacity) < 1 || style.visibility !== 'visible' || style.display === 'none') return 'transparent';
    }
    if (['absolute', 'fixed'].includes(getComputedStyle(cell).position)) return 'out of its row';
    const nodes = texts(cell), scrolled = cell.closest('.scroll') ?? document.body;
    cell.scrollIntoView({ block: 'center' });
    range.selectNodeContents(nodes[0] ?? cell);
    const pane = scrolled.getBoundingClientRect(), before = range.getBoundingClientRect();
    scrolled.scrollLeft += (before.left + before.right - pane.left - pane.right) / 2;
    const box = range.getBoundingClientRect();
    if (!box.width || !box.height) return 'empty';
    if (box.left < pane.left - 1 || box.right > pane.right + 1 || box.top < pane.top - 1 || box.bottom > pane.bottom + 1)
      return 'outside';
    const top = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
    if (!cell.contains(top)) return 'covered';
    return nodes.some(isBroken) ? 'broken' : '';
  };
  return [...document.querySelectorAll('th')].map(cell => [fault(cell), cell.textContent.trim()]).filter(one => one[0]);
})()"""


@pytest.fixture(scope="module")
def further(finished, tmp_path_factory):
    """The project with the sections that the other page does not have, and a run with a long name."""
    root = tmp_path_factory.mktemp("further") / "project"
    shutil.copytree(finished, root)
    figures = {"judged": SIDE}
    more = {name: dict.fromkeys(evaluation.DIRECTIONS, content) for name, content in figures.items()}
    more["judged"]["correct_above"] = 1.5
    with contextlib.chdir(root):
        shutil.copytree(paths.evaluations("hal"), paths.evaluations("inference_search"))
        shutil.copytree(paths.trained("hal"), paths.trained("inference_search"))
        inputs = identity.parts_of(paths.prepared("shapes")) | identity.parts_of(paths.trained("inference_search"))
        identity.write(paths.evaluations("inference_search"), inputs, {})
        for run in ("hal", "inference_search"):
            path = paths.evaluated(run, "nns") / evaluation.METRICS
            write_json(path, read_json(path) | more)
        write_audit(root, "sum")
        write_cleaning()
        write_localisation(root)
        Path("own.yaml").write_text("claims: [{text: a claim, source: Table 2, left: hal, right: sum}]")
        sections = {"audits": ["sum"], "localized": ["hal"], "cleaning": {"clean": "shapes"}, "claims": "own.yaml"}
        given = base.params(inferences=["nns", "csls"], **sections)
        hal = replace(given.runs["hal"], row="hal-aaai2020 2.12")
        report(replace(given, runs={**given.runs, "hal": hal, "inference_search": hal}))
    return root


@pytest.mark.parametrize("width", [1400, 400])
def test_every_heading_of_every_table_can_be_read(opened, finished, further, width):
    sections = set()
    for page in (finished / "reports/index.html", finished / "reports/timings.html", further / "reports/index.html"):
        opened.open(page, width, 900)
        assert opened.evaluate("document.querySelectorAll('th').length") > 3
        assert opened.evaluate(UNREADABLE) == []
        sections |= set(opened.evaluate("[...document.querySelectorAll('main > section')].map(one => one.id)"))
    assert {name for name, *_ in SECTIONS} - sections == set()
