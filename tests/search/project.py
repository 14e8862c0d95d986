"""A small project with pictures and several trained runs: what search tests ask."""

import shutil
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
from PIL import Image, ImageDraw

from tests.sealed import sealed
from tests.toy_project import PARAMS, load_params
from vse_pipe.artifacts import captions, features, images
from vse_pipe.core.files import sha256
from vse_pipe.embed.stage import embed
from vse_pipe.extract.stage import extract
from vse_pipe.extract.text_stage import extract_texts
from vse_pipe.inject.stage import inject
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.train.stage import train

COLOURS = ["red", "green", "blue", "black"]
SHAPES = ["disc", "box"]
SPLITS = ["train"] * 20 + ["val"] * 8 + ["test"] * 10
HOSTILE = '<script>alert("1")</script> & <img src=x onerror=alert(2)>'
ROOT = "pictures"


def _run(**members: object) -> dict:
    return {**PARAMS["runs"]["sum"], "features": "filters", **members}


RUNS = {
    "sum": _run(),
    "ordered": _run(similarity="order", options={"text": {"use_abs": True}, "image": {"use_abs": True}}),
    "bags": _run(texts="bags", text="two_branch", image="two_branch"),
    "given": _run(features="plain"),
    "twins": _run(scheme="ncr", loss="max", options={"scheme": {"warm_up": 1}}),
    "scan": _run(features="grid", image="regions", similarity="scan_t2i"),
    "sgr": _run(features="grid", image="regions", similarity="sgr"),
}
_SMALL = {"image_size": 32, "size": 5}
SECTIONS = {
    "features": {
        "plain": {"dataset": "toy", "backbone": "precomp"},
        "filters": {"dataset": "toy", "backbone": "random_filters", "filters": 16, **_SMALL},
        "grid": {
            "dataset": "toy",
            "backbone": "grid",
            "model": "random_filters",
            "model_args": {"filters": 8, "size": 5},
            "image_size": 32,
            "rows": 2,
            "columns": 2,
        },
    },
    "texts": {
        "words": {"dataset": "toy", "method": "words", "min_count": 1, "max_words": 20},
        "bags": {"dataset": "toy", "method": "tfidf"},
    },
    "noises": {"clean": {"dataset": "toy", "protocol": "image", "rate": 0.0}},
    "runs": RUNS,
    "ensembles": {"both": {"runs": ["scan", "sgr"]}},
    "similarity": {"sgr": {"sim_dim": 6, "dropout": 0.1}},
    "text": {"gru": {"word_dim": 6}, "two_branch": {"hidden": 12}},
    "image": {"two_branch": {"hidden": 12}},
    "train": {**PARAMS["train"], "epochs": 2},
}


def params(root: Path, **changes: object) -> Params:
    return load_params(root, **{**SECTIONS, **changes})


def write(root: Path, runs: Iterable[str] = RUNS, leak: bool = False) -> None:
    """Prepared, extracted, and these runs trained and embedded, in the current folder, which is ``root``. leak: the last
    picture of test is one of train."""
    given = params(root)
    _prepare(leak)
    for name in ("filters", "grid"):
        extract(given, name, "cpu")
    for name in ("words", "bags"):
        extract_texts(given, name)
    inject(given, "clean")
    for name in runs:
        train(given, name, "cpu")
        embed(given, name, "cpu")


def _prepare(leak: bool) -> None:
    rng, ids = np.random.default_rng(1), np.arange(len(SPLITS)) * 3 + 5
    Path(ROOT).mkdir()
    texts, owners = [], []
    for place, number in enumerate(ids.tolist()):
        colour, shape = COLOURS[rng.integers(len(COLOURS))], SHAPES[rng.integers(len(SHAPES))]
        _draw(Path(ROOT) / f"{number}.png", colour, shape, rng)
        for words in (f"a {colour} {shape}", f"there is a {shape}, it is {colour} ({number})"):
            texts.append(words)
            owners.append(place)
    files = [f"{number}.png" for number in ids]
    if leak:
        shutil.copy(Path(ROOT) / files[0], Path(ROOT) / files[-1])
    texts[owners.index(SPLITS.index("test"))] = HOSTILE + " a red disc"
    columns = {"image_id": ids, "file": files, "split": SPLITS, "sha256": [sha256(Path(ROOT) / file) for file in files]}
    sizes, prepared = np.full(len(ids), 40, np.int32), paths.prepared("toy")
    images.write(prepared, pa.table({**columns, "width": sizes, "height": sizes}), ROOT)
    columns = {"caption_id": np.arange(len(texts)) + 100, "image_id": ids[owners], "text": texts}
    captions.write(prepared, pa.table({**columns, "split": [SPLITS[owner] for owner in owners]}))
    sealed(prepared)
    index = {"image_id": ids, "row": np.arange(len(ids)), "status": ["ok"] * len(ids), "detail": [""] * len(ids)}
    array = rng.standard_normal((len(ids), 7), np.float32)
    features.write(paths.extracted("toy", "plain"), array, pa.table(index), {"backbone": "precomp"})


def _draw(path: Path, colour: str, shape: str, rng: np.random.Generator) -> None:
    picture = Image.new("RGB", (40, 40), "white")
    x, y = rng.integers(0, 20, 2).tolist()
    pencil = ImageDraw.Draw(picture)
    (pencil.ellipse if shape == "disc" else pencil.rectangle)((x, y, x + 18, y + 18), fill=colour)
    picture.save(path)
