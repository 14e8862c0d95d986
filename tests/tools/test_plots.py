"""The page that `dvc plots` fills: filled as DVC does, in a real browser, with our templates and those of DVC."""

import re

import pytest
from dvc_render import VegaRenderer, render_html
from ruamel.yaml import YAML

from tests.command_line import caller, output
from tests.report.browser import Browser, installed
from tests.rules.sources import ROOT
from vse_pipe.tools import init

OURS = sorted((ROOT / "pipeline/vse_pipe/report" / "plots").glob("*.json"))
COLUMNS = {"rsum": ("rsum", "run"), "curves": ("epoch", "val_rsum"), "losses": ("epoch", "loss")}
COLUMNS |= {"occurrence": ("n_10", "items"), "sweeps": ("x", "rsum")}
# DVC's own for lines and points; linear is what a file without a template gets.
DVCS = ("linear", "simple", "scatter", "smooth")


def _rows() -> list[dict]:
    """Strings, as DVC reads a CSV file, of two revisions, three runs and twelve criteria."""
    about = {"direction": "text_to_image", "sweep": "k", "x_name": "loss.k", "filename": "a.csv", "field": "y"}
    numbers = {"epoch": lambda k: k + 1, "val_rsum": lambda k: 200 + k, "loss": lambda k: 1000 / (k + 1)}
    numbers |= {
        "rsum": lambda k: 300 + k,
        "items": lambda k: 40 - k,
        **dict.fromkeys(("n_10", "x", "step", "value"), int),
    }
    return [
        {**about, "rev": rev, "run": run, "inference": f"criterion_{k}"}
        | {name: "" if (name, run) == ("x", "max") else str(number(k)) for name, number in numbers.items()}
        for rev in ("workspace", "HEAD")
        for run in ("sum", "max", "hal")
        for k in range(12)
    ]


def _renderer(name: str, x: str, y: str, template: object, rows: list) -> VegaRenderer:
    return VegaRenderer(rows, name, x=x, y=y, template=str(template), title=name)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    return init.write_plots_page(tmp_path_factory.mktemp("project"))


@pytest.fixture(scope="module")
def page(template):
    made = [_renderer(path.stem, *COLUMNS[path.stem], path, _rows()) for path in OURS]
    made += [_renderer(f"dvc-{name}", "step", "value", name, _rows()) for name in DVCS]
    made.append(_renderer("nothing", "x", "y", OURS[0], []))
    return render_html(made, template.parent.parent / "dvc_plots" / "index.html", html_template=str(template))


def test_dvc_finds_the_page_and_a_template_for_every_plot():
    plots = YAML(typ="safe").load((ROOT / "dvc.yaml").read_text())["plots"]
    named = {settings["template"] for plot in plots for settings in plot.values()}
    assert (named, set(COLUMNS)) == ({str(path.relative_to(ROOT)) for path in OURS}, {path.stem for path in OURS})
    name = re.search(r"^\[plots\]\s+html_template = (\S+)$", (ROOT / ".dvc" / "config").read_text(), flags=re.M)[1]
    assert init.PLOTS_PAGE.parts == (".dvc", name)
    assert f"/{name}" in (ROOT / ".dvc" / ".gitignore").read_text().split()


def test_the_command_writes_below_the_root_from_any_folder(tmp_path, monkeypatch, capsys):
    (tmp_path / "params.yaml").touch()
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    monkeypatch.setattr(init, "plots_page", lambda: "{plot_divs}")
    out, err = output(caller(monkeypatch, capsys), "plots")
    assert (out, ".dvc/plots.html" in err) == ("", True)
    assert (tmp_path / ".dvc" / "plots.html").read_text() == "{plot_divs}"
    assert [path.name for path in (tmp_path / ".dvc").iterdir()] == ["plots.html"]


@pytest.fixture(scope="module")
def opened(page, tmp_path_factory):
    if installed() is None:
        pytest.skip("no Chromium installed; `apt-get install chromium` runs these tests")
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        browser.open(page, 1280, 900)
        drawn = "[...document.querySelectorAll('body > div')].every(plot => plot.querySelector('svg, .empty'))"
        wait = f"const wait = () => {drawn} ? done(true) : setTimeout(wait, 50); wait();"
        assert browser.evaluate(f"new Promise(done => {{ {wait} }})")
        yield browser


PLOTS = "[...document.querySelectorAll('body > div:has(svg)')]"
UNMARKED = "!plot.querySelector('.role-mark path, .role-mark line, .role-mark rect')"


def test_every_plot_is_drawn_without_a_warning_and_asks_nothing_of_the_network(opened, page):
    # `linear` and `smooth` of DVC have a layer that is empty until the pointer is over it.
    told = [error for error in opened.errors if not re.search('Infinite extent for field "(step|value)"', error)]
    assert told == [], "\n".join(told)
    drawn = opened.evaluate(f"{PLOTS}.map(plot => plot.id)")
    assert ({path.stem for path in OURS} - set(drawn), len(drawn)) == (set(), len(OURS) + len(DVCS))
    assert opened.evaluate(f"{PLOTS}.filter(plot => {UNMARKED}).map(plot => plot.id)") == []
    assert {url for url in opened.requests if not url.startswith(("data:", "about:"))} == {page.as_uri()}
    assert opened.evaluate("document.querySelector('#nothing').textContent").strip().endswith("no rows to draw")
    editor = "[...document.querySelectorAll('.vega-actions a')].filter(link => /editor/i.test(link.textContent)).length"
    assert opened.evaluate(editor) == 0
