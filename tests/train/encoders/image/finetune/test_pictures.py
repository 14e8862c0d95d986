import numpy as np
import pyarrow as pa
import pytest
import torch
from PIL import Image

from tests.train.painted import RAW, painted
from vse_pipe.artifacts import features, images
from vse_pipe.core.errors import InputError, IntegrityError
from vse_pipe.core.files import sha256
from vse_pipe.pictures.transforms import Transform
from vse_pipe.project import paths
from vse_pipe.train.encoders.image.finetune.pictures import Drawing, Pictures

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
    return Pictures.of("toy", stored, described, CPU, drawing)


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
        Pictures.of("toy", project, described, CPU)
