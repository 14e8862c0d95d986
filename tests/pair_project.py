"""A data set of photographs with captions, and tiny models of open_clip with weights of their own, as a hub has them."""

import csv
import json
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from ruamel.yaml import YAML

from vse_pipe.core.files import sha256
from vse_pipe.project import paths
from vse_pipe.project.params.load import load
from vse_pipe.project.params.typed import Params

CONFIG = "open_clip_config.json"
WEIGHTS = "open_clip_model.safetensors"
WORDS = ["red", "blue", "green", "big", "small", "round", "square", "dog", "cat", "tree"]
_VISION = {"image_size": 32, "layers": 1, "width": 32, "head_width": 16, "patch_size": 16}
_TEXT = {"context_length": 16, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 1}
_SIGLIP_TEXT = {**_TEXT, "no_causal_mask": True, "proj_bias": True, "pool_type": "last"}
_POOLER = {**_VISION, "attentional_pool": True, "attn_pooler_heads": 4, "output_tokens": True}
_DECODER = {**_TEXT, "embed_cls": True, "output_tokens": True}
_HALVES = [0.5, 0.5, 0.5]
_SQUASH = {"mean": _HALVES, "std": _HALVES, "resize_mode": "squash", "interpolation": "bicubic"}


def _model(vision: dict, text: dict, preprocess: dict, **more: object) -> dict:
    model = {"embed_dim": 16, "vision_cfg": vision, "text_cfg": text, **more}
    return {"model_cfg": model, "preprocess_cfg": preprocess}


MODELS = {
    "clip": _model(_VISION, _TEXT, {}),
    "siglip": _model(_VISION, _SIGLIP_TEXT, _SQUASH, custom_text=True, init_logit_bias=-10),
    "coca": _model(
        *(_POOLER, _DECODER, {"interpolation": "bilinear"}),
        **{"custom_text": True, "multimodal_cfg": {**_TEXT, "attn_pooler_heads": 2}},
    ),
}
RUN = {
    **{"dataset": "photos", "features": "seen", "texts": "said", "noise": "clean", "loss": "infonce"},
    **{"scheme": "zero_shot", "similarity": "cosine", "text": "identity", "image": "identity"},
}
PARAMS: dict = {
    "seed": 3,
    "grid": {"inferences": ["nns", "csls"]},
    "datasets": {"photos": {"format": "csv", "source": "raw/photos.csv"}},
    "noises": {"clean": {"dataset": "photos", "protocol": "image", "rate": 0.0}},
    "train": {"epochs": 1, "batch_size": 8, "embed_size": 8},
    "evaluate": {"resamples": 0},
    "report": {},
    "inference": {"csls": {"k": 3}},
}


def photo(number: int, size: tuple[int, int] = (640, 480)) -> Image.Image:
    """Smooth fields of colour with noise on them: what a photograph is to a resize."""
    random = np.random.default_rng(number)
    coarse = Image.fromarray(random.integers(0, 256, (6, 8, 3), dtype=np.uint8)).resize(size, Image.Resampling.BICUBIC)
    noise = random.integers(-20, 21, (size[1], size[0], 3))
    return Image.fromarray(np.clip(np.asarray(coarse, dtype=np.int64) + noise, 0, 255).astype(np.uint8))


def write_photos(train: int = 6, val: int = 4, test: int = 12) -> None:
    """raw/photos.csv with JPEGs beside it, two captions each."""
    folder = Path("raw")
    folder.mkdir()
    random = np.random.default_rng(5)
    splits = ["train"] * train + ["val"] * val + ["test"] * test
    with (folder / "photos.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["image", "caption", "split"])
        for number, split in enumerate(splits):
            photo(number, (160, 120)).save(folder / f"{number}.jpg", quality=95)
            for _ in range(2):
                writer.writerow([f"{number}.jpg", f"A {' '.join(random.choice(WORDS, 4))}, {number}.", split])


def write_model(kind: str, seed: int = 0, name: str = "") -> Path:
    """A folder that open_clip opens as ``local-dir:``, with weights that spread its vectors."""
    import open_clip

    from vse_pipe.extract.pair import folder

    out = Path("models") / (name or kind)
    out.mkdir(parents=True)
    (out / CONFIG).write_text(json.dumps(MODELS[kind]))
    with torch.random.fork_rng(), folder(MODELS[kind]) as place:
        torch.manual_seed(seed)
        model = open_clip.create_model(place, load_weights=False)
        state = {key: value.clone().contiguous() for key, value in model.state_dict().items()}
    for value in state.values():
        if value.ndim > 1:
            value.normal_(0.0, 0.3, generator=torch.Generator().manual_seed(seed))
    from safetensors.torch import save_file

    save_file(state, out / WEIGHTS)
    return out


def named(model: Path) -> dict:
    """The options that both sides have."""
    return {"model": str(model / CONFIG), "weights": str(model / WEIGHTS), "sha256": sha256(model / WEIGHTS)}


def loaded(model: Path, runs: dict | None = None, **changes: object) -> Params:
    """params.yaml of the photographs and the pair in ``model``."""
    pair = named(model)
    content = {
        **PARAMS,
        "features": {"seen": {"dataset": "photos", "backbone": "open_clip", **pair}},
        "texts": {"said": {"dataset": "photos", "method": "open_clip", "device": "cpu", **pair}},
        "runs": runs or {"zero": RUN},
        **changes,
    }
    with paths.PARAMS.open("w", encoding="utf-8") as file:
        YAML().dump(content, file)
    return load(paths.PARAMS)
