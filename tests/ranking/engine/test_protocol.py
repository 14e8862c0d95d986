import numpy as np
import pytest
import torch

from tests.ranking.dense import unit_vectors
from vse_pipe.core.errors import InputError
from vse_pipe.project.params.schema import EvaluateParams
from vse_pipe.ranking.evaluation import folds, tuning_folds
from vse_pipe.ranking.split import Split


def split(images: int) -> Split:
    ids = np.arange(images)[::-1] * 3
    owners = np.repeat(ids, 2)
    return Split(ids, np.arange(2 * images), owners, unit_vectors(images, 4, 0), unit_vectors(2 * images, 4, 1))


def sizes(parts: list[Split]) -> list[int]:
    return [len(part.image_ids) for part in parts]


def test_full_is_one_fold_of_everything():
    whole = split(7)
    assert folds(whole, EvaluateParams(protocol="full", fold_size=3)) == [whole]


def test_folds_are_consecutive_in_the_order_of_the_file():
    whole = split(6)
    parts = folds(whole, EvaluateParams(protocol="folds", fold_size=2))
    assert np.concatenate([part.image_ids for part in parts]).tolist() == whole.image_ids.tolist()
    assert np.concatenate([part.caption_ids for part in parts]).tolist() == whole.caption_ids.tolist()
    assert torch.equal(parts[1].images, whole.images[2:4])
    assert sizes(parts) == [2, 2, 2]


@pytest.mark.parametrize("images", [4, 6, 7])
def test_first_is_the_first_fold_and_the_rest_is_left_out(images):
    whole = split(images)
    (only,) = folds(whole, EvaluateParams(protocol="first", fold_size=4))
    assert only.image_ids.tolist() == whole.image_ids[:4].tolist()
    assert only.caption_ids.tolist() == whole.caption_ids[:8].tolist()
    assert torch.equal(only.images, whole.images[:4])


def test_fewer_images_than_the_first_fold_are_refused():
    with pytest.raises(InputError, match=r"split 'test' has 3 images, fewer than evaluate\.fold_size 4"):
        folds(split(3), EvaluateParams(protocol="first", fold_size=4))


@pytest.mark.parametrize(("images", "expected"), [(8, [4]), (4, [4]), (3, [3])])
def test_validation_under_first(images, expected):
    assert sizes(tuning_folds(split(images), EvaluateParams(protocol="first", fold_size=4))) == expected


@pytest.mark.parametrize("images", [1, 5, 7, 999])
def test_a_part_of_a_fold_is_refused(images):
    params = EvaluateParams(protocol="folds", fold_size=1000 if images == 999 else 4)
    message = f"split 'test' has {images} images, not a multiple of evaluate.fold_size {params.fold_size}"
    with pytest.raises(InputError, match=message):
        folds(split(images), params)


@pytest.mark.parametrize(("images", "expected"), [(8, [4, 4]), (10, [4, 4]), (4, [4]), (3, [3])])
def test_validation_uses_whole_folds_and_a_small_split_as_it_is(images, expected):
    assert sizes(tuning_folds(split(images), EvaluateParams(protocol="folds", fold_size=4))) == expected
    assert sizes(tuning_folds(split(images), EvaluateParams(protocol="full"))) == [images]
