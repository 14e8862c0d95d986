"""The page that `dvc plots` fills: filled as DVC does, in a real browser, with our templates and DVC's own."""

import re

import pytest
from dvc_render import VegaRenderer, render_html
from ruamel.yaml import YAML

from tests.command_line import caller
from tests.report.browser import Browser, installed
from tests.rules.sources import ROOT
from vse_pipe.tools.init import stage

OURS = sorted((ROOT / "pipeline/vse_pipe/report" / "plots").glob("*.json"))
COLUMNS = {
    "rsum": ("rsum", "run"),
    "curves": ("epoch", "val_rsum"),
    "losses": ("epoch", "loss"),
    "occurrence": ("n_10", "items"),
    "sweeps": ("x", "rsum"),
}
# DVC's own for lines and points; linear is what a file without a template gets.
DVCS = ("linear", "simple", "scatter", "smooth")


def _rows() -> list[dict]:
    """Strings, as DVC reads a CSV file, of two revisions, three runs and twelve criteria."""
    names = [f"criterion_{number}" for number in range(12)]
    return [
        {"rev": rev, "run": run, "inference": name, "direction": "text_to_image", "epoch": str(k + 1),
         "val_rsum": str(200 + k), "loss": str(1000 / (k + 1)), "rsum": str(300 + k), "n_10": str(k), "items": str(40 - k),
         "sweep": "k", "x_name": "loss.k", "x": "" if run == "max" else str(k), "step": str(k), "value": str(k), "filename": "a.csv", "field": "y"}
        for rev in ("workspace", "HEAD") for run in ("sum", "max", "hal") for k, name in enumerate(names)
    ]  # fmt: skip


def _renderers() -> list[VegaRenderer]:
    made = []
    for path in OURS:
        x, y = COLUMNS[path.stem]
        made.append(VegaRenderer(_rows(), path.stem, x=x, y=y, template=str(path), title=path.stem))
    for name in DVCS:
        made.append(VegaRenderer(_rows(), f"dvc-{name}", x="step", y="value", template=name, title=name))
    return [*made, VegaRenderer([], "nothing", x="x", y="y", template=str(OURS[0]))]


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    root = tmp_path_factory.mktemp("project")
    return stage.write_plots_page(root)


@pytest.fixture(scope="module")
def page(template):
    return render_html(_renderers(), template.parent.parent / "dvc_plots" / "index.html", html_template=str(template))


def test_every_plot_of_dvc_yaml_has_a_template_here():
    plots = YAML(typ="safe").load((ROOT / "dvc.yaml").read_text())["plots"]
    named = {settings["template"] for plot in plots for settings in plot.values()}
    assert named == {str(path.relative_to(ROOT)) for path in OURS}
    assert set(COLUMNS) == {path.stem for path in OURS}


def test_dvc_finds_the_page_where_it_is_written_and_git_leaves_it_out():
    config = (ROOT / ".dvc" / "config").read_text()
    name = re.search(r"^\[plots\]\s+html_template = (\S+)$", config, flags=re.M)[1]
    assert stage.PLOTS_PAGE.parts == (".dvc", name)
    assert f"/{name}" in (ROOT / ".dvc" / ".gitignore").read_text().split()


def test_the_places_that_dvc_fills_are_left(template):
    text = template.read_text()
    assert text.count("{plot_divs}") == text.count("{refresh_tag}") == 1
    assert "{scripts}" not in text
    assert "jsdelivr" not in text


def test_the_command_writes_below_the_root_from_any_folder(tmp_path, monkeypatch, capsys):
    (tmp_path / "params.yaml").touch()
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    monkeypatch.setattr(stage, "plots_page", lambda: "{plot_divs}")
    status, out, err = caller(monkeypatch, capsys)("plots")
    assert (status, out) == (0, "")
    assert ".dvc/plots.html" in err
    assert (tmp_path / ".dvc" / "plots.html").read_text() == "{plot_divs}"
    assert [path.name for path in (tmp_path / ".dvc").iterdir()] == ["plots.html"]


@pytest.fixture(scope="module")
def opened(page, tmp_path_factory):
    if installed() is None:
        pytest.skip("no Chromium installed; `apt-get install chromium` runs these tests")
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        browser.open(page, 1280, 900)
        assert browser.evaluate(
            "new Promise(done => { const wait = () => [...document.querySelectorAll('body > div')]"
            ".every(plot => plot.querySelector('svg, .empty')) ? done(true) : setTimeout(wait, 50); wait(); })"
        )
        yield browser


def test_every_plot_is_drawn_without_a_warning(opened, page):
    # `linear` and `smooth` of DVC have a layer that is empty until the pointer is over it.
    told = [error for error in opened.errors if not re.search('Infinite extent for field "(step|value)"', error)]
    assert told == [], "\n".join(told)
    drawn = opened.evaluate("[...document.querySelectorAll('body > div:has(svg)')].map(plot => plot.id)")
    assert {path.stem for path in OURS} <= set(drawn)
    assert len(drawn) == len(OURS) + len(DVCS)
    marks = opened.evaluate(
        "[...document.querySelectorAll('body > div:has(svg)')].filter(plot => !plot.querySelector('.role-mark path, "
        ".role-mark line, .role-mark rect')).map(plot => plot.id)"
    )
    assert marks == []


def test_nothing_is_asked_of_the_network(opened, page):
    assert {url for url in opened.requests if not url.startswith(("data:", "about:"))} == {page.as_uri()}
    assert opened.evaluate("document.querySelector('#nothing').textContent").strip().endswith("no rows to draw")
    editor = "[...document.querySelectorAll('.vega-actions a')].filter(link => /editor/i.test(link.textContent)).length"
    assert opened.evaluate(editor) == 0


def test_ours_fit_a_wide_screen(opened):
    for path in OURS:
        width = opened.evaluate(f"document.querySelector('#{path.stem} svg').getBoundingClientRect().width")
        assert 600 < width <= 1240, path.stem
