import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from pydantic import ValidationError
from torch import nn
from torchvision.transforms import InterpolationMode, RandomResizedCrop
from torchvision.transforms import functional as reference

from tests.train.painted import RAW, painted
from tests.train.some import adam
from vse_pipe.artifacts import features, images
from vse_pipe.core.errors import InputError, IntegrityError
from vse_pipe.core.files import sha256
from vse_pipe.pictures.images import Transform
from vse_pipe.project import paths
from vse_pipe.project.params.schema import TrainParams
from vse_pipe.train.encoders import two_branch
from vse_pipe.train.encoders.finetune import Drawing, Pictures, build_image, mirrored, random_box, random_crop
from vse_pipe.train.encoders.options import BranchShape
from vse_pipe.train.encoders.options import ImageFinetuneOptions as Params
from vse_pipe.train.scheme import Moment, set_rates


class Network(nn.Module):
    """Pixels (B, crops, S, S, 3) to (B, 6): a convolution, batch normalisation, dropout, means over the image."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.Dropout(0.5), nn.ReLU())

    def forward(self, pixels):
        return self.net(pixels[:, 0].permute(0, 3, 1, 2).float() / 255).mean(dim=(2, 3))


def _encoder(**options):
    torch.manual_seed(0)
    return build_image(Params(**options), (6,), 4, torch.Generator().manual_seed(1), Network())


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
    other = two_branch.build_image(BranchShape(**branch), (6,), 4, torch.Generator().manual_seed(1))
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
    from vse_pipe.train.encoders import linear

    other = linear.build_image(linear.Params(), (6,), 4, torch.Generator().manual_seed(1))
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
        build_image(Params(), (36, 6), 4, torch.Generator(), Network())


@pytest.mark.parametrize(
    "options", [{"after": -1}, {"lr": 0.0}, {"batch_norm": "eval"}, {"crop": "ten"}, {"flipp": True}]
)
def test_options_are_checked(options):
    with pytest.raises(ValidationError):
        Params(**options)


def _image(width=60, height=45):
    pixels = np.random.default_rng(1).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


@given(st.integers(1, 500), st.integers(1, 500), st.integers(0, 2**32))
def test_a_box_lies_inside_the_image(width, height, seed):
    left, top, right, bottom = random_box(width, height, np.random.default_rng(seed))
    assert 0 <= left < right <= width
    assert 0 <= top < bottom <= height


def test_boxes_have_the_areas_and_shapes_of_torchvision():
    rng = np.random.default_rng(0)
    boxes = np.array([random_box(640, 480, rng) for _ in range(4000)])
    w, h = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    image = Image.new("RGB", (640, 480))
    theirs = np.array([RandomResizedCrop.get_params(image, (0.08, 1.0), (3 / 4, 4 / 3)) for _ in range(4000)])
    areas, their_areas = w * h / (640 * 480), theirs[:, 2] * theirs[:, 3] / (640 * 480)
    assert areas.min() > 0.079
    assert areas.max() <= 1
    assert (w / h).min() > 0.74
    assert (w / h).max() < 1.35
    levels = [0.1, 0.3, 0.5, 0.7, 0.9]
    assert np.abs(np.quantile(areas, levels) - np.quantile(their_areas, levels)).max() < 0.05
    assert np.abs(np.quantile(w / h, levels) - np.quantile(theirs[:, 3] / theirs[:, 2], levels)).max() < 0.05
    assert np.abs(np.quantile(boxes[:, 0], levels) - np.quantile(theirs[:, 1], levels)).max() < 20


@pytest.mark.parametrize(
    ("size", "box"), [((5, 1000), (0, 496, 5, 503)), ((1000, 6), (496, 0, 504, 6))], ids=["narrow", "flat"]
)
def test_an_image_of_no_admissible_shape_gives_its_middle(size, box):
    assert random_box(*size, np.random.default_rng(0)) == box


@pytest.mark.parametrize("name", ["bilinear", "bicubic"])
def test_a_crop_is_cut_and_scaled_as_torchvision_does(name):
    left, top, right, bottom = random_box(60, 45, np.random.default_rng(3))
    expected = reference.resized_crop(
        _image(), top, left, bottom - top, right - left, [16, 16], InterpolationMode(name)
    )
    found = random_crop(_image(), 16, Image.Resampling[name.upper()], np.random.default_rng(3))
    assert found.shape == (1, 16, 16, 3)
    np.testing.assert_array_equal(found[0], np.asarray(expected))


def test_about_half_of_the_images_are_mirrored_from_left_to_right():
    pixels = np.asarray(_image())[None]
    rng = np.random.default_rng(0)
    turned = 0
    for _ in range(400):
        found = mirrored(pixels, rng)
        same = np.array_equal(found, pixels)
        assert same or np.array_equal(found, pixels[:, :, ::-1])
        turned += not same
    assert 150 < turned < 250


CPU = torch.device("cpu")
TRANSFORM = {
    "image_size": 16,
    "resize": 20,
    "resize_mode": "shorter",
    "interpolation": "bilinear",
    "crops": "center",
    "mean": [0.5, 0.5, 0.5],
    "std": [0.5, 0.5, 0.5],
}


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Eight images whose feature rows run backwards."""
    monkeypatch.chdir(tmp_path)
    painted("tttttttt")
    ids = images.read(paths.prepared("toy"))["image_id"].to_numpy()
    return features.Features(np.zeros((8, 2), np.float32), ids, np.arange(8)[::-1].copy(), {})


def _pictures(stored, drawing=None, **transform) -> Pictures:
    described = {
        "transform": {**TRANSFORM, **transform},
        "params": {"batch_size": 4},
        "images_sha256": sha256(paths.prepared("toy") / images.NAME),
    }
    return Pictures.join("toy", stored, described, CPU, drawing)


def _drawn(pictures, pairs, epoch=0, rows=None):
    rows = np.arange(8).repeat(2) if rows is None else rows
    return torch.cat(list(pictures.drawn(rows, [np.asarray(part) for part in pairs], epoch)))


def test_rows_of_the_features_are_images_as_they_were_extracted(project):
    pictures = _pictures(project)
    first, second = pictures.tested([np.array([7, 0]), np.array([3])])
    assert first.dtype == torch.uint8
    assert first.shape == (2, 1, 16, 16, 3)
    for pixels, name in [(first[0], "000.png"), (first[1], "007.png"), (second[0], "004.png")]:
        expected = pictures.transform.pixels(Image.open(RAW / name))
        np.testing.assert_array_equal(pixels.numpy(), expected)


def test_draws_follow_from_seed_epoch_and_pair_alone(project):
    pictures = _pictures(project, Drawing("random", True, 5))
    whole = _drawn(pictures, [range(16)])
    assert torch.equal(_drawn(pictures, [[3, 8], [9], range(9)]), whole[[3, 8, 9, *range(9)]])
    ahead = Pictures(**{**vars(pictures), "ahead": 3})
    assert torch.equal(_drawn(ahead, [[pair] for pair in range(16)]), whole)
    assert torch.equal(_drawn(pictures, [range(16)]), whole)


@pytest.mark.parametrize("other", ["epoch", "seed", "pair"])
def test_other_epochs_seeds_and_pairs_see_other_crops(project, other):
    first = _drawn(_pictures(project, Drawing("random", False, 5)), [range(0, 16, 2)])
    seed, epoch, start = {"epoch": (5, 1, 0), "seed": (6, 0, 0), "pair": (5, 0, 1)}[other]
    second = _drawn(_pictures(project, Drawing("random", False, seed)), [range(start, 16, 2)], epoch)
    assert all(not torch.equal(one, two) for one, two in zip(first, second, strict=True))


def test_centre_crops_are_the_extraction_s_own_and_may_be_mirrored(project):
    still = _drawn(_pictures(project, Drawing("center", False, 5)), [range(16)])
    (tested,) = _pictures(project).tested([np.arange(8).repeat(2)])
    assert torch.equal(still, tested)
    turned = _drawn(_pictures(project, Drawing("center", True, 5)), [range(16)])
    kinds = [bool(torch.equal(a, b)) for a, b in zip(turned, still, strict=True)]
    assert set(kinds) == {True, False}
    for pixels, plain, same in zip(turned, still, kinds, strict=True):
        assert torch.equal(pixels, plain if same else plain.flip(2))


def test_ten_crops_where_the_features_had_ten(project):
    (tested,) = _pictures(project, crops="ten").tested([np.arange(3)])
    assert tested.shape == (3, 10, 16, 16, 3)


def test_the_transform_is_the_described(project):
    assert _pictures(project).transform == Transform(
        **{key: tuple(v) if isinstance(v, list) else v for key, v in TRANSFORM.items()}
    )


def test_a_changed_file_and_a_missing_one_are_named(project):
    pictures = _pictures(project)
    (RAW / "002.png").write_bytes((RAW / "003.png").read_bytes())
    with pytest.raises(IntegrityError, match=r"002\.png \(image_id 27\): the file changed"):
        list(pictures.tested([np.arange(8)]))
    (RAW / "002.png").unlink()
    with pytest.raises(InputError, match=r"002\.png .*images\.parquet row 2 names it"):
        _drawn(pictures, [range(16)])


def test_a_file_outside_of_its_root_is_refused(project):
    table = images.read(paths.prepared("toy"))
    files = ["../raw/000.png", *table["file"].to_pylist()[1:]]
    place = table.schema.get_field_index("file")
    images.write(paths.prepared("toy"), table.set_column(place, "file", pa.array(files)), str(RAW / "below"))
    with pytest.raises(InputError, match=r"row 0: file '\.\./raw/000\.png' lies outside its root"):
        list(_pictures(project).tested([np.array([7])]))


def test_another_list_of_images_is_refused(project):
    described = {"transform": TRANSFORM, "params": {"batch_size": 4}, "images_sha256": "0" * 64}
    with pytest.raises(IntegrityError, match="lists other images than the features were made from"):
        Pictures.join("toy", project, described, CPU)
