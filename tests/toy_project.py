"""A small project below a temporary folder, written with the artefact writers: what stage tests run on."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from ruamel.yaml import YAML

from tests.sealed import sealed
from vse_pipe.artifacts import captions, decisions, features, identity, images, pairs
from vse_pipe.papers import overlay
from vse_pipe.project import paths
from vse_pipe.project.params.load import load
from vse_pipe.project.params.typed import Params

WORDS = ["red", "blue", "green", "big", "small", "round", "square", "dog", "cat", "tree"]
PARAMS = {
    "seed": 3,
    "grid": {"inferences": ["nns"]},
    "datasets": {"toy": {"format": "csv", "source": "toy.csv"}},
    "features": {"plain": {"dataset": "toy", "backbone": "precomp"}},
    "texts": {"words": {"dataset": "toy", "method": "words", "min_count": 1}},
    "noises": {
        "clean": {"dataset": "toy", "protocol": "image", "rate": 0.0},
        "half": {"dataset": "toy", "protocol": "caption", "rate": 0.5},
    },
    "runs": {
        "sum": {
            **{"dataset": "toy", "features": "plain", "texts": "words", "noise": "clean", "loss": "sum"},
            **{"scheme": "plain", "similarity": "cosine", "text": "gru", "image": "linear"},
        }
    },
    "train": {"epochs": 4, "batch_size": 8, "lr": 1e-2, "lr_update": 2, "embed_size": 12},
    "evaluate": {},
    "report": {},
    "text": {"gru": {"word_dim": 6}},
}


def write_params(root: Path, **changes: object) -> Path:
    """params.yaml with whole sections replaced by ``changes``."""
    path = root / "params.yaml"
    with path.open("w", encoding="utf-8") as file:
        YAML().dump({**PARAMS, **changes}, file)
    return path


def load_params(root: Path, **changes: object) -> Params:
    return load(write_params(root, **changes), further=[overlay.row_problems])  # as commands read it


def write_word_vectors() -> None:
    """words.npz: random vectors of eight numbers for ``WORDS``."""
    vectors = np.random.default_rng(1).standard_normal((len(WORDS), 8)).astype(np.float32)
    np.savez("words.npz", words=np.array(WORDS), vectors=vectors)


def write_prepared(
    train: int = 30,
    val: int = 8,
    test: int = 6,
    dim: int = 10,
    seed: int = 0,
    dataset: str = "toy",
    extracted: str = "plain",
    known: Sequence[str] = WORDS,
) -> None:
    """images, captions and features of a data set; each caption names, of the words ``known``, what its image's features show."""
    rng = np.random.default_rng(seed)
    splits = ["train"] * train + ["val"] * val + ["test"] * test
    n = len(splits)
    shown = rng.random((n, dim)) < 0.4
    shown[~shown.any(axis=1), 0] = True
    array = (shown + 0.1 * rng.standard_normal((n, dim))).astype(np.float32)
    ids = np.arange(n) * 10 + 7
    folder = paths.prepared(dataset)
    folder.mkdir(parents=True)
    zeros = np.zeros(n, np.int32)
    columns = {"image_id": ids, "file": [f"toy.npy#{row}" for row in range(n)], "split": splits}
    images.write(folder, pa.table({**columns, "width": zeros, "height": zeros, "sha256": ["0"] * n}), ".")
    owners = [image for image in range(n) for _ in range(1 + image % 3)]
    texts = [" ".join(rng.permutation(np.array(known)[shown[image]])) for image in owners]
    columns = {"caption_id": np.arange(len(texts)), "image_id": ids[owners], "text": texts}
    captions.write(folder, pa.table({**columns, "split": [splits[owner] for owner in owners]}))
    sealed(folder)
    out = paths.extracted(dataset, extracted)
    out.mkdir(parents=True)
    index = pa.table({"image_id": ids, "row": np.arange(n), "status": ["ok"] * n, "detail": [""] * n})
    features.write(out, array, index, {"backbone": "precomp"})
    identity.write(out, identity.parts_of(folder, "images"), {"features": features.read(out).meta["sha256"]})


def ready(params: Params) -> Params:
    """Every noise injected and every kind of texts extracted in the working directory; every run trained and embedded."""
    from vse_pipe.embed.stage import embed
    from vse_pipe.extract.text_stage import extract_texts
    from vse_pipe.inject.stage import inject
    from vse_pipe.train.stage import train

    for name in params.noises:
        inject(params, name)
    for name in params.texts:
        extract_texts(params, name)
    for name in params.runs:
        train(params, name, "cpu")
        embed(params, name, "cpu")
    return params


@contextmanager
def kept(*paths: Path) -> Iterator[None]:
    """These files, and those below these folders, are afterwards what they are now."""
    files = [file for path in paths for file in (path.rglob("*") if path.is_dir() else [path]) if file.is_file()]
    before = {file: file.read_bytes() for file in files}
    try:
        yield
    finally:
        for file, content in before.items():
            if not file.exists() or file.read_bytes() != content:
                file.unlink(missing_ok=True)  # whoever has the other one mapped keeps it
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)


def write_decisions(dataset: str, rows: Sequence[dict], noise: str | None = None, path: str = "decisions.csv") -> None:
    """Decisions as a review writes them, on the pairs of ``noise`` or on those of the data set. rows: what is not given
    of a picture or caption is that of the prepared tables."""
    prepared = paths.prepared(dataset)
    sentences = captions.read(prepared)
    if noise is not None:
        shown = pairs.read(paths.injected(dataset, noise))["image_id"]
        sentences = sentences.set_column(sentences.schema.get_field_index("image_id"), "image_id", shown)
    given = pd.DataFrame(list(rows)).reindex(columns=list(decisions.COLUMNS))
    given["other"] = given["other"].astype("Int64")
    described = decisions.described(given, images.read(prepared), sentences)
    decisions.write(Path(path), given.where(given.notna(), described))
