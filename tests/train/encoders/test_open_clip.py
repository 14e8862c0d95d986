"""A pretrained pair that trains: open_clip's own step, which weights move and how fast, low-rank additions, bad options."""

import copy

import pytest
import torch
from torch import nn

from tests import pair_project as pairs
from tests.train.some import some_pairs, some_run
from vse_pipe.core.errors import InputError, UsageError
from vse_pipe.extract import pair as extract_pair
from vse_pipe.project.params.schema import TrainParams
from vse_pipe.project.registry import IMAGE_ENCODERS, TEXT_ENCODERS
from vse_pipe.train import optimise
from vse_pipe.train.data import Batch
from vse_pipe.train.encoders import open_clip as encoder
from vse_pipe.train.model import DualEncoder
from vse_pipe.train.scheme import Scheme, Setting

open_clip = pytest.importorskip("open_clip", reason="needs the extra open_clip")

CPU = torch.device("cpu")
SEVEN = 7


@pytest.fixture(autouse=True)
def _here(folder):
    """Models are written below the working directory."""


def _gradients(model: DualEncoder, batch: Batch, loss: str = "infonce", chunk: int = 0) -> tuple[float, dict]:
    run = some_run(pairs.loss_of(loss), TrainParams(chunk=chunk))
    scheme = Scheme(Setting(run, model, some_pairs(), CPU, lambda seed: model))
    model.zero_grad()
    sides = optimise.encoded_in_chunks(model, chunk, batch, CPU) if chunk else model.encode(batch, CPU)
    total = scheme.terms(*sides, batch).total()
    total.backward()
    return total.item(), {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}


@pytest.mark.parametrize(("kind", "loss", "times"), [("clip", "infonce", 2), ("siglip", "sigmoid", 1)])
def test_a_step_has_the_gradients_of_open_clips_own(kind, loss, times):
    """Exact in float64. Our InfoNCE adds both directions, open_clip's ClipLoss takes their mean."""
    pair = pairs.built(kind)
    model, (batch, pixels, tokens) = pairs.model_of(pair, loss).double(), pairs.batch_of()
    if kind == "siglip":
        pixels = batch.features[:, 0].permute(0, 3, 1, 2).float().div(255).sub(0.5).div(0.5)
    found, gradients = _gradients(model, batch, loss)
    reference = pair.model.double().train()
    outputs = reference(pixels.double(), tokens)
    criterion = open_clip.ClipLoss() if loss == "infonce" else open_clip.loss.SigLipLoss()
    value = criterion(*outputs)
    value.backward()
    assert found == pytest.approx(times * value.item(), rel=1e-7)
    expected = {name: times * weight.grad for name, weight in reference.named_parameters()}
    scale, bias = expected.pop("logit_scale"), expected.pop("logit_bias", None)
    if loss == "infonce":
        torch.testing.assert_close(gradients.pop("loss.log_tau"), -scale, rtol=1e-6, atol=0)
    else:
        torch.testing.assert_close(gradients.pop("loss.log_scale"), scale, rtol=1e-6, atol=0)
        torch.testing.assert_close(gradients.pop("loss.bias"), bias, rtol=1e-6, atol=0)
    sides = {"img.network.net.model.": "visual", "txt.network.model.": ""}
    named = {name: next(name.removeprefix(start) for start in sides if name.startswith(start)) for name in gradients}
    assert sorted(named.values()) == sorted(expected)
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, expected[named[name]], rtol=1e-6, atol=1e-12, msg=name)


@pytest.mark.parametrize("options", [{}, {"tune": "lora"}])
def test_chunks_change_no_gradient(options):
    batch, *_ = pairs.batch_of()
    model = pairs.model_of(pairs.built(), **options).double()
    for name, weight in model.named_parameters():
        if "lora_b" in name:
            nn.init.normal_(weight, 0.0, 0.1, generator=torch.Generator().manual_seed(1))
    loss, expected = _gradients(model, batch)
    expected = {name: value.clone() for name, value in expected.items()}
    value, gradients = _gradients(model, batch, chunk=3)
    assert value == pytest.approx(loss, rel=1e-12)
    assert gradients.keys() == expected.keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, expected[name], rtol=1e-9, atol=1e-14)


def test_an_addition_is_alpha_over_rank_times_b_a_and_begins_at_zero():
    pair, (batch, *_) = pairs.built(), pairs.batch_of()
    plain, model = pairs.model_of(pair).eval(), pairs.model_of(pair, tune="lora", rank=3, alpha=6.0).eval()
    with torch.no_grad():
        assert all(map(torch.equal, model.encode(batch, CPU), plain.encode(batch, CPU)))
        trained = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
        kinds = {name.rpartition(".")[2] for name in trained if not name.startswith("loss.")}
        assert kinds == {"lora_a", "lora_b"}
        assert len(trained) == 1 + 2 * 2 * 4, "in_proj, out_proj, c_fc and c_proj of a block of each side"
        for name, weight in trained.items():
            if "lora_b" in name:
                weight.normal_(generator=torch.Generator().manual_seed(len(name)))
                layer, parameter = name.removesuffix(".0.lora_b").split(".parametrizations.")
                product = weight @ trained[name.replace("lora_b", "lora_a")]
                plain.get_submodule(layer).get_parameter(parameter).add_(2.0 * product)
        for found, expected in zip(model.encode(batch, CPU), plain.encode(batch, CPU), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    again = pairs.model_of(pair, tune="lora", rank=3, alpha=6.0).eval()
    again.load_state_dict(model.state_dict())
    with torch.no_grad():
        assert all(map(torch.equal, again.encode(batch, CPU), model.encode(batch, CPU)))


def test_a_pair_has_its_rate_and_trains_without_its_logits():
    model = pairs.model_of(pairs.built(), lr=1e-3)
    optimizer = optimise.optimizer_for(model, TrainParams(lr=1e-2))
    rates = {weight: group["rate"].lr for group in optimizer.param_groups for weight in group["params"]}
    assert {rates[weight] for side in (model.img, model.txt) for weight in side.parameters() if weight in rates} == {
        1e-3
    }
    assert rates[model.loss.log_tau] == 1e-2
    moved = {name for name, weight in model.named_parameters() if weight.requires_grad}
    assert not any("logit" in name for name in moved)


def test_options_that_do_not_fit_are_refused_in_one_line():
    pair = pairs.built()
    resnet = copy.deepcopy(pairs.MODELS["clip"])
    resnet["model_cfg"]["vision_cfg"] = {"image_size": 32, "layers": [1, 1, 1, 1], "width": 8}
    model = extract_pair.built(resnet, "resnet", 0)
    about = {"logit": {"scale": 10.0, "bias": None}}
    conv = extract_pair.Pair(model.eval(), resnet["model_cfg"], model.visual.preprocess_cfg, about)
    with pytest.raises(UsageError, match="its network is no single row of blocks"):
        pairs.model_of(conv, tune="lora")
    assert not any(layer.training for layer in pairs.model_of(conv).img.modules() if isinstance(layer, nn.BatchNorm2d))
    network = pairs.network_of(pair)
    with pytest.raises(InputError, match=r"numbers, train\.embed_size is 8; set train\.embed_size: 16"):
        encoder.build_image(IMAGE_ENCODERS.options("open_clip")(), 16, 8, torch.Generator(), network)
    with pytest.raises(InputError, match="knows 49408 pieces of words, the texts have 96; give the texts the model"):
        encoder.build_text(TEXT_ENCODERS.options("open_clip")(), 100, 16, torch.Generator(), network)
