"""What each criterion repaired and broke."""

import html
import re

import pandas as pd

from tests.naive import stages as naive
from tests.report import project as artefacts
from vse_pipe.artifacts import evaluation
from vse_pipe.artifacts.evaluation import DIRECTIONS
from vse_pipe.project import paths
from vse_pipe.report.stage import report


def _section(page: str) -> str:
    found = re.search(r'<section[^>]*id="changes".*?\n</section>', page, re.DOTALL)
    return found.group(0) if found else ""


def _ranks(root, run: str, inference: str) -> pd.DataFrame:
    table = evaluation.read_ranks(root / paths.evaluated(run, inference)).to_pandas()
    return table.set_index(["direction", "query_id"])


def _kinds(root, run: str, inference: str, direction: str, k: int) -> list[str]:
    before, after = (_ranks(root, run, name).loc[direction][f"hit_{k}"] for name in ("nns", inference))
    return [naive.kind(before[number], after[number]) for number in before.index]


def test_counts_of_every_criterion_equal_the_loops(finished, page):
    table = re.search(r"<caption>Queries of run max that turn right.*?<tbody>(.*?)</tbody>", page, re.DOTALL).group(1)
    rows = dict(re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', table))
    assert list(rows) == [name for name in artefacts.CRITERIA if name != "nns"]
    for name, cells in rows.items():
        found = [
            int(text.replace("\u2212", "-").replace("\u00b1", "")) for text in re.findall(r"<td[^>]*>(.*?)</td>", cells)
        ]
        expected = []
        for direction in DIRECTIONS:
            for k in (1, 10):
                kinds = _kinds(finished, "max", name, direction, k)
                repaired, broken = kinds.count("repaired"), kinds.count("broken")
                expected += [repaired, -broken, repaired - broken]
        assert found == expected, name
    assert any("+1" in cells for cells in rows.values())


def test_the_chart_says_its_numbers(finished, page):
    label = html.unescape(re.search(r'aria-label="(Image to text, queries right at 1 [^"]*)"', _section(page)).group(1))
    kinds = _kinds(finished, "sum", "csls", "image_to_text", 1)
    assert f"csls repairs {kinds.count('repaired')} and breaks {kinds.count('broken')}" in label


def test_examples_are_what_they_are_called(finished, page):
    """A query that is called repaired is wrong under the plain ranking and right under the criterion."""
    section = _section(page)
    table = re.search(r"Queries that csls repaired and broke at R@1.*?<tbody>(.*?)</tbody>", section, re.DOTALL).group(
        1
    )
    rows = table.split("</tr>")[:-1]
    assert 4 <= len(rows) <= 8
    for row in rows:
        kind = re.search(r'class="kind (\w+)"', row).group(1)
        verdicts = re.findall(r'class="verdict (\w+)"', row)
        assert verdicts == (["wrong", "right"] if kind == "repaired" else ["right", "wrong"])
        ranks = [int(number) for number in re.findall(r"correct at rank (\d+)", row)]
        assert [number == 1 for number in ranks] == [verdict == "right" for verdict in verdicts]
    assert {"repaired", "broken"} == set(re.findall(r'class="kind (\w+)"', table))


def test_of_a_matching_the_set_of_ten_is_compared(page):
    table = re.search(r"Queries that gm repaired and broke at R@10.*?</table>", _section(page), re.DOTALL).group(0)
    assert "Set under gm" in table
    assert "correct item among its 10" in table


def test_no_examples_where_none_are_asked_for(project):
    section = _section(report(artefacts.params(runs=["hal"], examples=0)).read_text())
    assert "Queries of run hal that turn right" in section
    assert "drawn by the seed" not in section


def test_left_out_with_one_criterion(project):
    assert _section(report(artefacts.params(runs=["hal"], inferences=["nns"])).read_text()) == ""
