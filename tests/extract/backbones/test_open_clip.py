"""The image side of pretrained pairs: open_clip's own pixels to the last bit, and what is refused."""

import json
import urllib.error
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests import pair_project as pairs
from vse_pipe.core.errors import InputError, IntegrityError, MissingResource, UnknownMember, UsageError
from vse_pipe.core.files import sha256
from vse_pipe.extract import networks, pair
from vse_pipe.extract.backbones.open_clip import build
from vse_pipe.extract.backbones.options import OpenClipOptions as Params
from vse_pipe.extract.backbones.options import PairParams
from vse_pipe.extract.pair import transform

open_clip = pytest.importorskip("open_clip", reason="needs the extra open_clip")

# Preprocessing as published for CLIP, SigLIP, CLIPA, MobileCLIP and PE.
PUBLISHED = [
    ("ViT-B-32", "laion2b_s34b_b79k"),
    ("ViT-B-16-SigLIP", "webli"),
    ("ViT-L-14-CLIPA", "datacomp1b"),
    ("MobileCLIP-S1", "datacompdr"),
    ("PE-Core-B-16", "meta"),
]


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VSE_PIPE_WEIGHTS", str(tmp_path / "cache"))


@pytest.mark.parametrize(("model", "tag"), PUBLISHED)
def test_pixels_are_those_of_its_own_preprocessing_to_the_last_bit(model, tag):
    from open_clip.transform import PreprocessCfg, image_transform_v2, merge_preprocess_dict

    size = open_clip.get_model_config(model)["vision_cfg"].get("image_size", 224)
    config = merge_preprocess_dict({"size": size}, open_clip.get_pretrained_cfg(model, tag))
    own = image_transform_v2(PreprocessCfg(**config), is_train=False)
    seen = transform(config, model)
    extractor = networks.Extractor(torch.nn.Identity(), seen)
    for image in (pairs.photo(0), pairs.photo(1, (480, 640)), pairs.photo(2, (501, 333))):
        ours = extractor.scaled(torch.from_numpy(seen.pixels(image).copy()))
        assert torch.equal(ours[0], own(image))


def test_pixels_that_are_padded_or_no_squares_are_refused():
    config = {"size": 32, "resize_mode": "longest", "interpolation": "bicubic", "mean": [0.5] * 3, "std": [0.5] * 3}
    with pytest.raises(UsageError, match="open_clip odd sees pictures of size 32, resized by 'longest'"):
        transform(config, "odd")
    with pytest.raises(UsageError, match=r"of size \(32, 16\)"):
        transform({**config, "size": (32, 16), "resize_mode": "squash"}, "odd")


def test_random_weights_follow_from_the_seed():
    model = pairs.write_model("siglip")
    params = Params(model=str(model / pairs.CONFIG), weights="random")
    pixels = torch.zeros(1, 1, 32, 32, 3, dtype=torch.uint8)
    before = torch.random.get_rng_state()
    with torch.inference_mode():
        first, again, other = (build(params, seed).module(pixels) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_what_the_features_follow_from_is_said():
    model = pairs.write_model("siglip")
    about = build(Params(**pairs.named(model)), 0).about
    assert about["network"] == "open_clip open_clip_config"
    assert about["weights"] == {
        "origin": "file", "file": pairs.WEIGHTS, "sha256": sha256(model / pairs.WEIGHTS), "pinned": True
    }  # fmt: skip
    assert about["architecture"]["sha256"] == sha256(model / pairs.CONFIG)
    assert about["logit"] == {"scale": pytest.approx(1 / 0.07), "bias": -10.0}
    assert about["transform"]["resize_mode"] == "exact"
    assert about["dimensions"] == 16


def test_weights_that_are_not_those_are_refused():
    model, other = pairs.write_model("clip"), pairs.write_model("siglip")
    with pytest.raises(IntegrityError, match="expected 0000"):
        build(Params(**{**pairs.named(model), "sha256": "0" * 64}), 0)
    with pytest.raises(InputError, match=r"does not fit CLIP: .*unexpected: logit_bias, "):
        build(Params(**{**pairs.named(model), "weights": str(other / pairs.WEIGHTS), "sha256": None}), 0)
    state = load_file(model / pairs.WEIGHTS)
    torch.save({"state_dict": state, "epoch": Path("a")}, "code.pt")
    with pytest.raises(InputError, match="holds more than tensors, refused"):
        build(Params(**{**pairs.named(model), "weights": "code.pt", "sha256": None}), 0)
    with pytest.raises(MissingResource, match=r"gone\.safetensors: no such weights file"):
        build(Params(**{**pairs.named(model), "weights": "gone.safetensors"}), 0)


def test_weights_in_the_form_of_training_are_read():
    model = pairs.write_model("clip")
    state = load_file(model / pairs.WEIGHTS)
    torch.save({"state_dict": {f"module.{key}": value for key, value in state.items()}}, "trained.pt")
    save_file({**state, "logit_scale": state["logit_scale"].reshape(1)}, "array.safetensors")
    for name in ("trained.pt", "array.safetensors"):
        found = build(Params(**{**pairs.named(model), "weights": name, "sha256": None}), 0).module.net.model
        assert torch.equal(found.visual.proj, state["visual.proj"])


def test_an_architecture_that_does_not_exist_or_describes_nothing_is_refused():
    Path("empty.json").write_text(json.dumps({"embed_dim": 3}))
    Path("odd.json").write_text(json.dumps({**pairs.MODELS["clip"]["model_cfg"], "colour": 1}))
    for model, error, message in (
        ("ViT-B-33", UnknownMember, "unknown open_clip model 'ViT-B-33'; did you mean 'ViT-B-32'?"),
        ("gone.json", MissingResource, "no such file; model is a name of open_clip or a JSON file"),
        ("empty.json", InputError, "describes no model of open_clip: it has no vision_cfg, text_cfg"),
        ("odd.json", UsageError, "open_clip cannot build odd.json: .*colour"),
    ):
        with pytest.raises(error, match=message.replace("?", r"\?") if "?" in message else message):
            build(Params(model=model, weights="random"), 0)


def _published(model: str, weights: str, **options: object) -> pair.Architecture:
    return pair.published_architecture(PairParams(model=model, weights=weights, **options))


def test_published_weights_are_found_where_open_clip_has_them():
    found = _published("ViT-B-32", "laion2b_s34b_b79k", revision="abc")
    assert found.source is not None
    assert found.source.url == (
        "https://huggingface.co/laion/CLIP-ViT-B-32-laion2B-s34B-b79K/resolve/abc/open_clip_model.safetensors"
    )
    assert found.tag == "laion2b_s34b_b79k"
    own = _published("ViT-B-32", "hf-hub:me/mine/best.safetensors", pretrained="laion2b_s34b_b79k")
    assert own.source is not None
    assert own.source.url == "https://huggingface.co/me/mine/resolve/main/best.safetensors"
    with pytest.raises(UnknownMember, match="unknown weights of open_clip ViT-B-32 'laion2b'; did you mean"):
        _published("ViT-B-32", "laion2b")
    with pytest.raises(UsageError, match="expected hf-hub:owner/name"):
        _published("ViT-B-32", "hf-hub:mine")


def test_weights_trained_with_another_activation_are_refused():
    with pytest.raises(UsageError, match="set model: ViT-B-32-quickgelu"):
        _published("ViT-B-32", "openai")
    assert _published("ViT-B-32-quickgelu", "openai").tag == "openai"


def test_own_weights_are_preprocessed_as_all_published_ones_where_these_agree():
    siglip = _published("ViT-B-16-SigLIP", "random").content["preprocess_cfg"]
    assert (siglip["resize_mode"], siglip["mean"]) == ("squash", (0.5, 0.5, 0.5))
    with pytest.raises(UsageError, match=r"published with \d ways of preprocessing; set pretrained"):
        _published("ViT-L-14", "random")
    chosen = _published("ViT-L-14", "random", pretrained="datacomp_xl_s13b_b90k").content["preprocess_cfg"]
    assert chosen["resize_mode"] == "shortest"


def test_a_hub_that_cannot_be_reached_and_a_missing_digest_are_one_line(monkeypatch):
    def refused(url: str):
        raise urllib.error.URLError("no route")

    monkeypatch.setattr("torch.hub.urlopen", refused)
    params = Params(model="ViT-B-32", weights="laion2b_s34b_b79k")
    with pytest.raises(UsageError, match=r"no digest is known for https://huggingface\.co/laion/.*: set sha256"):
        build(params, 0)
    with pytest.raises(
        MissingResource, match=r"cannot download https.* \(no route\); fetch it by hand \(sha256 a{64}\)"
    ):
        build(params.model_copy(update={"sha256": "a" * 64}), 0)


def test_options_that_contradict_each_other_are_refused():
    with pytest.raises(ValueError, match="random weights have no file"):
        Params(model="ViT-B-32", weights="random", sha256="a" * 64)
    with pytest.raises(ValueError, match="leave pretrained out"):
        Params(model="ViT-B-32", weights="openai", pretrained="openai")
