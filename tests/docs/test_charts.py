"""The charts of the result pages have the figures of their pages' tables."""

import re
import shutil

import pandas as pd
import pytest

from tests.docs import charts

PAGE = """# A page

## One

| run | rsum |
|---|---:|
| a | 1 |

## Two

| run | R@1 | rsum |
|---|---:|---|
| `a` | 1 | 40.3 (34.7 to 46.1) |
| b | 2 | **−3.5 ± 1.5** |
| c | 3 | 12 to 19 |
| d | 4 | - |
"""


def test_a_table_is_found_by_heading_and_column_and_cells_are_read():
    rows = charts.table(PAGE, "Two", "rsum")
    assert rows["run"].tolist() == ["`a`", "b", "c", "d"]
    nan = float("nan")
    expected = {"value": [40.3, -3.5, nan, nan], "low": [34.7, -5, 12, nan], "high": [46.1, -2, 19, nan]}
    pd.testing.assert_frame_equal(charts.spread(rows["rsum"]), pd.DataFrame(expected))
    assert charts.spread(pd.Series(["74 %", "1,292 images/s"]))["value"].tolist() == [74, 1292]
    with pytest.raises(LookupError, match="'R@5' below 'Two'"):
        charts.table(PAGE, "Two", "R@5")


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
