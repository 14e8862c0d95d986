"""A data set of photographs with captions, and tiny models of open_clip with weights of their own, as a hub has them."""

import copy
import csv
import json
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from ruamel.yaml import YAML

from vse_pipe.core.files import sha256
from vse_pipe.core.text import SPECIAL
from vse_pipe.extract import pair as extract_pair
from vse_pipe.project import paths
from vse_pipe.project.params.load import load
from vse_pipe.project.params.typed import Member, Params
from vse_pipe.project.registry import BACKBONES, IMAGE_ENCODERS, LOSSES, SIMILARITIES, TEXT_ENCODERS
from vse_pipe.train.data import Batch
from vse_pipe.train.encoders.open_clip import PairNetwork
from vse_pipe.train.model import DualEncoder, build

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


def built(kind: str = "clip") -> extract_pair.Pair:
    """A pair of MODELS with weights that spread its vectors, or one of open_clip by its name with those it is born with."""
    if kind not in MODELS:
        return extract_pair.load(
            BACKBONES.options("open_clip")(model=kind, weights="random", pretrained="laion2b_s34b_b79k"), 0
        )
    content = copy.deepcopy(MODELS[kind])
    for side in ("vision_cfg", "text_cfg"):
        content["model_cfg"][side]["layers"] = 1
    model = extract_pair.built(content, kind, 0)
    generator = torch.Generator().manual_seed(0)
    for weight in model.parameters():
        if weight.ndim > 1:
            torch.nn.init.normal_(weight, 0.0, 0.3, generator=generator)
    bias = None if model.logit_bias is None else model.logit_bias.item()
    about = {"logit": {"scale": model.logit_scale.exp().item(), "bias": bias}}
    return extract_pair.Pair(model.eval(), content["model_cfg"], model.visual.preprocess_cfg, about)


def network_of(pair: extract_pair.Pair) -> PairNetwork:
    """Both sides of a pair; copies."""
    model = copy.deepcopy(pair.model)
    text = extract_pair.Tower(copy.deepcopy(model), "text")
    options = BACKBONES.options("open_clip")(model="a", weights="random")
    copied = extract_pair.Pair(model, pair.config, pair.preprocessing, {"network": "", "weights": {}, "logit": {}})
    return PairNetwork(BACKBONES.load("open_clip").of_pair(copied, options).module, text, pair.dimensions)


def model_of(pair: extract_pair.Pair, loss: str = "infonce", **options: object) -> DualEncoder:
    """Both sides of the pair train, in training mode. options: of both encoders."""
    sides = [Member("open_clip", family.options("open_clip")(**options)) for family in (IMAGE_ENCODERS, TEXT_ENCODERS)]
    cosine, size = Member("cosine", SIMILARITIES.options("cosine")()), pair.config["text_cfg"].get("vocab_size", 49408)
    shape = (pair.dimensions,), size + len(SPECIAL), pair.dimensions
    model = build(*sides, cosine, *shape, 1, network_of(pair), loss_of(loss))
    assert model.loss is not None
    model.loss.begin_at(**pair.about["logit"])  # type: ignore[operator]
    return model.train()


def loss_of(name: str) -> Member:
    return Member(name, LOSSES.options(name)(**({"learn": True} if name == "infonce" else {})))


def batch_of(count: int = 7, side: int = 32, length: int = 16) -> tuple[Batch, torch.Tensor, torch.Tensor]:
    """A batch of different captions, and open_clip's inputs of it."""
    import open_clip

    rng = np.random.default_rng(0)
    pixels = torch.from_numpy(rng.integers(0, 256, (count, 1, side, side, 3), dtype=np.uint8))
    tokenizer = open_clip.SimpleTokenizer(context_length=length)
    tokens = tokenizer([f"a {WORDS[number % 10]} tree of {number} leaves" for number in range(count)])
    texts = (tokens + len(SPECIAL), torch.full((count,), length))
    mean, std = (
        torch.tensor(values).view(3, 1, 1) for values in (open_clip.OPENAI_DATASET_MEAN, open_clip.OPENAI_DATASET_STD)
    )
    seen = pixels[:, 0].permute(0, 3, 1, 2).float().div(255).sub(mean).div(std)
    return Batch(pixels, texts, torch.arange(count), np.arange(count)), seen, tokens
