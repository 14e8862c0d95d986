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
from vse_pipe.core.devices import resolve_device
from vse_pipe.core.errors import InputError, UnreadableImage, UsageError
from vse_pipe.embed.stage import embed
from vse_pipe.extract.stage import extract
from vse_pipe.extract.text_stage import extract_texts
from vse_pipe.inject.stage import inject
from vse_pipe.pictures import images
from vse_pipe.pictures.address import Box
from vse_pipe.prepare.stage import prepare
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.tools import localize
from vse_pipe.tools.localize import FoundBox, Question, check, find, unpacked
from vse_pipe.tools.localize import localize as localize_localize
from vse_pipe.tools.search.network import open_run
from vse_pipe.train.stage import train

pytestmark = pytest.mark.acceptance
COUNTS = {"train": 8, "val": 4, "test": 4}
NODES = {
    "datasets": {
        "scenes": {"format": "shapes", "source": ".", "phrases": True, "pixels": 64, **COUNTS},
        "boxes": {"format": "regions", "source": "data/prepare/scenes", "count": 12},
    },
    "features": {"crops": {"dataset": "boxes", "backbone": "random_filters", "image_size": 16, "filters": 8}},
    "texts": {"bags": {"dataset": "boxes", "method": "tfidf"}},
    "noises": {"shown": {"dataset": "boxes", "protocol": "image", "rate": 0.0}},
    "runs": {
        "toy": {
            **PARAMS["runs"]["sum"],
            **{"dataset": "boxes", "features": "crops", "texts": "bags", "noise": "shown", "text": "two_branch"},
        }
    },
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


def _known(root) -> tuple[str, dict]:
    """A test picture's file, and its proposals with their embeddings."""
    table = regions.read(paths.prepared("boxes")).to_pylist()
    first = next(row["source_id"] for row in table if row["split"] == "test")
    own = [row for row in table if row["source_id"] == first and row["proposed"]]
    side = embeddings.read(paths.embedded("toy") / embeddings.IMAGES)
    rows = dict(zip(side.ids.tolist(), side.vectors, strict=True))
    vectors = np.stack([rows[row["image_id"]] for row in own])
    whole = artefact.read(paths.prepared("scenes"))
    place = whole["image_id"].to_pylist().index(first)
    return str(artefact.root(whole) / whole["file"][place].as_py()), {"boxes": own, "vectors": vectors}


def test_a_picture_of_the_data_set_is_seen_as_the_stages_saw_it(root, params) -> None:
    """The same proposals, and the best of them by the same vectors."""
    file, known = _known(root)
    with unpacked(Path(file).read_bytes(), "photo") as photo:
        (found,) = find(params, "toy", photo, ["a red circle"], "cpu")
    assert found.candidates == len(known["boxes"])
    word = open_run(params, "toy", "test", resolve_device("cpu")).sentence("a red circle").side.numpy()[0]
    scores = known["vectors"] @ word
    assert found.score == pytest.approx(scores.max(), abs=1e-4)
    best = known["boxes"][int(scores.argmax())]
    wanted = (best["x1"], best["y1"], best["x2"] - best["x1"] + 1, best["y2"] - best["y1"] + 1)
    assert tuple(map(float, found.box)) == wanted


def test_it_is_printed_and_drawn(root, params, monkeypatch, capsys) -> None:
    call = caller(monkeypatch, capsys)
    given = ("localize", "--run", "toy", "--image", _known(root)[0], "--phrase", "a red circle", "--phrase", "a star")
    out, _ = output(call, *given, "--out", "boxes.png", "--json")
    assert call(*given, "--out", "boxes.png", "--json")[0] == 0  # over its own drawing
    told = json.loads(out)
    assert [one["phrase"] for one in told["phrases"]] == ["a red circle", "a star"]
    with Image.open("boxes.png") as page:
        assert page.format == "PNG"
        assert page.height == 64 + 2 * 24 + 16


def test_what_cannot_be_found_is_one_line_and_draws_nothing(root, params, tmp_path) -> None:
    def refused(content: bytes, phrase: str, error: type, pattern: str) -> None:
        question = Question(tmp_path / "a.png", "a.png", (phrase,), tmp_path / "out.png")
        with pytest.raises(error, match=pattern) as caught:
            localize_localize(params, "toy", content, question, "cpu", False)
        assert "\n" not in str(caught.value)
        assert not question.out.exists()

    refused(b"no picture", "a star", UnreadableImage, r"^a\.png is no image")
    known = Path(_known(root)[0]).read_bytes()
    refused(known, "zzz qqq", InputError, "no word of the sentence is in the vocabulary")


def test_a_photo_is_decoded_once(root, params, tmp_path, monkeypatch) -> None:
    times, decode = [], images._decoded
    monkeypatch.setattr(images, "_decoded", lambda *given: times.append(given) or decode(*given))
    content = Path(_known(root)[0]).read_bytes()
    localize_localize(
        params, "toy", content, Question(tmp_path, "a", ("a star", "a circle"), tmp_path / "o.png"), "cpu", False
    )
    assert len(times) == 1


def test_proposals_of_a_file_know_no_photo(root, params) -> None:
    check(params, "toy")
    boxes = {**NODES["datasets"]["boxes"], "proposals": "file", "options": {"path": "boxes.npz"}}
    params = load_params(root, **{**NODES, "datasets": {**NODES["datasets"], "boxes": boxes}})
    with pytest.raises(UsageError, match="the proposals of data set 'boxes' are read from a file, which has none for"):
        check(params, "toy")


def test_a_phrase_of_any_length_makes_a_page_of_some_width() -> None:
    found = [FoundBox("a\nlong\x1b one " * 60, Box(5, 5, 30, 30), 0.5, 9, (), ())]
    assert localize.drawn(Image.new("RGB", (60, 90)), found).width < 1500


def test_boxes_and_phrases_have_the_same_colours() -> None:
    found = [
        FoundBox(name, Box(5, 5 + 40 * place, 30, 30), 0.5, 9, (), ())
        for place, name in enumerate(("one", "the other"))
    ]
    page = np.asarray(localize.drawn(Image.new("RGB", (60, 90), "grey"), found))
    for place, one in enumerate(found):
        colour = tuple(int(localize.COLOURS[place][at : at + 2], 16) for at in (1, 3, 5))
        edge = page[one.box.top + 15, one.box.left + 1]
        swatch = page[90 + 8 + 24 * place + 10, 12]
        assert tuple(edge) == tuple(swatch) == colour
