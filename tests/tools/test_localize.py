"""Phrases located in a photo, with a run that the stages trained on rendered scenes of four pictures a split."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.command_line import caller, output
from tests.toy_project import PARAMS, load_params
from vse_pipe.artifacts import embeddings, regions
from vse_pipe.artifacts import images as artefact
from vse_pipe.core.errors import InputError, UnreadableImage, UsageError
from vse_pipe.embed.stage import embed
from vse_pipe.extract.stage import extract
from vse_pipe.extract.text_stage import extract_texts
from vse_pipe.inject.stage import inject
from vse_pipe.pictures.address import Box
from vse_pipe.prepare.stage import prepare
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.search.network import Wording
from vse_pipe.tools import localize
from vse_pipe.tools.localize import FoundBox, Question, check, find, unpacked
from vse_pipe.train.stage import train
from vse_pipe.train.trained import Trained

pytestmark = pytest.mark.acceptance
COUNTS = {"train": 8, "val": 4, "test": 4}
BOXES = {"format": "regions", "source": "data/prepare/scenes", "count": 12}
MEMBERS = {"dataset": "boxes", "features": "crops", "texts": "bags", "noise": "shown", "text": "two_branch"}
NODES = {
    "datasets": {
        "scenes": {"format": "shapes", "source": ".", "phrases": True, "pixels": 64, **COUNTS},
        "boxes": BOXES,
    },
    "features": {"crops": {"dataset": "boxes", "backbone": "random_filters", "image_size": 16, "filters": 8}},
    "texts": {"bags": {"dataset": "boxes", "method": "tfidf"}},
    "noises": {"shown": {"dataset": "boxes", "protocol": "image", "rate": 0.0}},
    "runs": {"toy": {**PARAMS["runs"]["sum"], **MEMBERS}},
    "train": {**PARAMS["train"], "epochs": 1},
}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photo")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        params = load_params(folder, **NODES)
        for name in params.datasets:
            prepare(params, name)
        extract(params, "crops", "cpu")
        extract_texts(params, "bags")
        inject(params, "shown")
        train(params, "toy", "cpu")
        embed(params, "toy", "cpu")
    return folder


@pytest.fixture
def params(root, monkeypatch) -> Params:
    monkeypatch.chdir(root)
    return load_params(root, **NODES)


def _known() -> tuple[Path, list[dict], np.ndarray]:
    """A test picture's file, its proposals, and their embeddings."""
    table = regions.read(paths.prepared("boxes")).to_pylist()
    first = next(row["source_id"] for row in table if row["split"] == "test")
    own = [row for row in table if row["source_id"] == first and row["proposed"]]
    side = embeddings.read(paths.embedded("toy") / embeddings.IMAGES)
    rows = dict(zip(side.ids.tolist(), side.vectors, strict=True))
    whole = artefact.read(paths.prepared("scenes"))
    file = whole["file"][whole["image_id"].to_pylist().index(first)].as_py()
    return Path(artefact.root(whole)) / file, own, np.stack([rows[row["image_id"]] for row in own])


def test_a_picture_of_the_data_set_is_seen_as_the_stages_saw_it(params) -> None:
    """The same proposals, and the best of them by the same vectors."""
    file, boxes, vectors = _known()
    with unpacked(file.read_bytes(), "photo") as photo:
        (found,) = find(params, "toy", photo, ["a red circle"], "cpu")
    scores = vectors @ Trained.open(paths.trained("toy")).captions(["a red circle"]).numpy()[0]
    assert (found.candidates, found.score) == (len(boxes), pytest.approx(scores.max(), abs=1e-4))
    best = boxes[int(scores.argmax())]
    wanted = (best["x1"], best["y1"], best["x2"] - best["x1"] + 1, best["y2"] - best["y1"] + 1)
    assert tuple(map(float, found.box)) == wanted


def test_it_is_printed_and_drawn(params, monkeypatch, capsys) -> None:
    call = caller(monkeypatch, capsys)
    given = ("localize", "--run", "toy", "--image", _known()[0], "--phrase", "a red circle", "--phrase", "a star")
    out, _ = output(call, *given, "--out", "boxes.png", "--json")
    assert call(*given, "--out", "boxes.png", "--json")[0] == 0  # over its own drawing
    assert [one["phrase"] for one in json.loads(out)["phrases"]] == ["a red circle", "a star"]
    with Image.open("boxes.png") as page:
        assert (page.format, page.height) == ("PNG", 64 + 2 * 24 + 16)


def test_what_cannot_be_found_is_one_line_and_draws_nothing(params, tmp_path) -> None:
    for content, phrase, error, message in (
        (b"no picture", "a star", UnreadableImage, r"^a\.png is no image"),
        (_known()[0].read_bytes(), "zzz qqq", InputError, "no word of the sentence is in the vocabulary"),
    ):
        question = Question(tmp_path / "a.png", "a.png", (phrase,), tmp_path / "out.png")
        with pytest.raises(error, match=message) as caught:
            localize.localize(params, "toy", content, question, "cpu", False)
        assert ("\n" in str(caught.value), question.out.exists()) == (False, False)


def test_proposals_of_a_file_know_no_photo(root, params) -> None:
    check(params, "toy")
    boxes = {**BOXES, "proposals": "file", "options": {"path": "boxes.npz"}}
    params = load_params(root, **{**NODES, "datasets": {**NODES["datasets"], "boxes": boxes}})
    with pytest.raises(UsageError, match="the proposals of data set 'boxes' are read from a file, which has none for"):
        check(params, "toy")


def _box(text: str, top: int) -> FoundBox:
    return FoundBox(text, Box(5, top, 30, 30), 0.5, 9, Wording())


def test_a_phrase_of_any_length_makes_a_page_of_some_width_and_boxes_and_phrases_have_the_same_colours() -> None:
    assert localize.drawn(Image.new("RGB", (60, 90)), [_box("a\nlong\x1b one " * 60, 5)]).width < 1500
    found = [_box("one", 5), _box("the other", 45)]
    page = np.asarray(localize.drawn(Image.new("RGB", (60, 90), "grey"), found))
    for place, one in enumerate(found):
        colour = tuple(int(localize.COLOURS[place][at : at + 2], 16) for at in (1, 3, 5))
        assert tuple(page[one.box.top + 15, one.box.left + 1]) == tuple(page[90 + 8 + 24 * place + 10, 12]) == colour
