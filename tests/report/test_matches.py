"""Words over pictures: what is drawn, and the report of a run on regions beside what search says."""

import contextlib
import re
import shutil
from pathlib import Path

import pytest

from tests.search import project as search
from vse_pipe.evaluate.stage import evaluate
from vse_pipe.project import paths
from vse_pipe.report.matches import drawing
from vse_pipe.report.stage import report
from vse_pipe.search.engine import Engine

_RECT = re.compile(r'<text x="([\d.]+)" y="([\d.]+)"[^>]*>([^<]*)</text>')


def _params(root: Path):
    return search.params(root, runs={"scan": search.RUNS["scan"]}, ensembles={}, report={"examples": 3})


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("regions")
    with contextlib.chdir(root):
        search.write(root, ["scan"])
        evaluate(_params(root), "scan", ["nns"], "cpu")
    return root


def _matched(root: Path, monkeypatch) -> str:
    monkeypatch.chdir(root)
    report(_params(root))
    page = (root / "reports/index.html").read_text(encoding="utf-8")
    return page.partition("Where run scan matched")[2].partition('<section id="failures"')[0]


def test_marks_are_not_drawn_and_the_strongest_words_lie_at_different_regions():
    words = [
        ("<start>", 0, 0.9),
        ("dog", 1, 0.8),
        ("runs", 1, 0.7),
        (".", 2, 0.6),
        ("on", 3, 0.5),
        ("a", 4, 0.4),
        ("sea", 5, 0.3),
    ]
    matches = [
        {"word": word, "region": place, "weight": share, "box": [10.0 * place, 0, 50, 40]}
        for word, place, share in words
    ]
    drawn = drawing(matches, 60, 40)
    assert [word["word"] for word in drawn["words"]] == ["dog", "runs", "on", "a", "sea"]
    strong = {word["word"]: word["colour"] for word in drawn["words"] if word["strong"]}
    assert strong == {"dog": 1, "on": 2, "a": 3}
    assert [word["text"]["anchor"] for word in drawn["words"][:3]] == ["start", "start", "end"]
    assert (
        drawing(matches, 0, 0) is drawing([{**matches[1], "box": None}], 60, 40) is drawing(matches[:1], 60, 40) is None
    )


def test_the_report_draws_the_boxes_that_search_names(root, monkeypatch):
    cards = _matched(root, monkeypatch).split("<article")[1:]
    engine = Engine.open(_params(root), "scan", "nns", "test", "cpu")
    assert len(cards) == 3
    for card in cards:
        caption = re.search(r"<q>(.*?)</q>", card)[1]
        assert '<use href="#picture-' in card
        assert ("its own picture" in card) != ("a picture of another caption" in card)
        if "&lt;" in caption:
            assert "<script>" not in card
            continue
        (matches,) = engine.by_text(caption, 1).regions
        drawn = [
            (word, min(box[0], box[2]), box[1]) for word, box in ((match["word"], match["box"]) for match in matches)
        ]
        for x, y, word in _RECT.findall(card):
            assert any(word == other and float(y) == top and float(x) >= left for other, left, top in drawn), (
                word,
                x,
                y,
            )
        assert len(_RECT.findall(card)) == sum(any(map(str.isalnum, word)) and word[0] != "<" for word, *_ in drawn)


def test_what_is_not_at_hand_is_said_and_not_drawn(root, tmp_path, monkeypatch):
    copy = shutil.copytree(root, tmp_path / "copy")
    shutil.rmtree(copy / paths.extracted("toy", "grid"))
    matched = _matched(copy, monkeypatch)
    assert "Not drawn: data/extract/toy/grid is not here." in matched
    assert 'class="words"' not in matched
