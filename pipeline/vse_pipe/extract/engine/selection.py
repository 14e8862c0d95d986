"""``vse-pipe extract --backbone torchvision:resnet18``: features that params.yaml does not name."""

import re
from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError

from vse_pipe.core.errors import ParamsError, UsageError, unknown
from vse_pipe.project.params.typed import FeatureSet, Member, Params
from vse_pipe.project.registry import BACKBONES


def from_spec(spec: str) -> tuple[str, dict]:
    """``torchvision:resnet18`` -> (``torchvision``, {"model": "resnet18"}); ``vgg19`` -> (``vgg19``, {}).

    Raises UnknownMember for a backbone that does not exist, UsageError for a model where none is taken or missing.
    """
    name, colon, model = spec.partition(":")
    takes_model = "model" in BACKBONES.options(name).model_fields
    if takes_model and not model:
        raise UsageError(f"--backbone {spec}: name the model too, for example {name}:resnet18")
    if colon and not takes_model:
        raise UsageError(f"--backbone {spec}: {name} takes no model; write --backbone {name}")
    return name, {"model": model} if model else {}


def with_backbone(params: Params, spec: str, dataset: str | None, weights: str) -> tuple[Params, str]:
    """``params`` with one more entry under features, and its name. dataset: may be left out when there is only one.

    Raises UsageError and ParamsError.
    """
    name, options = from_spec(spec)
    dataset = _dataset(params, dataset)
    model = BACKBONES.options(name)
    if "weights" in model.model_fields:
        options["weights"] = weights
    try:
        member = Member(name, model(**options))
    except ValidationError as error:
        raise ParamsError(
            [f"--backbone {spec} {'.'.join(map(str, p['loc']))}: {p['msg']}" for p in error.errors()]
        ) from error
    features = _name(spec, options.get("weights", "imagenet"))
    made = FeatureSet(dataset, member, params.datasets[dataset].on_error)
    return replace(params, features={**params.features, features: made}), features


def _dataset(params: Params, dataset: str | None) -> str:
    known = sorted(params.datasets)
    if dataset is None:
        if len(known) != 1:
            raise UsageError(f"--dataset is missing: params.yaml has {', '.join(known)}")
        return known[0]
    if dataset not in known:
        raise UsageError(unknown("data set", dataset, known))
    return dataset


def _name(spec: str, weights: str) -> str:
    """A folder name that tells specs and weights apart: ``torchvision-resnet18-random``."""
    parts = [spec] if weights == "imagenet" else [spec, Path(weights).stem]
    return re.sub(r"[^A-Za-z0-9_.+-]", "-", "-".join(parts))
