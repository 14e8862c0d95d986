"""Embeddings of fragment models that do not fit together; those of vectors are in test_split."""

import numpy as np
import pytest
import torch

from tests.evaluate.embedded import ABOUT, sides
from vse_pipe.artifacts import embeddings
from vse_pipe.artifacts.embeddings import FragmentRows
from vse_pipe.core.errors import InputError
from vse_pipe.ranking.embedded import Embedded

CPU = torch.device("cpu")
SCAN = {**ABOUT, "similarity": "scan_t2i", "dim": "8"}


def _block(ids: list[int], owners: list[int], lengths: list[int]) -> FragmentRows:
    vectors = np.random.default_rng(0).standard_normal((sum(lengths), 8)).astype(np.float32)
    return FragmentRows("test", np.array(ids), np.array(owners), np.array(lengths), vectors)


def _write(folder, about: dict[str, str], regions: list[int]) -> None:
    images = _block([7, 9], [7, 9], regions)
    captions = _block([0, 1, 2], [7, 9, 9], [2, 1, 4])
    for name, block in ((embeddings.IMAGES, images), (embeddings.CAPTIONS, captions)):
        embeddings.write_fragments(folder / name, [block], 8, about)


def test_regions_and_words_come_as_they_were_written(tmp_path):
    _write(tmp_path, {**SCAN, "regions": "3"}, [3, 3])
    split = Embedded.read(tmp_path, "sum").split("test", CPU)
    assert split.images.shape == (2, 3, 8)
    assert split.captions.lengths.tolist() == [2, 1, 4]


@pytest.mark.parametrize(
    ("about", "regions", "message"),
    [
        ({"regions": "3"}, [3, 2], r"images\.parquet: image_id 9 has 2 regions, the footer says '3'"),
        ({"regions": "4"}, [3, 3], "image_id 7 has 3 regions, the footer says '4'; embed"),
        ({}, [3, 3], "image_id 7 has 3 regions, the footer says ''"),
    ],
)
def test_images_with_other_regions_than_promised_are_refused(tmp_path, about, regions, message):
    _write(tmp_path, {**SCAN, **about}, regions)
    with pytest.raises(InputError, match=message):
        Embedded.read(tmp_path).split("test", CPU)


def test_vectors_beside_fragments_are_refused(tmp_path):
    _write(tmp_path, dict(ABOUT), [3, 3])
    embeddings.write(tmp_path / embeddings.IMAGES, sides({"test": 4})[0])
    with pytest.raises(InputError, match="one file holds vectors, the other fragments; embed both again"):
        Embedded.read(tmp_path)


def test_a_bank_of_another_folder_holds_no_proposed_boxes(tmp_path):
    images, captions = sides({"test": 4, "proposal": 2})
    embeddings.write(tmp_path / embeddings.IMAGES, images)
    embeddings.write(tmp_path / embeddings.CAPTIONS, captions.split("test"))
    whole = Embedded.read(tmp_path).all_splits(CPU)
    assert whole.image_ids.tolist() == images.split("test").ids.tolist()
    assert np.array_equal(whole.images, images.split("test").vectors)
    assert len(whole.caption_ids) == len(captions.split("test").ids)


def test_a_bank_of_another_folder_must_hold_vectors(tmp_path):
    _write(tmp_path, {**SCAN, "regions": "3"}, [3, 3])
    with pytest.raises(InputError, match="a bank of another folder must be one of vectors, not of fragments"):
        Embedded.read(tmp_path).all_splits(CPU)
