"""`vse-pipe search`, and what `vse-pipe serve` prepares before the first visitor."""

import contextlib
import json
import shutil
from pathlib import Path
from typing import ClassVar

import pytest

from tests.command_line import caller, json_document, output
from tests.tools.search import project as artefacts
from vse_pipe.commands.export import _warm
from vse_pipe.core.errors import InputError
from vse_pipe.tools.search.query import TO_IMAGES


@pytest.fixture
def call(searched, tmp_path, monkeypatch, capsys):
    """The command line in a copy of a small project with two runs."""
    root = tmp_path / "project"
    shutil.copytree(searched, root)
    runs = {name: artefacts.RUNS[name] for name in ("sum", "given")}
    artefacts.params(root, runs=runs, ensembles={})
    monkeypatch.chdir(root)
    monkeypatch.setenv("COLUMNS", "100")
    return caller(monkeypatch, capsys)


def test_a_sentence_gives_a_table_and_its_remarks(call):
    out, err = output(call, "search", "a red zorg disc", "--run", "sum", "--k", 3)
    rows = [line for line in out.splitlines() if line.strip()[:1] in set("123")]
    assert len(rows) == 3
    assert "its first caption" in out
    assert ".png" in rows[0]
    assert "nns, 10 images of test" in out
    assert err == "run sum (as asked)\nnot in the vocabulary: zorg\n"


def test_html_replaces_nothing_but_its_own_pages_and_no_results_are_no_search(call):
    before = Path("params.yaml").read_bytes()
    status, out, err = call("search", "a red disc", "--run", "sum", "--html", "params.yaml")
    assert (status, out) == (2, "")
    assert err.startswith("error: --html: ")
    assert err.endswith("params.yaml exists and is no page of `vse-pipe search`; choose another name\n")
    assert Path("params.yaml").read_bytes() == before
    for _ in range(2):
        assert call("search", "a red disc", "--run", "sum", "--html", "found.html")[0] == 0
    status, _, err = call("search", "a red disc", "--k", 0)
    assert (status, "--k" in err) == (2, True)


def test_json_is_one_document_on_stdout(call):
    told = json_document(call, "search", "a red disc", "--run", "sum", "--inference", "csls", "--json", "--k", 4)
    assert [hit["rank"] for hit in told["hits"]] == [1, 2, 3, 4]
    said = {"run": "sum", "inference": "csls", "split": "test", "direction": "text_to_image", "searched": 10}
    assert {key: told[key] for key in (*said, "unknown")} == {**said, "unknown": []}
    assert told["correction"]["bank"] == "test"


def test_a_photo_and_an_image_of_the_data_set_give_captions(call, tmp_path):
    out, _ = output(call, "search", "--image", "pictures/5.png", "--run", "sum", "--html", "out.html")
    assert "caption_id" in out
    assert "The image asked with: 5.png" in (tmp_path / "project/out.html").read_text()
    told = json.loads(call("search", "--image-id", 5, "--run", "sum", "--json")[1])
    assert told["query"] == "image 5"
    assert told["hits"][0]["caption_id"] is not None


def test_a_picture_alone_is_the_file_and_in_quotes_it_is_words(call):
    out, err = output(call, "search", "pictures/5.png", "--run", "sum", "--json")
    assert "pictures/5.png: searched with the picture in this file; to search for these words, write" in err
    told, expected = (
        json.loads(one) for one in (out, call("search", "--image", "pictures/5.png", "--run", "sum", "--json")[1])
    )
    assert told["hits"] == expected["hits"]
    assert told["query"] == expected["query"] == "5.png"
    _, out, _ = call("search", '"a red disc.png"', "--run", "sum", "--json")
    assert json.loads(out)["direction"] == "text_to_image"


def test_a_correction_says_when_it_was_computed(call):
    first = call("search", "a red disc", "--run", "sum", "--inference", "is")[2]
    assert "computing the correction of 10 items by 20 queries of test, once" in first
    assert "is: corrected by 20 captions of test, computed now in" in first
    assert (
        "is: corrected by 20 captions of test, computed on 20"
        in call("search", "a red disc", "--run", "sum", "--inference", "is")[2]
    )


def test_parts_of_text_pictures_and_images_are_one_query(call):
    Path("elsewhere").mkdir()
    shutil.copy("pictures/5.png", "elsewhere/pool.png")
    with contextlib.chdir("elsewhere"):
        status, out, err = call("search", "disc:2 + pool.png - image:8", "--run", "sum", "--json", "--split", "all")
    assert status == 0, err
    told = json.loads(out)
    assert told["query"] == "2 x 'disc' + picture 'pool.png' - image '8'"
    assert told["direction"] == "text_to_image"
    assert [(part["kind"], part["weight"]) for part in told["parts"]] == [("text", 2), ("photo", 1), ("image", -1)]
    assert 8 not in [hit["image_id"] for hit in told["hits"]]


def test_a_condition_and_groups_narrow_the_answer_until_nothing_fits(call):
    given = ("search", "a red disc", "--run", "sum", "--split", "all", "--where", "split = 'val'", "--group", 0.01)
    out, err = output(call, *given, "--html", "out.html")
    assert "+7 alike" in out
    assert "8 of 38 images fit split = 'val'" in err
    assert "+7 alike</span>" in Path("out.html").read_text()
    told = json.loads(call(*given, "--json")[1])
    assert [len(hit["alike"]) for hit in told["hits"]] == [7]
    assert told["narrowed"] == {"group": 0.01, "left": 8, "where": "split = 'val'"}
    status, out, err = call("search", "a red disc", "--run", "sum", "--where", "width > 5000")
    assert (status, out) == (0, "")
    assert err.endswith("0 of 10 images fit width > 5000\nnothing fits\n")


def test_a_probability_is_a_column_and_says_what_it_is_of(call):
    given = ("search", "a red disc", "--run", "sum", "--inference", "csls")
    out, err = output(call, *given, "--probability", "--html", "out.html")
    assert "probability" in out
    assert "probability that one of the 10 best of a sentence is its own image: isotonic on 16 queries of val" in err
    assert Path("out.html").read_text().count("<span>probability 0.") == 10
    told = json.loads(call(*given, "--min-probability", 0, "--json")[1])
    assert told["calibration"]["kept"] is True
    assert all(0 <= hit["probability"] <= 1 for hit in told["hits"])
    assert "probability" not in call(*given)[1]


@pytest.mark.parametrize(
    ("given", "status", "message"),
    [
        ((), 2, "search for what? give a sentence, --image FILE or --image-id ID, one of them"),
        (("a dog", "--image-id", 5), 2, "search for what?"),
        (("a red disc",), 2, "search which run? reports/metrics.json has no rsum"),
        (("--image", "nothing.jpg", "--run", "sum"), 4, "nothing.jpg: no such file"),
        (("--image", ".", "--run", "sum"), 3, ". is a folder"),
        (("--image", "params.yaml", "--run", "sum"), 3, "params.yaml is no image in a known format"),
        (("--image", "pictures/5.png", "--run", "given"), 2, "features.plain of run 'given' are 'precomp'"),
        (("a box + gone.jpg", "--run", "sum"), 4, "gone.jpg: no such file"),
        (
            ("gone.JPG", "--run", "sum"),
            4,
            "gone.JPG: no such file; to search for these words, write vse-pipe search '\"g",
        ),
        (("a box", "--run", "sum", "--where", "widht > 1"), 2, "--where: images have no column 'widht'; did you mean"),
        (("a box + image:6", "--run", "sum"), 3, "data/embed/sum/images.parquet: run 'sum' has embedded no"),
        (("a box + image:x", "--run", "sum"), 2, "image_id must be a whole number, got"),
    ],
)
def test_what_cannot_be_answered_is_one_line_and_its_status(call, given, status, message):
    found, out, err = call("search", *given)
    assert (found, out, err.count("\n")) == (status, "", 1)
    assert err.startswith(f"error: {message}")


def test_the_correction_is_made_before_the_first_visitor_comes():
    class Recorded:
        calls: ClassVar = []

        def correction(self, direction):
            self.calls.append(direction)

        def by_text(self, text, k):
            raise InputError("no known word")

    _warm(Recorded())
    assert Recorded.calls == [TO_IMAGES]
