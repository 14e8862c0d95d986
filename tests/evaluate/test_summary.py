"""The table of figures at every width, and the sentences below it."""

import json

import pytest

from vse_pipe.core.console import stdout
from vse_pipe.evaluate import table


def metrics(inference: str = "nns", bank: str = "none", transductive: bool = False, **more: object) -> dict:
    side = {"r@1": 10.0, "r@5": 20.0, "r@10": 30.0, "queries": 40, "items": 500}
    given = {"inference": inference, "split": "test", "protocol": "full", "bank": bank, "transductive": transductive}
    return given | {"image_to_text": dict(side), "text_to_image": dict(side), "rsum": 120.0, "hs_sum": 3.5} | more


DEPENDS = "(transductive: a result depends on the other queries)"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (metrics(), ""),
        (metrics("is", "test", True), f"is: hubs corrected with the test queries themselves {DEPENDS}"),
        (metrics("is", "val", True, split="val"), f"is: hubs corrected with the val queries themselves {DEPENDS}"),
        (metrics("nnn", "train"), "nnn: hubs corrected with the queries of train (inductive)"),
        (metrics("nnn", "val"), "nnn: hubs corrected with the queries of val (inductive)"),
        (metrics("gm", "none", True), f"gm: queries are matched together {DEPENDS}"),
        (
            metrics("is+rgm", "b.parquet", True, split="files"),
            f"is+rgm: hubs corrected with the queries of b.parquet; queries are matched together {DEPENDS}",
        ),
    ],
)
def test_the_bank_is_said_and_whether_results_depend_on_each_other(given, said):
    assert table.figure_notes([given])[1:] == ([said] if said else [])


def test_criteria_of_one_bank_share_a_line():
    given = [metrics(), metrics("is", "test", True), metrics("csls", "test", True), metrics("is", "test", True)]
    assert [line.partition(":")[0] for line in table.figure_notes(given)[1:]] == ["is, csls"]


def test_validation_data_of_another_data_set_is_named():
    results = [metrics("nns"), *(metrics(name, tuned_on="val of toy") for name in ("rgm", "gm+rgm"))]
    line = "rgm, gm+rgm: parameters chosen on val of toy; the ranked data set has no split val"
    assert line in table.figure_notes(results)


@pytest.mark.parametrize(
    ("items", "named"), [(100, None), (99, "R@10"), (20, "R@5, R@10"), (10, "R@5, R@10"), (4, "R@1, R@5, R@10")]
)
def test_where_k_is_not_small_against_what_is_ranked_it_is_said(items, named):
    one = metrics()
    one["text_to_image"]["items"] = items
    said = f"text to image: only {items} images are ranked; {named} and rsum are large whatever the model"
    assert table.figure_notes([one])[1:] == ([said] if named else [])


def test_unjudged_queries_are_counted():
    one = metrics(split="files")
    one["image_to_text"]["unjudged"], one["text_to_image"]["unjudged"] = 60, 0
    first, *others = table.figure_notes([one])
    assert first.startswith("vectors from files, protocol full; r@K: share of queries with a correct item")
    assert others == ["i2t: 60 of 100 queries have no judged item and are in no figure, hubness included"]


def test_the_interval_of_rsum_is_shown_where_there_is_one(capsys):
    one = metrics(intervals={"rsum": [110.04, 130.0], "image_to_text": {}})
    table.show_results({("sum", "nns"): one, ("sum", "is"): metrics("is", "test", True)}, False)
    out = " ".join(capsys.readouterr().out.split())
    assert "[110.0," in out
    assert "130.0]" in out
    assert out.count("[") == 1
    assert "in brackets the 95% interval" in out
    assert "brackets" not in "".join(table.figure_notes([metrics()]))


def test_json_is_sorted_and_keyed(capsys):
    one, other = metrics(), metrics("is", "test", True)
    table.show_results({("sum", "nns"): one, ("sum", "is"): other}, True)
    assert json.loads(capsys.readouterr().out) == {"sum": {"is": other, "nns": one}}
    table.show_file_results({"nns": one}, True)
    assert capsys.readouterr().out == json.dumps(one, indent=2, sort_keys=True) + "\n"
    table.show_file_results({"nns": one, "is": other}, True)
    assert list(json.loads(capsys.readouterr().out)) == ["is", "nns"]


NAMES = [("hal", "nns"), ("hal", "mutual_proximity"), ("a_run_with_a_long_name_of_its_own", "csls+rgm")]


def _metrics(inference: str, interval: bool) -> dict:
    side = {"r@1": 71.9, "r@5": 91.3, "r@10": 100.0, "queries": 5, "items": 500}
    more = {"intervals": {"rsum": [549.72, 557.11]}} if interval else {}
    return metrics(inference, rsum=553.4, hs_sum=21.29, image_to_text=side, text_to_image=dict(side), **more)


def _lines(monkeypatch, capsys, width: int, interval: bool = True) -> list[str]:
    monkeypatch.setattr(stdout, "width", width)
    table.show_results({name: _metrics(name[1], interval) for name in NAMES}, False)
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("width", [66, 74, 80, 100, 140, 200])
def test_every_figure_is_there_in_one_piece(monkeypatch, capsys, width):
    lines = _lines(monkeypatch, capsys, width)
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    for figure, times in [("71.9", 6), ("91.3", 6), ("100.0", 6), ("553.4", 3), ("21.29", 3)]:
        assert text.count(figure) == times, text
    assert text.count("[549.7, 557.1]") == (3 if width >= 80 else text.count("[549.7, 557.1]"))
    assert "[549.7," not in text.replace("[549.7, 557.1]", "")
    assert "[" not in "\n".join(_lines(monkeypatch, capsys, width, interval=False))


def test_beside_where_there_is_room_and_below_where_there_is_not(monkeypatch, capsys):
    assert sum("553.4 [549.7, 557.1]" in line for line in _lines(monkeypatch, capsys, 200)) == 3
    narrow = _lines(monkeypatch, capsys, 80)
    assert not any("553.4 [549.7" in line for line in narrow)
    rows = [number for number, line in enumerate(narrow) if "553.4" in line]
    assert all("[549.7, 557.1]" in narrow[row + 1] for row in rows)
