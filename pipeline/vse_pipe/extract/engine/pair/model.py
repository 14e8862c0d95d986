"""A model of open_clip with its weights, built as open_clip builds it, and one of its two towers."""

import contextlib
import json
import logging
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from torch import Tensor, nn

from vse_pipe.core import states, weights
from vse_pipe.core.errors import InputError, MissingResource, UsageError
from vse_pipe.extract.engine.pair import published
from vse_pipe.extract.engine.pair.params import PairParams

# What a model may have of its other side, whose memory the one in use can do without.
_OTHER = {
    "image": ("text", "transformer", "token_embedding", "ln_final", "text_decoder"),
    "text": ("visual", "text_decoder"),
}
_UNFIT = (AssertionError, AttributeError, ImportError, KeyError, OSError, RuntimeError, TypeError, ValueError)


class Tower(nn.Module):
    """Pixels (B, 3, S, S), or token ids (B, L), to (B, D), not normalised. The other tower is let go."""

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
    """config: what describes the architecture, as in open_clip's JSON files; preprocessing: as open_clip has it; about: network,
    weights, scale and bias of its logits, for meta.json."""

    model: nn.Module
    config: dict
    preprocessing: dict
    about: dict

    @property
    def dimensions(self) -> int:
        """Of a vector, the same on both sides."""
        return self.config["embed_dim"]


def load(options: PairParams, seed: int) -> Pair:
    """The model that ``options`` name, in evaluation mode and on the CPU; of random weights those of ``seed``.

    Raises as ``published.architecture``, MissingResource where weights are not there, UsageError for options that open_clip
    cannot build, InputError for weights of another architecture, IntegrityError for weights with another digest.
    """
    architecture = published.architecture(options)
    found = weights.locate(options, architecture.source, seed)
    with folder(architecture.content) as name:
        model = states.seeded(partial(_make, name, options.model), seed, "open_clip", architecture.name)
    if found.path is not None:
        _fill(model, found.path)
    scale, bias = model.logit_scale.detach().exp().item(), model.logit_bias
    about = {
        "network": f"open_clip {architecture.name}",
        "weights": found.about,
        "pretrained": architecture.tag,
        "logit": {"scale": scale, "bias": None if bias is None else bias.item()},
    }
    if architecture.file is not None:
        about["architecture"] = architecture.file
    return Pair(model.eval(), architecture.content["model_cfg"], model.visual.preprocess_cfg, about)


@contextlib.contextmanager
def folder(content: dict, beside: Path | None = None) -> Iterator[str]:
    """A folder that open_clip reads as one of a hub, as it names it. beside: a folder whose files belong there too.

    What open_clip has to say of it, that it holds no weights, is not shown."""
    root = logging.getLogger()
    level, silent = root.level, logging.NullHandler()
    with tempfile.TemporaryDirectory(prefix="vse-pipe-") as place:
        (Path(place) / "open_clip_config.json").write_text(json.dumps(content), encoding="utf-8")
        for path in beside.iterdir() if beside else ():
            (Path(place) / path.name).symlink_to(path.absolute())
        root.addHandler(silent)  # without any handler, its first warning would set up one for good
        root.setLevel(logging.ERROR)
        try:
            yield f"local-dir:{place}"
        finally:
            root.setLevel(level)
            root.removeHandler(silent)


def tokenizer(config: dict, where: Path | None, name: str):
    """What makes token ids (n, L) of n sentences. config: as of ``Pair``; where: the folder of its files, for architectures
    whose tokenizer does not come with open_clip.

    Raises MissingResource where these files are not there.
    """
    import open_clip

    hub = config["text_cfg"].get("hf_tokenizer_name")
    if hub and (where is None or not where.is_dir()):
        raise MissingResource(
            f"the tokenizer of open_clip {name} is that of {hub} on the model hub: fetch it with `hf download {hub} --include "
            "'*token*' 'spiece*' --local-dir FOLDER` and set tokenizer: FOLDER beside model"
        )
    with folder({"model_cfg": config}, where if hub else None) as place:
        try:
            return open_clip.get_tokenizer(place)
        except _UNFIT as error:
            needs = "; pip install transformers" if isinstance(error, ImportError) else ""
            raise MissingResource(f"{where}: no tokenizer of open_clip {name} ({_first_line(error)}){needs}") from error


def _make(place: str, name: str) -> Any:
    import open_clip

    try:
        return open_clip.create_model(place, load_weights=False, pretrained_text=False)
    except _UNFIT as error:
        raise UsageError(f"open_clip cannot build {name}: {_first_line(error)}") from error


def _fill(model: Any, path: Path) -> None:
    """All weights of the file and nothing else, under the keys that this version of open_clip has."""
    from open_clip.convert import convert_state_dict
    from open_clip.model import convert_to_custom_text_state_dict

    state = states.read(path)
    try:
        state = convert_state_dict(model, state)
        if "positional_embedding" in state and not hasattr(model, "positional_embedding"):
            state = convert_to_custom_text_state_dict(state)
    except (KeyError, ValueError, RuntimeError) as error:
        raise InputError(f"{path}: no weights of a {type(model).__name__} of open_clip: {error!r}") from error
    own = model.state_dict()
    for name in ("logit_scale", "logit_bias"):  # a number in some files, an array of one in others
        if name in state and name in own and state[name].numel() == own[name].numel():
            state[name] = state[name].reshape(own[name].shape)
    states.load(model, state, path)


def _first_line(error: Exception) -> str:
    return next(filter(None, map(str.strip, str(error).splitlines())), type(error).__name__)
