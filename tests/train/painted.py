"""A small project of painted pictures below the working folder: what training on pixels is tested on."""

import hashlib
from pathlib import Path

import numpy as np
import pyarrow as pa
from PIL import Image

from tests.sealed import sealed
from tests.toy_project import PARAMS, load_params
from vse_pipe.artifacts import captions, images
from vse_pipe.extract.stage import extract
from vse_pipe.extract.text_stage import extract_texts
from vse_pipe.inject.stage import inject
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import BACKBONES

RAW = Path("raw")
COLOURS = {"red": (220, 30, 30), "green": (30, 200, 40), "blue": (30, 40, 220), "grey": (128, 128, 128)}
BACKBONE = {
    "dataset": "toy",
    "backbone": "torchvision",
    "model": "shufflenet_v2_x0_5",
    "weights": "random",
    "image_size": 32,
    "precision": "float32",
}
RUN = {**PARAMS["runs"]["sum"], "features": "small", "image": "finetune"}
TRAIN = {"epochs": 4, "batch_size": 8, "lr": 1e-3, "lr_update": 9, "embed_size": 12}


def painted(splits: str = "tttttttttttttvvvvs", each: int = 2) -> None:
    """images and captions of data set ``toy``: two fields of colour an image. splits: t(rain), v(al) or s (test) an image."""
    RAW.mkdir()
    rng = np.random.default_rng(0)
    names = [{"t": "train", "v": "val", "s": "test"}[letter] for letter in splits]
    files, texts = [], []
    for number in range(len(names)):
        left, right = rng.choice(list(COLOURS), 2)
        array = np.empty((36 + number, 50, 3), np.uint8)
        array[:, :25], array[:, 25:] = COLOURS[left], COLOURS[right]
        array += rng.integers(0, 25, array.shape, dtype=np.uint8)
        files.append(f"{number:03d}.png")
        Image.fromarray(array).save(RAW / files[-1])
        texts += [" ".join([left, right, "field"][place:]) for place in range(each)]
    _write(files, names, texts, each)


def _write(files: list[str], splits: list[str], texts: list[str], each: int) -> None:
    ids = 10 * np.arange(len(files)) + 7
    digests = [hashlib.sha256((RAW / file).read_bytes()).hexdigest() for file in files]
    sizes = np.full(len(files), 50, np.int32)
    columns = {"image_id": ids, "file": files, "split": splits, "width": sizes, "height": sizes}
    images.write(paths.prepared("toy"), pa.table({**columns, "sha256": digests}), str(RAW))
    owners = np.repeat(np.arange(len(files)), each)
    columns = {"caption_id": np.arange(len(texts)), "image_id": ids[owners], "text": texts}
    captions.write(paths.prepared("toy"), pa.table({**columns, "split": [splits[o] for o in owners]}))
    sealed(paths.prepared("toy"))


def loaded(image: dict, features: dict | None = None, run: dict = RUN, **train) -> Params:
    """params.yaml with the run ``ft``: image encoder ``finetune`` with the options ``image``."""
    return load_params(
        Path(),
        features={"small": {**BACKBONE, **(features or {})}},
        runs={"ft": run},
        image={"finetune": image},
        train={**TRAIN, **train},
    )


def extracted(params: Params) -> Params:
    """Everything before train."""
    extract(params, "small", "cpu")
    extract_texts(params, "words")
    inject(params, "clean")
    return params


def original() -> dict:
    """Weights of the network that made the features, as the model names them."""
    params = BACKBONES.options("torchvision")(**{k: v for k, v in BACKBONE.items() if k not in ("dataset", "backbone")})
    module = BACKBONES.load("torchvision").build(params, 3).module
    return {f"img.backbone.{name}": value for name, value in module.state_dict().items()}
