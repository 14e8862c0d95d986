"""What a feature file depends on, as JSON for meta.json and as one digest for resuming."""

import hashlib
import json
import re
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

from pipeline.artifacts import images
from pipeline.core.files import sha256
from pipeline.extract.engine.backbone import Backbone
from pipeline.project import paths
from pipeline.project.params.typed import FeatureSet
from pipeline.project.registry import BACKBONES

# Everything that decides a number in features.npy, or which images have none and why, below pipeline/; an edit to one of
# them makes the parts of earlier runs worthless.
_CODE = (
    *(f"sources/{name}.py" for name in ("address", "cells", "picture", "read")),
    *(f"extract/{name}.py" for name in ("job", "reader", "images", "transforms", "network", "states")),
    *(f"extract/{name}.py" for name in ("forward", "precision", "compute")),
    "seeds.py",
)
_PACKAGE = Path(__file__).parents[1]
_IMPORT = re.compile(r"^\s*from pipeline\.extract\.backbones(.*)$", re.MULTILINE)


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
        "images_sha256": sha256(paths.prepared(node.dataset) / images.NAME),
        "code_sha256": _code(node.backbone.name),
        "libraries": {name: version(name) for name in ("numpy", *libraries)},
    }


def digest(about: dict) -> str:
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()


def _code(backbone: str) -> str:
    files = [*(_PACKAGE / name for name in _CODE), *_with_helpers(BACKBONES.folder / f"{backbone}.py")]
    return hashlib.sha256("".join(sha256(path) for path in files).encode()).hexdigest()


def _with_helpers(member: Path) -> list[Path]:
    """The member's module and the family's helpers (``_*.py``) that it imports, directly or not."""
    found, waiting = [], [member]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.append(path)
            imported = re.findall(r"\b_\w+\b", " ".join(_IMPORT.findall(path.read_text(encoding="utf-8"))))
            waiting += [helper for name in imported if (helper := member.with_name(f"{name}.py")).is_file()]
    return sorted(found)
