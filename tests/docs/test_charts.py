"""The charts of the result pages have the figures of their pages' tables."""

import re
import shutil

from tests.docs import charts


def test_committed_charts_have_the_figures_of_their_pages(capsys):
    assert charts.main(["--check"]) == 0, capsys.readouterr().out
    files = {path.stem: path for path in (charts.REPORTS / "figures").iterdir()}
    assert set(files) == set(charts.PAGES)
    for name, file in files.items():
        assert file.stat().st_size < 30_000, name
        assert f"](figures/{name}.svg)" in (charts.REPORTS / f"{name}.md").read_text(encoding="utf-8")


def test_a_changed_figure_makes_its_chart_stale_alone(tmp_path, capsys):
    for path in charts.REPORTS.glob("*.md"):
        shutil.copy(path, tmp_path)
    shutil.copytree(charts.REPORTS / "figures", tmp_path / "figures")
    page = tmp_path / "localisation.md"
    page.write_text(re.sub(r"\| CCA \| 40\.3", "| CCA | 41.3", page.read_text(encoding="utf-8")), encoding="utf-8")
    assert charts.main(["--check"], tmp_path) == 1
    assert capsys.readouterr().out.split()[:1] == ["reports/figures/localisation.svg"]
    assert charts.main([], tmp_path) == 0
    assert charts.main(["--check"], tmp_path) == 0
    assert "41.3" not in capsys.readouterr().out
