"""The judgements that the optional package ``eccv_caption`` carries, for the 5,000 test images of COCO Captions."""

import importlib.util
from pathlib import Path

import numpy as np

from vse_pipe.core.errors import MissingResource
from vse_pipe.core.files import read_json
from vse_pipe.ranking.metrics.recall import Relevance

# By the name in --qrels, what the package's files begin with.
NAMES = {"eccv_caption": "eccv", "cxc": "cxc"}
_FILES = {"image_to_text": "image_to_caption", "text_to_image": "caption_to_image"}


def read(name: str) -> Relevance:
    """``eccv_caption``: Chun et al., ECCV Caption, ECCV 2022: 1,261 images and 1,332 captions, judged by machines and people;
    ``cxc``: Parekh et al., Crisscrossed Captions, EACL 2021, its positive pairs.

    Ids are COCO's own: image ids, and the ids of the captions' annotations. The files are read without importing the
    package, which warns of packages it could do with. Raises MissingResource where it is not installed.
    """
    found = importlib.util.find_spec("eccv_caption")
    if found is None or found.origin is None:
        raise MissingResource(
            f"--qrels {name} takes the judgements of the package eccv_caption, which is not installed: "
            "pip install 'vse-pipe[eccv]'"
        )
    data = Path(found.origin).parent / "data"
    return Relevance({direction: _pairs(data / f"{NAMES[name]}_{file}.json") for direction, file in _FILES.items()})


def _pairs(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """The keys of the document are the queries' ids as text, its values lists of the ids of correct items."""
    correct = read_json(path)
    queries = np.array(list(correct), dtype=np.int64)
    counts = np.fromiter(map(len, correct.values()), np.int64, len(correct))
    items = np.fromiter((item for found in correct.values() for item in found), np.int64, int(counts.sum()))
    return np.repeat(queries, counts), items
