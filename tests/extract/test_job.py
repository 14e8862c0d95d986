"""The digest of a feature file, backbones by name, shares, and options that are refused."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.extract import project
from vse_pipe.core.errors import ParamsError, UnknownMember, UsageError
from vse_pipe.extract import job
from vse_pipe.project import code
from vse_pipe.project.params.typed import with_backbone
from vse_pipe.project.registry import BACKBONES


def room(modules: set[str]) -> set[str]:
    return {module.rpartition(".")[2] for module in modules if module.rpartition(".")[0] == "vse_pipe.extract"}


def test_all_code_that_an_extraction_runs_counts_or_is_known_to_decide_nothing() -> None:
    """A new module must be imported by the work on an image or a batch, or be named here: parameters, and what puts finished
    parts together. Members do not share what they do not use."""
    work = code.closure(job._WORK)
    assert room(code.closure(["vse_pipe.extract.stage"]) - work) == {"shards", "stage"}
    members = {name: code.closure([BACKBONES.module(name)]) for name in BACKBONES.names()}
    assert "pair" not in room(members["vgg19"])
    assert "published" not in room(members["open_clip"])
    assert len({code.digest(work | own) for own in members.values()}) == len(members)


@pytest.mark.parametrize(("spec", "dataset", "weights", "error", "message"), [
    ("resnet125", None, "", UnknownMember, "unknown backbone 'resnet125'; did you mean 'resnet152'"),
    ("torchvision", None, "random", ParamsError, "--backbone torchvision .*model"),
    ("vgg19:bn", None, "random", ParamsError, "--backbone vgg19:bn .*model"),
    ("vgg19", "tinny", "random", UsageError, "unknown data set 'tinny'; did you mean 'tiny'"),
    ("vgg19", None, "imagnet", ParamsError,
     "--backbone vgg19 weights: .*should match pattern .*imagenet.random"),
    ("random_filters", None, "own.pth", UsageError, "--weights: backbone random_filters has none"),
])  # fmt: skip
def test_a_backbone_that_is_none_or_does_not_fit(folder, spec, dataset, weights, error, message) -> None:
    with pytest.raises(error, match=message):
        with_backbone(project.params(), spec, dataset, weights)


@pytest.mark.parametrize(("spec", "weights", "name"), [
    ("vgg19", "imagenet", "vgg19"),
    ("torchvision:resnet18", "random", "torchvision-resnet18-random"),
    ("timm:resnet18.a1_in1k", "own/best.pth", "timm-resnet18.a1_in1k-own-best"),
    ("precomp", "imagenet", "precomp"),
])  # fmt: skip
def test_with_backbone(folder: Path, spec: str, weights: str, name: str) -> None:
    params, found = with_backbone(project.params(), spec, None, weights)
    assert found == name
    node = params.features[found]
    assert (node.dataset, node.backbone.name) == ("tiny", spec.partition(":")[0])
    assert getattr(node.backbone.params, "weights", weights) == weights
    assert set(params.features) == {"small", name}


def test_a_backbone_does_not_take_the_place_of_other_features_of_its_name(folder: Path) -> None:
    given = replace(project.params(), features={"random_filters": project.params().features["small"]})
    with pytest.raises(UsageError, match=r"features\.random_filters of params.yaml has other options"):
        with_backbone(given, "random_filters", None, "imagenet")
