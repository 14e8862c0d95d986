"""Pretrained pairs of open_clip: architecture, weights, preprocessing, tokenizer and towers."""

import contextlib
import json
import logging
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal

from torch import Tensor, nn

from vse_pipe.core import devices, errors, weights
from vse_pipe.core.files import read_json, sha256
from vse_pipe.extract.backbones.options import PairParams
from vse_pipe.pictures.images import Transform

_MODES = {"shortest": "shorter", "squash": "exact"}


def transform(preprocessing: dict, name: str) -> Transform:
    """The evaluation transform of open_clip. preprocessing: as its ``PreprocessCfg``."""
    size, mode = preprocessing["size"], preprocessing["resize_mode"]
    sides = {size} if isinstance(size, int) else set(size)
    if len(sides) != 1 or mode not in _MODES:
        raise errors.UsageError(
            f"open_clip {name} sees pictures of size {size}, resized by '{mode}'; known: squares by {', '.join(_MODES)}"
        )
    side = sides.pop()
    return Transform(
        image_size=side,
        resize=side,
        resize_mode=_MODES[mode],
        interpolation="bilinear" if preprocessing["interpolation"] == "bilinear" else "bicubic",
        crops="center",
        mean=tuple(preprocessing["mean"]),
        std=tuple(preprocessing["std"]),
    )


_URL = "https://huggingface.co/{}/{}/resolve/main/{}"
_HUB_FILE = "open_clip_model.safetensors"
_NEEDED = ("embed_dim", "vision_cfg", "text_cfg")


@dataclass(frozen=True)
class Architecture:
    """content: model_cfg and preprocess_cfg, as in a hub's open_clip_config.json; tag: name of the
    published weights, None for other weights; source: address of weights to fetch; file:
    description of the architecture's file, for meta.json."""

    name: str
    content: dict
    tag: str | None
    source: weights.WeightsFile | None
    file: dict | None = None


def published_architecture(options: PairParams) -> Architecture:
    """The architecture that ``options`` name.

    Raises UnknownMember for a name that open_clip does not have, UsageError for options that
    contradict it, MissingResource without the file or the package, InputError for a file that
    describes no model."""
    if options.file is not None and not options.file.is_file():
        raise errors.MissingResource(f"{options.file.absolute()}: no such weights file")
    tag = options.pretrained if options.file or options.weights == "random" else options.weights
    if options.described is not None:
        return _described(options.described, tag)
    open_clip, name = _open_clip(), options.model
    config = model_config(name)
    names = open_clip.list_pretrained_tags_by_model(name)
    tags = {each: open_clip.get_pretrained_cfg(name, each) for each in names}
    source = None
    if tag is not None:
        if tag not in tags:
            raise errors.UnknownMember(errors.unknown(f"weights of open_clip {name}", tag, tags))
        _require_activation(name, config, tag, tags[tag])
        source = None if options.pretrained else _source(tags[tag])
    content = {"model_cfg": config, "preprocess_cfg": _preprocessing(name, tag, tags)}
    return Architecture(name, content, tag, source)


def model_config(model: str) -> dict:
    """The architecture by its name or JSON file. Raises as ``published_architecture``."""
    if model.endswith(".json"):
        return _content_in(Path(model).expanduser())["model_cfg"]
    open_clip = _open_clip()
    if model not in (names := open_clip.list_models()):
        advice = f"open_clip.list_models() names all {len(names)}"
        raise errors.UnknownMember(errors.missing(f"unknown open_clip model '{model}'", model, names, advice))
    return open_clip.get_model_config(model)


def _open_clip() -> Any:
    try:
        import open_clip  # seconds
    except ImportError as error:
        raise errors.missing_package("a pretrained pair", "open_clip_torch") from error
    return open_clip


def _content_in(path: Path) -> dict:
    """model_cfg and preprocess_cfg of the file."""
    if not path.is_file():
        raise errors.MissingResource(f"{path.absolute()}: no such file; model is a name of open_clip or a JSON file")
    content = read_json(path)
    content = content if "model_cfg" in content else {"model_cfg": content}
    lacking = [key for key in _NEEDED if key not in (content["model_cfg"] or {})]
    if lacking:
        raise errors.InputError(f"{path}: describes no model of open_clip: it has no {', '.join(lacking)}")
    return {key: content.get(key) or {} for key in ("model_cfg", "preprocess_cfg")}


def _described(path: Path, tag: str | None) -> Architecture:
    content = _content_in(path)
    if tag is not None:
        raise errors.UnknownMember(f"{path}: open_clip knows no weights '{tag}' of it; give weights as a file")
    about = {"origin": "file", "file": path.name, "sha256": sha256(path)}
    return Architecture(path.stem, content, None, None, about)


def _preprocessing(name: str, tag: str | None, tags: dict[str, dict]) -> dict:
    """The preprocessing of the tag, or that of all published weights when they agree."""
    from open_clip.transform import merge_preprocess_dict

    chosen = tags.values() if tag is None else [tags[tag]]
    ways = [merge_preprocess_dict({}, config) for config in chosen]
    if any(way != ways[0] for way in ways):
        raise errors.UsageError(
            f"weights of open_clip {name} were published with several ways of preprocessing; set "
            f"pretrained to those that yours began from: {', '.join(tags)}"
        )
    return ways[0] if ways else {}


def _require_activation(name: str, config: dict, tag: str, published: dict) -> None:
    """Raise UsageError for another activation than the weights'; open_clip only warns of it."""
    quick, published_quick = config.get("quick_gelu", False), published.get("quick_gelu", False)
    alternative = f"{name}-quickgelu" if published_quick else name.removesuffix("-quickgelu")
    if quick != published_quick and alternative in _open_clip().list_models():
        raise errors.UsageError(
            f"weights '{tag}' of open_clip {name} were trained with another activation; set model: {alternative}"
        )


def _source(published: dict) -> weights.WeightsFile:
    """The file on the hub (needs ``sha256``), or that of the release."""
    owner, _, rest = published["hf_hub"].partition("/")
    if not owner:
        return weights.source_of(published["url"])
    name, _, file = rest.partition("/")
    file = file or _HUB_FILE
    url = _URL.format(owner, name, file)
    return weights.WeightsFile(url, f"{owner}-{name}{Path(file).suffix}", "")


# Attributes of the side that is not used; they are removed to save memory.
_OTHER = {
    "image": ("text", "transformer", "token_embedding", "ln_final", "text_decoder"),
    "text": ("visual", "text_decoder"),
}
_UNFIT = (AssertionError, AttributeError, ImportError, KeyError, OSError, RuntimeError, TypeError, ValueError)


class Tower(nn.Module):
    """Pixels (B, 3, S, S), or token ids (B, L), to (B, D), not normalised, by one tower."""

    # open_clip's models have no base class.
    model: Any

    def __init__(self, model: nn.Module, side: Literal["image", "text"]) -> None:
        super().__init__()
        for name in _OTHER[side]:
            if isinstance(getattr(model, name, None), nn.Module):
                setattr(model, name, None)
        self.model, self.side = model, side

    def forward(self, inputs: Tensor) -> Tensor:
        encode = self.model.encode_image if self.side == "image" else self.model.encode_text
        return encode(inputs, normalize=False)


@dataclass(frozen=True)
class Pair:
    """config: of the architecture, as in open_clip's JSON files; preprocessing: as open_clip has
    it; about: network, weights, scale and bias of the logits, for meta.json."""

    model: nn.Module
    config: dict
    preprocessing: dict
    about: dict

    @property
    def dimensions(self) -> int:
        """D of a vector, the same on both sides."""
        return self.config["embed_dim"]


def load(options: PairParams, seed: int) -> Pair:
    """The model that ``options`` name, in evaluation mode and on the CPU; random weights are drawn
    by ``seed``.

    Raises as ``published_architecture``, MissingResource and IntegrityError for missing and other
    weights, UsageError for what open_clip cannot build."""
    architecture = published_architecture(options)
    source = weights.locate(options.weights, options.sha256, architecture.source, seed)
    model = built(architecture.content, architecture.name, seed, source.path)
    scale, bias = model.logit_scale.detach().exp().item(), model.logit_bias
    about = {
        "network": f"open_clip {architecture.name}",
        "weights": source.about,
        "pretrained": architecture.tag,
        "logit": {"scale": scale, "bias": None if bias is None else bias.item()},
    }
    if architecture.file is not None:
        about["architecture"] = architecture.file
    return Pair(model.eval(), architecture.content["model_cfg"], model.visual.preprocess_cfg, about)


def built(content: dict, name: str, seed: int, path: Path | None = None) -> Any:
    """The model, with random weights or those of the file. content: as of ``Architecture``."""
    with folder(content) as place:
        model = devices.seeded(partial(_make, place, name), seed, "open_clip", name)
    if path is not None:
        _fill(model, path)
    return model


@contextlib.contextmanager
def folder(content: dict, files: Path | None = None) -> Iterator[str]:
    """The name by which open_clip reads a temporary folder like one of a hub. files: a folder whose
    files are linked too.

    The warning of open_clip that the folder holds no weights is silenced."""
    root, silent = logging.getLogger(), logging.NullHandler()
    with tempfile.TemporaryDirectory(prefix="vse-pipe-") as directory:
        (Path(directory) / "open_clip_config.json").write_text(json.dumps(content), encoding="utf-8")
        for file in files.iterdir() if files else ():
            (Path(directory) / file.name).symlink_to(file.absolute())
        root.addHandler(silent)  # without any handler, its first warning would set up one for good
        logging.disable(logging.WARNING)
        try:
            yield f"local-dir:{directory}"
        finally:
            logging.disable(logging.NOTSET)
            root.removeHandler(silent)


@lru_cache(maxsize=2)  # opening one takes a second
def pair_tokenizer(model: str, files: str | None) -> tuple[Any, dict]:
    """The function from n sentences to token ids (n, L), and the architecture. model: as of
    ``model_config``; files: the folder of its files, where the tokenizer does not come with
    open_clip. Raises as ``model_config``, and MissingResource without these files."""
    config, where = model_config(model), Path(files).expanduser() if files else None
    import open_clip

    hub = config["text_cfg"].get("hf_tokenizer_name")
    if hub and (where is None or not where.is_dir()):
        raise errors.MissingResource(
            f"the tokenizer of open_clip {model} is that of {hub} on the model hub: fetch it with `hf download {hub} --include "
            "'*token*' 'spiece*' --local-dir FOLDER` and set tokenizer: FOLDER beside model"
        )
    with folder({"model_cfg": config}, where if hub else None) as place:
        try:
            return open_clip.get_tokenizer(place), config
        except _UNFIT as error:
            needs = "; pip install transformers" if isinstance(error, ImportError) else ""
            raise errors.MissingResource(
                f"{where}: no tokenizer of open_clip {model} ({errors.first_line(error)}){needs}"
            ) from error


def _make(place: str, name: str) -> Any:
    import open_clip

    try:
        return open_clip.create_model(place, load_weights=False, pretrained_text=False)
    except _UNFIT as error:
        raise errors.UsageError(f"open_clip cannot build {name}: {errors.first_line(error)}") from error


def _fill(model: Any, path: Path) -> None:
    """Load all weights of the file, renamed to the keys of this version of open_clip."""
    from open_clip.convert import convert_state_dict
    from open_clip.model import convert_to_custom_text_state_dict

    state = devices.read_weights(path)
    try:
        state = convert_state_dict(model, state)
        if "positional_embedding" in state and not hasattr(model, "positional_embedding"):
            state = convert_to_custom_text_state_dict(state)
    except (KeyError, ValueError, RuntimeError) as error:
        raise errors.InputError(f"{path}: no weights of a {type(model).__name__} of open_clip: {error!r}") from error
    current = model.state_dict()
    for name in ("logit_scale", "logit_bias"):  # a number in some files, an array of length 1 in others
        if name in state and name in current and state[name].numel() == current[name].numel():
            state[name] = state[name].reshape(current[name].shape)
    devices.load_weights(model, state, path)
