"""The image side of pretrained pairs: open_clip's own pixels to the last bit, and what is refused."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests import pair_project as pairs
from vse_pipe.core.errors import InputError, IntegrityError, MissingResource, UnknownMember, UsageError
from vse_pipe.extract import networks, pair
from vse_pipe.extract.backbones.open_clip import build
from vse_pipe.extract.backbones.options import OpenClipOptions as Params
from vse_pipe.extract.backbones.options import PairParams
from vse_pipe.extract.job import Backbone
from vse_pipe.extract.pair import transform

open_clip = pytest.importorskip("open_clip", reason="needs the extra open_clip")


@pytest.fixture(autouse=True)
def _here(folder):
    """Nothing of the machine's caches."""


def built(model: Path, **changes: object) -> Backbone:
    return build(Params(**{**pairs.named(model), **changes}), 0)


@pytest.mark.parametrize(("model", "tag"), [
    ("ViT-B-32", "laion2b_s34b_b79k"), ("ViT-B-16-SigLIP", "webli"), ("ViT-L-14-CLIPA", "datacomp1b"),
    ("MobileCLIP-S1", "datacompdr"), ("PE-Core-B-16", "meta"),
])  # fmt: skip
def test_pixels_are_those_of_its_own_preprocessing_to_the_last_bit(model, tag):
    """As published for CLIP, SigLIP, CLIPA, MobileCLIP and PE."""
    from open_clip.transform import PreprocessCfg, image_transform_v2, merge_preprocess_dict

    size = open_clip.get_model_config(model)["vision_cfg"].get("image_size", 224)
    config = merge_preprocess_dict({"size": size}, open_clip.get_pretrained_cfg(model, tag))
    own = image_transform_v2(PreprocessCfg(**config), is_train=False)
    seen = transform(config, model)
    extractor = networks.Extractor(torch.nn.Identity(), seen)
    for image in (pairs.photo(0), pairs.photo(1, (480, 640)), pairs.photo(2, (501, 333))):
        assert torch.equal(extractor.scaled(torch.from_numpy(seen.pixels(image).copy()))[0], own(image))


@pytest.mark.parametrize(("change", "message"), [
    ({"resize_mode": "longest"}, "open_clip odd sees pictures of size 32, resized by 'longest'"),
    ({"size": (32, 16), "resize_mode": "squash"}, r"of size \(32, 16\)"),
])  # fmt: skip
def test_pixels_that_are_padded_or_no_squares_are_refused(change, message):
    config = {"size": 32, "interpolation": "bicubic", "mean": [0.5] * 3, "std": [0.5] * 3}
    with pytest.raises(UsageError, match=message):
        transform({**config, **change}, "odd")


def test_weights_that_are_not_those_are_refused():
    model, other = pairs.write_model("clip"), pairs.write_model("siglip")
    torch.save({"state_dict": load_file(model / pairs.WEIGHTS), "epoch": Path("a")}, "code.pt")
    for error, message, changes in [
        (IntegrityError, "expected 0000", {"sha256": "0" * 64}),
        (InputError, "does not fit CLIP", {"weights": str(other / pairs.WEIGHTS)}),
        (InputError, "holds more than tensors, refused", {"weights": "code.pt"}),
        (MissingResource, r"gone\.safetensors: no such weights file", {"weights": "gone.safetensors"}),
    ]:
        with pytest.raises(error, match=message):
            built(model, **{"sha256": None, **changes})


@pytest.mark.parametrize(("model", "error", "message"), [
    ("ViT-B-33", UnknownMember, r"unknown open_clip model 'ViT-B-33'; did you mean 'ViT-B-32'\?"),
    ("gone.json", MissingResource, "no such file; model is a name of open_clip or a JSON file"),
    ("empty.json", InputError, "describes no model of open_clip: it has no vision_cfg, text_cfg"),
    ("odd.json", UsageError, "open_clip cannot build odd: .*colour"),
])  # fmt: skip
def test_an_architecture_that_does_not_exist_or_describes_nothing_is_refused(model, error, message):
    Path("empty.json").write_text(json.dumps({"embed_dim": 3}))
    Path("odd.json").write_text(json.dumps({**pairs.MODELS["clip"]["model_cfg"], "colour": 1}))
    with pytest.raises(error, match=message):
        build(Params(model=model, weights="random"), 0)


def _published(model: str, weights: str, **options: object) -> pair.Architecture:
    return pair.published_architecture(PairParams(model=model, weights=weights, **options))


def test_published_weights_are_found_where_open_clip_has_them():
    hub, tag = "https://huggingface.co", "laion2b_s34b_b79k"
    found = _published("ViT-B-32", tag)
    path = "laion/CLIP-ViT-B-32-laion2B-s34B-b79K/resolve/main/open_clip_model.safetensors"
    assert (found.source.url, found.tag) == (f"{hub}/{path}", tag)
    assert _published("ViT-B-32-quickgelu", "openai").tag == "openai"


@pytest.mark.parametrize(("weights", "error", "message"), [
    ("laion2b", UnknownMember, "unknown weights of open_clip ViT-B-32 'laion2b'; did you mean"),
    ("openai", UsageError, "set model: ViT-B-32-quickgelu"),  # trained with another activation
])  # fmt: skip
def test_published_weights_that_do_not_fit(weights, error, message):
    with pytest.raises(error, match=message):
        _published("ViT-B-32", weights)


def test_own_weights_are_preprocessed_as_all_published_ones_where_these_agree():
    siglip = _published("ViT-B-16-SigLIP", "random").content["preprocess_cfg"]
    assert (siglip["resize_mode"], siglip["mean"]) == ("squash", (0.5, 0.5, 0.5))
    with pytest.raises(UsageError, match=r"published with several ways of preprocessing; set pretrained"):
        _published("ViT-L-14", "random")
    chosen = _published("ViT-L-14", "random", pretrained="datacomp_xl_s13b_b90k").content["preprocess_cfg"]
    assert chosen["resize_mode"] == "shortest"
