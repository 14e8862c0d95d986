"""The network that made a run's features, for image encoders that hold it: loaded for training, rebuilt for using a model."""

from typing import Any

import torch
from torch import nn

from vse_pipe.artifacts.features import Features
from vse_pipe.core.errors import IntegrityError, UsageError
from vse_pipe.extract.engine import fingerprint
from vse_pipe.pictures.transforms import Transform
from vse_pipe.project.params.typed import FeatureSet
from vse_pipe.project.registry import BACKBONES
from vse_pipe.train.engine.pixels import PixelNetwork


def load_network(name: str, source: FeatureSet, features: Features, seed: int, device: torch.device) -> PixelNetwork:
    """The network of features.``name`` with the weights the features were made with.

    Raises UsageError when no network reads images there (precomp), IntegrityError when the weights or the transform are no
    longer those of the features, and what the backbone raises where weights are missing.
    """
    backbone = BACKBONES.load(source.backbone.name).build(source.backbone.params, seed)
    if "transform" not in backbone.about:
        raise UsageError(
            f"an image encoder that reads pixels needs features made from images; features.{name} is '{source.backbone.name}'"
        )
    found, made = _identity(backbone.about), _identity(features.meta)
    changed = [key for key in found if found[key] != made[key]]
    if changed:
        raise IntegrityError(
            f"features.{name} was made with other {' and '.join(changed)} than there are now; run `vse-pipe extract --features {name}` again"
        )
    described = {
        "name": source.backbone.name,
        "params": source.backbone.params.model_dump(mode="json"),
        **{key: backbone.about[key] for key in ("network", "weights", "transform")},
        "images_sha256": features.meta["images_sha256"],
    }
    depends = fingerprint.describe(source, backbone, device.type, backbone.precision)
    return PixelNetwork(backbone.module, described, depends)


def _identity(about: dict) -> dict:
    weights = about.get("weights", {})
    return {
        "network": about.get("network"),
        "weights": (weights.get("sha256"), weights.get("seed")),
        "transform": about.get("transform"),
    }


def restore_network(described: dict) -> nn.Module:
    """The network with arbitrary weights, to be filled from a model file; the original weights file is not needed.

    Raises IntegrityError when this version builds another network or transform than the one described.
    """
    model, values = BACKBONES.options(described["name"]).Params, dict(described["params"])
    if "weights" in model.model_fields:
        # Sizes, mean and std may be those its weights were published with: they are given, not looked up again.
        values |= {"weights": "random", "sha256": None, **described["transform"]}
    backbone = BACKBONES.load(described["name"]).build(model.model_validate(values), seed=0)
    for key in ("network", "transform"):
        if backbone.about[key] != described[key]:
            raise IntegrityError(
                f"the model's {key} is {described[key]}, this version builds {backbone.about[key]}; train the run again"
            )
    return backbone.module


def transform(described: dict) -> Transform:
    """How images were scaled for the network."""
    values = described["transform"]
    given: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in values.items()}
    return Transform(**given)
