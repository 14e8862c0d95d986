"""The network that made a run's features, for image encoders that hold it: loaded for training, rebuilt for using a model."""

from dataclasses import dataclass

import torch
from torch import nn

from pipeline.artifacts.features import Features
from pipeline.core.errors import IntegrityError, UsageError
from pipeline.extract.engine import fingerprint
from pipeline.pictures.transforms import Transform
from pipeline.project.params.typed import FeatureSet, Member
from pipeline.project.registry import BACKBONES, IMAGE_ENCODERS


def wanted(image: Member) -> bool:
    """Whether this image encoder holds a network that reads pixels."""
    return getattr(IMAGE_ENCODERS.load(image.name), "reads", "features") == "pixels"


@dataclass(frozen=True)
class Loaded:
    """module: the network with its weights, on the CPU. described: as JSON for config.json, what ``restore`` reads back, which
    weights training began with and on which images. depends: everything the features depend on, for the fingerprint.
    """

    module: nn.Module
    described: dict
    depends: dict


def load(name: str, source: FeatureSet, features: Features, seed: int, device: torch.device) -> Loaded:
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
    return Loaded(backbone.module, described, depends)


def _identity(about: dict) -> dict:
    weights = about.get("weights", {})
    return {
        "network": about.get("network"),
        "weights": (weights.get("sha256"), weights.get("seed")),
        "transform": about.get("transform"),
    }


def restore(described: dict) -> nn.Module:
    """The network with arbitrary weights, to be filled from a model file; the original weights file is not needed.

    Raises IntegrityError when this version builds another network or transform than the one described.
    """
    family = BACKBONES.load(described["name"])
    values = dict(described["params"])
    if "weights" in family.Params.model_fields:
        # Sizes, mean and std may be those its weights were published with: they are given, not looked up again.
        values |= {"weights": "random", "sha256": None, **described["transform"]}
    backbone = family.build(family.Params.model_validate(values), seed=0)
    for key in ("network", "transform"):
        if backbone.about[key] != described[key]:
            raise IntegrityError(
                f"the model's {key} is {described[key]}, this version builds {backbone.about[key]}; train the run again"
            )
    return backbone.module


def transform(described: dict) -> Transform:
    """How images were scaled for the network."""
    values = described["transform"]
    return Transform(**{key: tuple(v) if isinstance(v, list) else v for key, v in values.items()})
