import pytest
import torch
from pydantic import ValidationError
from torch import nn

from tests.train.some import adam
from vse_pipe.core.errors import InputError
from vse_pipe.project.params.training import TrainParams
from vse_pipe.train.encoders.image.finetune import Params
from vse_pipe.train.encoders.image.finetune.encoder import build
from vse_pipe.train.encoders.image.two_branch import encoder as two_branch
from vse_pipe.train.engine.schedule import Moment, set_rates


class Network(nn.Module):
    """Pixels (B, crops, S, S, 3) to (B, 6): a convolution, batch normalisation, dropout, means over the image."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.Dropout(0.5), nn.ReLU())

    def forward(self, pixels):
        return self.net(pixels[:, 0].permute(0, 3, 1, 2).float() / 255).mean(dim=(2, 3))


def _encoder(**options):
    torch.manual_seed(0)
    return build(Params(**options), (6,), 4, torch.Generator().manual_seed(1), Network())


def _pixels(count=5):
    return torch.randint(0, 256, (count, 1, 8, 8, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(2))


def _normalisation(encoder):
    return encoder.backbone.net[1]


def test_pixels_and_the_features_the_network_makes_of_them_give_the_same_vectors():
    encoder = _encoder().eval()
    features = encoder.backbone(_pixels())
    torch.testing.assert_close(encoder(_pixels()), encoder(features))


def test_features_have_unit_length_before_the_linear_layer():
    encoder = _encoder(no_imgnorm=True).eval()
    features = encoder.backbone(_pixels())
    expected = encoder.fc(features / features.norm(dim=1, keepdim=True))
    torch.testing.assert_close(encoder(_pixels()), expected)
    torch.testing.assert_close(encoder(7 * features), expected)
    assert (expected.norm(dim=1) - 1).abs().max() > 1e-3


def test_normalised_and_absolute_vectors():
    plain, absolute = _encoder().eval()(_pixels()), _encoder(use_abs=True).eval()(_pixels())
    torch.testing.assert_close(plain.norm(dim=1), torch.ones(5))
    assert (plain < 0).any()
    torch.testing.assert_close(absolute, plain.abs())


def test_a_branch_in_place_of_the_linear_layer():
    """That of encoder ``two_branch`` on features of unit length."""
    branch = {"hidden": 7, "dropout": 0.0}
    encoder = _encoder(head="two_branch", branch=branch)
    other = two_branch.build(two_branch.Params(**branch), (6,), 4, torch.Generator().manual_seed(1))
    assert all(torch.equal(value, other.state_dict()[name]) for name, value in encoder.fc.state_dict().items())
    features = encoder.eval().backbone(_pixels())
    expected = other.eval()(features / features.norm(dim=1, keepdim=True))
    torch.testing.assert_close(encoder(_pixels()), expected)
    assert encoder.train().fc.bn.training
    assert not _normalisation(encoder).training


@pytest.mark.parametrize("option", ["no_imgnorm", "use_abs"])
def test_options_of_the_linear_layer_are_refused_under_a_branch(option):
    with pytest.raises(ValidationError, match="are of head linear"):
        Params(head="two_branch", **{option: True})


def test_the_linear_layer_starts_as_that_of_precomputed_features():
    from vse_pipe.train.encoders.image.linear import encoder as linear

    other = linear.build(linear.Params(), (6,), 4, torch.Generator().manual_seed(1))
    assert torch.equal(_encoder().fc.weight, other.fc.weight)
    assert not _encoder().fc.bias.any()


@pytest.mark.parametrize(
    ("options", "epoch", "trains", "tests"),
    [
        ({}, 0, True, True),
        ({"after": 2}, 1, False, False),
        ({"after": 2}, 2, True, True),
        ({"after": 2, "before": "crops"}, 1, True, False),
        ({"trainable": False}, 0, True, False),
        ({"trainable": False, "batch_norm": "updated"}, 0, True, True),
        ({"trainable": False, "batch_norm": "updated", "after": 1, "before": "crops"}, 0, True, False),
    ],
)
def test_what_an_epoch_reads(options, epoch, trains, tests):
    encoder = _encoder(**options)
    encoder.start(epoch)
    assert encoder.trains_on_pixels is trains
    assert encoder.tests_on_pixels is tests


@pytest.mark.parametrize(
    ("options", "epoch", "takes_gradient"),
    [({}, 0, True), ({"after": 2}, 1, False), ({"after": 2}, 2, True), ({"trainable": False}, 5, False)],
)
def test_when_the_network_takes_gradients(options, epoch, takes_gradient):
    encoder = _encoder(**options).train()
    encoder.start(epoch)
    encoder(_pixels()).sum().backward()
    grads = [weight.grad is not None for weight in encoder.backbone.parameters()]
    assert grads == [takes_gradient] * len(grads)
    assert encoder.fc.weight.grad is not None


def test_frozen_statistics_stay_and_are_those_that_normalise():
    encoder = _encoder().train()
    assert not _normalisation(encoder).training
    assert encoder.backbone.net[2].training, "dropout stays: the authors' fixed network has it too"
    before = {name: value.clone() for name, value in _normalisation(encoder).state_dict().items()}
    encoder(_pixels())
    assert all(torch.equal(before[k], v) for k, v in _normalisation(encoder).state_dict().items())


def test_updated_statistics_move_in_training_alone_and_not_before_their_epoch():
    encoder = _encoder(batch_norm="updated", after=1, before="crops")
    mean = _normalisation(encoder).running_mean.clone()
    for epoch, training, moves in [(0, True, False), (1, False, False), (1, True, True)]:
        encoder.start(epoch)
        encoder.train(training)
        encoder(_pixels())
        assert torch.equal(_normalisation(encoder).running_mean, mean) is not moves


def test_moving_statistics_are_seen_before_the_network_is_run():
    """train.chunk cannot work with them; that must not come out after epochs of training."""
    encoder = _encoder(batch_norm="updated", after=30)
    encoder.start(0)
    assert _normalisation(encoder.train()).training


def test_the_network_has_a_rate_of_its_own_and_is_left_out_when_fixed():
    encoder = _encoder(lr=3e-4, after=2)
    groups = adam(encoder, 1e-2).param_groups
    assert [len(group["params"]) for group in groups] == [2, 4]
    assert [(group["rate"].lr, group["rate"].after) for group in groups] == [(1e-2, 0), (3e-4, 2)]
    (only,) = adam(_encoder(trainable=False), 1e-2).param_groups
    assert [tuple(one.shape) for one in only["params"]] == [(4, 6), (4,)]


@pytest.mark.parametrize(("restart", "others"), [(False, [1e-2, 1e-3, 1e-4]), (True, [1e-2, 3e-4, 3e-5])])
def test_the_other_layers_go_on_or_start_again(restart, others):
    model = nn.ModuleList([_encoder(lr=3e-4, after=2, restart=restart), nn.Linear(1, 1)])
    optimizer = adam(model, 1e-2)
    params = TrainParams(lr=1e-2, lr_update=2)
    found = []
    for epoch in (0, 2, 4):
        assert set_rates(optimizer, params, Moment(epoch)) == optimizer.param_groups[0]["lr"]
        found.append([group["lr"] for group in optimizer.param_groups])
    assert [rates[0] for rates in found] == pytest.approx(others)
    assert [rates[1] for rates in found] == pytest.approx([3e-4, 3e-4, 3e-5])
    assert len(optimizer.param_groups[0]["params"]) == 4


def test_other_features_are_refused():
    with pytest.raises(InputError, match="'finetune' was built for vectors of 6 numbers, got shape \\(2, 5\\)"):
        _encoder()(torch.zeros(2, 5))
    with pytest.raises(InputError, match="needs one vector per image"):
        build(Params(), (36, 6), 4, torch.Generator(), Network())


@pytest.mark.parametrize(
    "options", [{"after": -1}, {"lr": 0.0}, {"batch_norm": "eval"}, {"crop": "ten"}, {"flipp": True}]
)
def test_options_are_checked(options):
    with pytest.raises(ValidationError):
        Params(**options)
