"""data/embed/sum/ of a small project, written with the artefact writers, and its evaluation."""

import numpy as np
import pyarrow as pa

from tests.sealed import sealed
from tests.toy_project import load_params
from vse_pipe.artifacts import captions, embeddings, identity, images
from vse_pipe.artifacts.embeddings import Side
from vse_pipe.evaluate.stage import evaluate
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params

ABOUT = {"run": "sum", "model_sha256": "0" * 64, "similarity": "cosine", "similarity_params": "{}"}
ABOUT |= {"normalised": "true"}
SPLITS = {"train": 6, "val": 20, "test": 24}


def sides(images: dict[str, int] = SPLITS, dim: int = 8, noise: float = 0.6, seed: int = 0) -> tuple[Side, Side]:
    """Unit vectors; image i has 1 + i mod 4 captions near it. images: how many in each split. Ids are neither dense nor
    sorted, captions of the splits are interleaved."""
    rng = np.random.default_rng(seed)
    splits = np.repeat(np.array(list(images), dtype=object), list(images.values()))
    ids = rng.permutation(len(splits)).astype(np.int64) * 10 + 7
    vectors = rng.standard_normal((len(ids), dim))
    owners = rng.permutation(np.repeat(np.arange(len(ids)), 1 + np.arange(len(ids)) % 4))
    texts = vectors[owners] + noise * rng.standard_normal((len(owners), dim))
    caption_ids = np.arange(len(owners), dtype=np.int64)[::-1] + 1000
    captions = Side(caption_ids, ids[owners], splits[owners], _unit(texts), dict(ABOUT))
    return Side(ids, ids, splits, _unit(vectors), dict(ABOUT)), captions


def write(images: Side, captions: Side) -> None:
    folder = paths.embedded("sum")
    folder.mkdir(parents=True, exist_ok=True)
    embeddings.write(folder / embeddings.IMAGES, images)
    embeddings.write(folder / embeddings.CAPTIONS, captions)
    read = identity.parts_of(paths.prepared("toy"), "train", "val", "test")
    read |= identity.parts_of(paths.trained("sum"))
    identity.write(folder, read, {"vectors": embeddings.digest(folder)})


def write_dataset(splits: dict[str, int] = SPLITS) -> tuple[Side, Side]:
    """``write`` of ``sides``, and the data set with its pictures in the other order; every second caption has three words."""
    seen, read = sides(splits)
    write(seen, read)
    folder, blank = paths.prepared("toy"), dict.fromkeys(("width", "height"), np.zeros(len(seen.ids), np.int32))
    folder.mkdir(parents=True)
    pictures = {
        "image_id": seen.ids[::-1],
        "file": [f"{i}.jpg" for i in seen.ids[::-1]],
        "split": seen.splits[::-1],
        **blank,
    }
    images.write(folder, pa.table({**pictures, "sha256": ["0"] * len(seen.ids)}), "photos")
    texts = {"caption_id": read.ids, "image_id": read.image_ids, "split": read.splits}
    captions.write(folder, pa.table({**texts, "text": [f"text {i}" + " more" * (i % 2) for i in read.ids]}))
    sealed(folder)
    return seen, read


def _unit(vectors: np.ndarray) -> np.ndarray:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def ways(split: str = "test", **drawn) -> dict[str, tuple]:
    """Of ``sides`` by direction: scores, ids of queries and items, the images of both."""
    seen, read = (side.split(split) for side in sides(**drawn))
    scores = seen.vectors.astype(np.float64) @ read.vectors.T.astype(np.float64)
    return {
        "image_to_text": (scores, seen.ids, read.ids, seen.ids, read.image_ids),
        "text_to_image": (scores.T, read.ids, seen.ids, read.image_ids, seen.ids),
    }


def correct(own: np.ndarray, others: np.ndarray) -> list[set[int]]:
    """Of each query the columns of its image."""
    return [set(np.flatnonzero(others == image).tolist()) for image in own]


RGM = {"rgm": {"grid": [1.0, 1.5, 3.0]}}


def params(root, inference=RGM, **options) -> Params:
    return load_params(root, evaluate=options, inference=inference)


def measured(options: Params, inference: str) -> dict:
    return evaluate(options, "sum", [inference], "cpu")[inference]
