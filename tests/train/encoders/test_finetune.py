"""The encoder that trains a network, the crops that it draws, and the pictures behind rows of features."""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
import torch
from PIL import Image
from torch import nn
from torch.nn.functional import normalize
from torchvision.transforms import InterpolationMode, RandomResizedCrop
from torchvision.transforms import functional as reference

from tests.train.painted import RAW, painted
from tests.train.some import CPU, adam, some_pairs, some_scheme
from vse_pipe.artifacts import features, images
from vse_pipe.core.errors import InputError, IntegrityError
from vse_pipe.pictures.images import Transform
from vse_pipe.project import paths
from vse_pipe.project.registry import IMAGE_ENCODERS
from vse_pipe.train.encoders.finetune import build_image
from vse_pipe.train.encoders.options import ImageFinetuneOptions as Params
from vse_pipe.train.pictures import Pictures, random_box, random_crop

CROPS = {"before": "crops"}
UPDATED = {"trainable": False, "batch_norm": "updated"}
TRANSFORM = {"image_size": 16, "resize": 20, "resize_mode": "shorter", "interpolation": "bilinear", "crops": "center"}
TRANSFORM |= {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}


class Network(nn.Module):
    """Pixels (B, crops, S, S, 3) to (B, 6): a convolution, batch normalisation, dropout, means over the image."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.Dropout(0.5), nn.ReLU())

    def forward(self, pixels):
        return self.net(pixels[:, 0].permute(0, 3, 1, 2).float() / 255).mean(dim=(2, 3))


def _encoder(**options):
    torch.manual_seed(0)
    return build_image(Params(**options), 6, 4, torch.Generator().manual_seed(1), Network())


def _pixels(count=5):
    return torch.randint(0, 256, (count, 1, 8, 8, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(2))


def _normalisation(encoder):
    return encoder.backbone.net[1]


def test_pixels_and_the_features_the_network_makes_of_them_give_the_same_vectors():
    """Features have unit length before the linear layer."""
    encoder, plain = _encoder().eval(), _encoder(no_imgnorm=True).eval()
    vectors, features = encoder(_pixels()), encoder.backbone(_pixels())
    torch.testing.assert_close(vectors, encoder(features))
    expected = plain.fc(normalize(features, dim=1))
    torch.testing.assert_close(plain(_pixels()), expected)
    torch.testing.assert_close(plain(7 * features), expected)
    assert (expected.norm(dim=1) - 1).abs().max() > 1e-3
    torch.testing.assert_close(vectors.norm(dim=1), torch.ones(5))
    assert (vectors < 0).any()
    torch.testing.assert_close(_encoder(use_abs=True).eval()(_pixels()), vectors.abs())


def test_the_head_starts_as_the_encoder_of_features():
    family = IMAGE_ENCODERS
    plain = family.load("linear").build_image(family.options("linear")(), 6, 4, torch.Generator().manual_seed(1))
    encoder = _encoder()
    assert all(torch.equal(value, plain.fc.state_dict()[name]) for name, value in encoder.fc.state_dict().items())
    features = normalize(encoder.eval().backbone(_pixels()), dim=1)
    torch.testing.assert_close(encoder(_pixels()), plain(features))
    assert encoder.train().fc.training
    assert not _normalisation(encoder).training


@pytest.mark.parametrize(
    ("options", "epoch", "reads", "takes_gradient"),
    [
        ({}, 0, (True, True), True),
        ({"after": 2}, 1, (False, False), False),
        ({"after": 2}, 2, (True, True), True),
        ({"after": 2, **CROPS}, 1, (True, False), False),
        ({"trainable": False}, 0, (True, False), False),
        ({"trainable": False}, 5, (True, False), False),
        (UPDATED, 0, (True, True), False),
        ({**UPDATED, "after": 1, **CROPS}, 0, (True, False), False),
    ],
)
def test_what_an_epoch_reads_and_when_the_network_takes_gradients(options, epoch, reads, takes_gradient):
    encoder = _encoder(**options).train()
    encoder.start(epoch)
    assert (encoder.trains_on_pixels, encoder.tests_on_pixels) == reads
    encoder(_pixels()).sum().backward()
    assert {weight.grad is not None for weight in encoder.backbone.parameters()} == {takes_gradient}
    assert encoder.fc.weight.grad is not None


def test_frozen_statistics_stay_and_updated_ones_move_in_training_alone_and_not_before_their_epoch():
    encoder = _encoder().train()
    assert not _normalisation(encoder).training
    assert encoder.backbone.net[2].training, "dropout stays: the authors' fixed network has it too"
    before = {name: value.clone() for name, value in _normalisation(encoder).state_dict().items()}
    encoder(_pixels())
    assert all(torch.equal(before[k], v) for k, v in _normalisation(encoder).state_dict().items())
    encoder = _encoder(batch_norm="updated", after=1, before="crops")
    mean = _normalisation(encoder).running_mean.clone()
    for epoch, training, moves in [(0, True, False), (1, False, False), (1, True, True)]:
        encoder.start(epoch)
        encoder.train(training)(_pixels())
        assert torch.equal(_normalisation(encoder).running_mean, mean) is not moves, (epoch, training)
    # They are seen before the network is run: train.chunk cannot work with them, and that must not come out after epochs.
    early = _encoder(batch_norm="updated", after=30)
    early.start(0)
    assert _normalisation(early.train()).training


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
    optimizer, found = adam(model, 1e-2), []
    scheme = some_scheme(some_pairs(), train={"lr": 1e-2, "lr_update": 2})
    for epoch in (0, 2, 4):
        scheme.set_rates(optimizer, epoch)
        found.append([group["lr"] for group in optimizer.param_groups])
    assert np.transpose(found).tolist() == [pytest.approx(others), pytest.approx([3e-4, 3e-4, 3e-5])]
    assert len(optimizer.param_groups[0]["params"]) == 4


def _image(width=60, height=45):
    return Image.fromarray(np.random.default_rng(1).integers(0, 256, (height, width, 3), dtype=np.uint8))


def test_boxes_are_those_of_torchvision():
    rng, image = np.random.default_rng(0), Image.new("RGB", (640, 480))
    left, top, right, bottom = np.transpose([random_box(640, 480, rng) for _ in range(2000)])
    drawn = [RandomResizedCrop.get_params(image, (0.08, 1.0), (3 / 4, 4 / 3)) for _ in range(2000)]
    _, their_left, their_height, their_width = np.transpose(drawn)
    w, h, pixels, levels = right - left, bottom - top, 640 * 480, [0.1, 0.3, 0.5, 0.7, 0.9]
    assert 0.079 < (w * h / pixels).min() <= (w * h / pixels).max() <= 1
    assert 0.74 < (w / h).min() <= (w / h).max() < 1.35
    for ours, theirs, most in (
        (w * h / pixels, their_width * their_height / pixels, 0.05),
        (w / h, their_width / their_height, 0.05),
        (left, their_left, 20),
    ):
        assert np.abs(np.quantile(ours, levels) - np.quantile(theirs, levels)).max() < most


@pytest.mark.parametrize("name", ["bilinear", "bicubic"])
def test_a_crop_is_cut_and_scaled_as_torchvision_does(name):
    left, top, right, bottom = random_box(60, 45, np.random.default_rng(3))
    cut = top, left, bottom - top, right - left
    expected = reference.resized_crop(_image(), *cut, [16, 16], InterpolationMode(name))
    found = random_crop(_image(), 16, Image.Resampling[name.upper()], np.random.default_rng(3))
    np.testing.assert_array_equal(found, np.asarray(expected)[None], strict=True)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Eight images whose feature rows run backwards."""
    monkeypatch.chdir(tmp_path)
    painted("tttttttt")
    ids = images.read(paths.prepared("toy"))["image_id"].to_numpy()
    return features.Features(np.zeros((8, 2), np.float32), ids, np.arange(8)[::-1].copy(), {})


def _pictures(stored, *drawing, **transform) -> Pictures:
    described = {"transform": {**TRANSFORM, **transform}, "params": {"batch_size": 4}}
    return Pictures.join("toy", stored, described, CPU, *drawing)


def test_rows_of_the_features_are_images_as_they_were_extracted_and_draws_follow_from_seed_epoch_and_pair(project):
    pictures = _pictures(project)
    first, second = pictures.tested([np.array([7, 0]), np.array([3])])
    assert (first.dtype, first.shape) == (torch.uint8, (2, 1, 16, 16, 3))
    for pixels, name in [(first[0], "000.png"), (first[1], "007.png"), (second[0], "004.png")]:
        np.testing.assert_array_equal(pixels.numpy(), pictures.transform.pixels(Image.open(RAW / name)))
    described = {key: tuple(v) if isinstance(v, list) else v for key, v in TRANSFORM.items()}
    assert pictures.transform == Transform(**described)
    (tested,) = _pictures(project, crops="ten").tested([np.arange(3)])
    assert tested.shape == (3, 10, 16, 16, 3), "ten crops where the features had ten"
    pictures = _pictures(project, SimpleNamespace(crop="random", flip=True), 5)
    whole = _drawn(pictures, [range(16)])
    assert torch.equal(_drawn(pictures, [[3, 8], [9], range(9)]), whole[[3, 8, 9, *range(9)]])
    ahead = Pictures(**{**vars(pictures), "ahead": 3})
    assert torch.equal(_drawn(ahead, [[pair] for pair in range(16)]), whole)
    assert torch.equal(_drawn(pictures, [range(16)]), whole)


def test_changed_missing_and_foreign_files_are_named(project):
    pictures = _pictures(project, SimpleNamespace(crop="center", flip=False))
    (RAW / "002.png").write_bytes((RAW / "003.png").read_bytes())
    with pytest.raises(IntegrityError, match=r"002\.png \(image_id 27\): the file changed"):
        list(pictures.tested([np.arange(8)]))
    (RAW / "002.png").unlink()
    with pytest.raises(InputError, match=r"002\.png .*images\.parquet row 2 names it"):
        _drawn(pictures, [range(16)])
    table = images.read(paths.prepared("toy"))
    files = pa.array(["../raw/000.png", *table["file"].to_pylist()[1:]])
    table = table.set_column(table.schema.get_field_index("file"), "file", files)
    images.write(paths.prepared("toy"), table, str(RAW / "below"))
    with pytest.raises(InputError, match=r"row 0: file '\.\./raw/000\.png' lies outside its root"):
        list(_pictures(project).tested([np.array([7])]))


def _drawn(pictures, pairs, epoch=0, rows=None):
    rows = np.arange(8).repeat(2) if rows is None else rows
    return torch.cat(list(pictures.drawn(rows, [np.asarray(part) for part in pairs], epoch)))
