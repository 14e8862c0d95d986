"""What a feature file depends on, as JSON for meta.json and as one digest for resuming."""

import hashlib
import json
from collections.abc import Iterable
from importlib.metadata import version

from vse_pipe.artifacts import features, images
from vse_pipe.core.files import sha256
from vse_pipe.extract.engine.backbone import Backbone
from vse_pipe.project import code, paths
from vse_pipe.project.params.typed import FeatureSet
from vse_pipe.project.registry import BACKBONES

# Where the work of a batch and of an image begins; what is put together of it afterwards is no part of the digest.
_WORK = ("vse_pipe.extract.engine.compute", "vse_pipe.extract.engine.job")


def describe(node: FeatureSet, backbone: Backbone, kind: str, precision: str) -> dict:
    """Everything the features follow from. kind: the device's; its number is no part of it."""
    return {**own(node, kind, precision, backbone.libraries), **backbone.about}


def own(node: FeatureSet, kind: str, precision: str, libraries: Iterable[str]) -> dict:
    """The part of ``describe`` that needs no network.

    Raises importlib.metadata.PackageNotFoundError for a library that is not installed.
    """
    return {
        "dataset": node.dataset,
        "backbone": node.backbone.name,
        "params": node.backbone.params.model_dump(mode="json"),
        "precision": precision,
        "device": kind,
        features.IMAGES: sha256(paths.prepared(node.dataset) / images.NAME),
        "code_sha256": code.digest(code.closure([*_WORK, BACKBONES.module(node.backbone.name)])),
        "libraries": {name: version(name) for name in ("numpy", *libraries)},
    }


def digest(about: dict) -> str:
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
