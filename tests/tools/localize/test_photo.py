"""Phrases found in a photo, with a run made by the stages on rendered scenes of four pictures a split."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pipeline.artifacts import embeddings, images, regions
from pipeline.core.device import resolve
from pipeline.core.errors import InputError, UnreadableImage, UsageError
from pipeline.embed.stage import embed
from pipeline.extract.stage import extract
from pipeline.extract.text_stage import extract_texts
from pipeline.inject.stage import inject
from pipeline.pictures.address import Box
from pipeline.prepare.stage import prepare
from pipeline.project import paths
from pipeline.project.params.typed import Params
from pipeline.tools.localize import draw
from pipeline.tools.localize.find import FoundBox, find
from pipeline.tools.localize.stage import localize
from pipeline.tools.search import together
from pipeline.train.stage import train
from tests.command_line import caller
from tests.toy_project import PARAMS, load_params

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
    whole = images.read(paths.prepared("scenes"))
    place = whole["image_id"].to_pylist().index(first)
    return str(images.root(whole) / whole["file"][place].as_py()), {"boxes": own, "vectors": vectors}


def test_a_picture_of_the_data_set_is_seen_as_the_stages_saw_it(root, params) -> None:
    """The same proposals, and the best of them by the same vectors."""
    file, known = _known(root)
    (found,) = find(params, "toy", Path(file).read_bytes(), "photo", ["a red circle"], "cpu")
    assert found.candidates == len(known["boxes"])
    word = together.open_run(params, "toy", "test", resolve("cpu")).sentence("a red circle").side.numpy()[0]
    scores = known["vectors"] @ word
    assert found.score == pytest.approx(scores.max(), abs=1e-4)
    best = known["boxes"][int(scores.argmax())]
    wanted = (best["x1"], best["y1"], best["x2"] - best["x1"] + 1, best["y2"] - best["y1"] + 1)
    assert tuple(map(float, found.box)) == wanted


def test_it_is_printed_and_drawn(root, params, monkeypatch, capsys) -> None:
    call = caller(monkeypatch, capsys)
    given = ("localize", "--run", "toy", "--image", _known(root)[0], "--phrase", "a red circle", "--phrase", "a star")
    status, out, err = call(*given, "--out", "boxes.png", "--json")
    assert status == 0, err
    told = json.loads(out)
    assert [one["phrase"] for one in told["phrases"]] == ["a red circle", "a star"]
    with Image.open("boxes.png") as page:
        assert page.format == "PNG"
        assert page.height == 64 + 2 * 24 + 16


def test_what_cannot_be_found_is_one_line_and_draws_nothing(root, params, tmp_path) -> None:
    out = tmp_path / "out.png"
    content = Path(_known(root)[0]).read_bytes()
    with pytest.raises(UnreadableImage, match=r"no\.jpg"):
        find(params, "toy", b"no picture", "no.jpg", ["a star"], "cpu")
    with pytest.raises(InputError, match="no word of the sentence is in the vocabulary"):
        find(params, "toy", content, "photo", ["zzz qqq"], "cpu")
    with pytest.raises(UsageError, match="name a PNG file in a folder that is there"):
        localize(params, "toy", tmp_path / "a.png", "a.png", ["a star"], tmp_path / "none" / "out.png", "cpu", False)
    assert not out.exists()


def test_boxes_and_phrases_have_the_same_colours() -> None:
    found = [
        FoundBox(name, Box(5, 5 + 40 * place, 30, 30), 0.5, 9, (), ())
        for place, name in enumerate(("one", "the other"))
    ]
    page = np.asarray(draw.drawn(Image.new("RGB", (60, 90), "grey"), found))
    for place, one in enumerate(found):
        colour = tuple(int(draw.COLOURS[place][at : at + 2], 16) for at in (1, 3, 5))
        edge = page[one.box.top + 15, one.box.left + 1]
        swatch = page[90 + 8 + 24 * place + 10, 12]
        assert tuple(edge) == tuple(swatch) == colour
