"""The table of figures at every width: no figure is ever cut or broken."""

import pytest

from vse_pipe.core.console import stdout
from vse_pipe.evaluate import summary

NAMES = [("hal", "nns"), ("hal", "mutual_proximity"), ("a_run_with_a_long_name_of_its_own", "csls+rgm")]


def _metrics(inference: str, interval: bool) -> dict:
    side = {"r@1": 71.9, "r@5": 91.3, "r@10": 100.0, "queries": 5, "items": 500}
    common = {"inference": inference, "rsum": 553.4, "hs_sum": 21.29, "bank": "none", "transductive": False}
    measured = {"split": "test", "protocol": "full", "image_to_text": side, "text_to_image": dict(side)}
    return common | measured | ({"intervals": {"rsum": [549.72, 557.11]}} if interval else {})


def _lines(monkeypatch, capsys, width: int, interval: bool = True) -> list[str]:
    monkeypatch.setattr(stdout, "width", width)
    summary.show({name: _metrics(name[1], interval) for name in NAMES}, False)
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


def test_beside_where_there_is_room_and_below_where_there_is_not(monkeypatch, capsys):
    assert sum("553.4 [549.7, 557.1]" in line for line in _lines(monkeypatch, capsys, 200)) == 3
    narrow = _lines(monkeypatch, capsys, 80)
    assert not any("553.4 [549.7" in line for line in narrow)
    rows = [number for number, line in enumerate(narrow) if "553.4" in line]
    assert all("[549.7, 557.1]" in narrow[row + 1] for row in rows)


def test_without_intervals_there_is_nothing_to_leave_out(monkeypatch, capsys):
    assert "[" not in "\n".join(_lines(monkeypatch, capsys, 80, interval=False))
