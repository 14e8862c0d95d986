"""A run of every scheme on the toy data set, for tests that hold for all of them."""

from pathlib import Path

from tests.toy_project import PARAMS, load_params, write_word_vectors
from tests.train.some import ready
from vse_pipe.extract.text_stage import extract_texts
from vse_pipe.project.params.typed import Params

SUM = PARAMS["runs"]["sum"]
VECTORS = {"text": "two_branch", "texts": "means"}
# What each scheme needs beside the run of tests/toy_project.py.
RUNS = {
    "bicro": {"loss": "max", "options": {"scheme": {"warm_up": 1}}},
    "cca": {**VECTORS, "options": {"text": {"nonlinear": False}}, "train": {"epochs": 1, "embed_size": 5}},
    "crcl": {"loss": "crcl"},
    "decl": {"loss": "decl", "options": {"scheme": {"warm_up": 1}}},
    "l2rm": {"options": {"scheme": {"warm_up": 1}}},
    "memory_bank": {"loss": "hal"},
    "matryoshka": {"options": {"scheme": {"dims": [4]}}},
    "ncr": {"loss": "max", "options": {"scheme": {"warm_up": 1}}},
    "plain": {"loss": "max"},
    "ridge": {
        **VECTORS,
        "options": {"text": {"nonlinear": False}, "scheme": {"strengths": [0.1, 1.0]}},
        "train": {"epochs": 2, "embed_size": 10},
    },
}
# distil needs a teacher, hard_negatives regions, zero_shot a pretrained pair.
ELSEWHERE = {"distil", "hard_negatives", "zero_shot"}


def params_of(root: Path, scheme: str, noise: str = "clean", images: int = 12, **changes) -> Params:
    """The project in the working directory, everything before ``train`` done, with a run ``r``."""
    write_word_vectors()
    means = {"dataset": "toy", "method": "mean_vectors", "vectors": "words.npz"}
    run = {**SUM, "train": {"epochs": 2, "batch_size": 16}, "scheme": scheme, "noise": noise, **RUNS[scheme], **changes}
    params = ready(load_params(root, runs={"r": run}, texts={**PARAMS["texts"], "means": means}), noise, train=images)
    if run["texts"] == "means":
        extract_texts(params, "means")
    return params
