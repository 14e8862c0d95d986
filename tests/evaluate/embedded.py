"""data/embed/sum/ of a small project, written with the artefact writers, and its evaluation."""

import numpy as np

from tests.toy_project import load_params
from vse_pipe.artifacts import embeddings
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
