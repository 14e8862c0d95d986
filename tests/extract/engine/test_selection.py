"""--backbone on the command line."""

from pathlib import Path

import pytest

from tests.extract import project
from vse_pipe.core.errors import ParamsError, UnknownMember, UsageError
from vse_pipe.extract.job import from_spec, with_backbone


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("resnet152", ("resnet152", {})),
        ("torchvision:mobilenet_v2", ("torchvision", {"model": "mobilenet_v2"})),
        ("timm:resnet18.a1_in1k", ("timm", {"model": "resnet18.a1_in1k"})),
        ("precomp", ("precomp", {})),
    ],
)
def test_from_spec(spec: str, expected: tuple) -> None:
    assert from_spec(spec) == expected


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        ("resnet125", UnknownMember, "unknown backbone 'resnet125'; did you mean 'resnet152'"),
        ("torchvision", UsageError, "name the model too, for example torchvision:resnet18"),
        ("timm:", UsageError, "name the model too"),
        ("vgg19:bn", UsageError, "vgg19 takes no model; write --backbone vgg19"),
        ("vgg19:", UsageError, "vgg19 takes no model"),
    ],
)
def test_from_spec_refuses(spec: str, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        from_spec(spec)


@pytest.mark.parametrize(
    ("spec", "weights", "name"),
    [
        ("vgg19", "imagenet", "vgg19"),
        ("torchvision:resnet18", "random", "torchvision-resnet18-random"),
        ("timm:resnet18.a1_in1k", "own/best.pth", "timm-resnet18.a1_in1k-best"),
        ("precomp", "imagenet", "precomp"),
    ],
)
def test_with_backbone(folder: Path, spec: str, weights: str, name: str) -> None:
    params, found = with_backbone(project.params(), spec, None, weights)
    assert found == name
    node = params.features[found]
    assert (node.dataset, node.backbone.name) == ("tiny", spec.partition(":")[0])
    assert getattr(node.backbone.params, "weights", weights) == weights
    assert set(params.features) == {"small", name}


@pytest.mark.parametrize(
    ("dataset", "weights", "error", "message"),
    [
        ("tinny", "random", UsageError, "unknown data set 'tinny'; did you mean 'tiny'"),
        (None, "imagnet", ParamsError, "--backbone vgg19 weights: .*expected imagenet, random or a path"),
    ],
)
def test_with_backbone_refuses(folder: Path, dataset: str | None, weights: str, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        with_backbone(project.params(), "vgg19", dataset, weights)
