"""A small project whose images have regions: one region shows one word of the captions, the others noise."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tests.toy_project import PARAMS, WORDS, load_params, write_prepared
from vse_pipe.artifacts import captions, features, images
from vse_pipe.extract.text_stage import extract_texts
from vse_pipe.inject.stage import inject
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params

REGIONS, DIM = 5, 12


def run_of(similarity: str, loss: str = "sum", **changes: object) -> dict:
    members = {"loss": loss, "similarity": similarity, "image": "regions"}
    return {**PARAMS["runs"]["sum"], **members, **changes}


def fragment_params(root: Path, **runs: dict) -> Params:
    """params.yaml with these runs; small learned similarities."""
    small = {name: {"sim_dim": 6, "dropout": 0.1} for name in ("sgr", "saf")}
    text, train = {"gru": {"word_dim": 6, "bidirectional": True}}, {**PARAMS["train"], "epochs": 2}
    return load_params(root, runs=runs, text=text, similarity=small, train=train)


def write_fragment_project(root: Path, **runs: dict) -> Params:
    """Prepared, extracted and injected: ready to train."""
    write_prepared()
    prepared = paths.prepared("toy")
    ids = images.read(prepared)["image_id"].to_numpy()
    texts = captions.read(prepared)
    rng = np.random.default_rng(5)
    array = rng.standard_normal((len(ids), REGIONS, DIM)).astype(np.float32) * 0.3
    for row, image in enumerate(ids):
        first = texts.filter(pc.equal(texts["image_id"], int(image)))["text"][0].as_py().split()
        for region, word in enumerate(first[:REGIONS]):
            array[row, region, WORDS.index(word)] += 2
    index = {"image_id": ids, "row": np.arange(len(ids)), "status": ["ok"] * len(ids), "detail": [""] * len(ids)}
    features.write(paths.extracted("toy", "plain"), array, pa.table(index), {"backbone": "precomp"})
    params = fragment_params(root, **runs)
    inject(params, "clean")
    extract_texts(params, "words")
    return params
