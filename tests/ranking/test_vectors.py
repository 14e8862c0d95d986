"""Vectors of files and arrays: scaled, compared and refused where they come in."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from vse_pipe.core.errors import InputError
from vse_pipe.ranking import rows
from vse_pipe.ranking.vectors import WHOLE, Vectors

CPU = torch.device("cpu")


def checked(vectors, similarity="cosine") -> np.ndarray:
    return rows.checked("a.parquet", np.asarray(vectors), similarity)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_cosine_has_vectors_of_length_one_and_dot_keeps_them(dtype):
    values = np.array([[3, 4], [0, -0.5]], dtype)
    np.testing.assert_array_equal(checked(values), np.array([[0.6, 0.8], [0, -1]], np.float32))
    np.testing.assert_array_equal(checked(values, similarity="dot"), values.astype(np.float32))
    assert checked(values).dtype == checked(values, similarity="dot").dtype == np.float32
    assert checked(np.zeros((2, 3)), similarity="dot").sum() == 0


def test_rows_are_each_divided_by_their_own_length_many_and_very_long_and_very_short_ones():
    found = checked(np.array([[1e300, 1e300], [3e-300, 4e-300]]))
    np.testing.assert_allclose(found, [[0.5**0.5, 0.5**0.5], [0.6, 0.8]], rtol=1e-6)
    vectors = np.random.default_rng(0).standard_normal((20_000, 3))
    found = checked(vectors)
    np.testing.assert_allclose(found, vectors / np.linalg.norm(vectors, axis=1, keepdims=True), atol=1e-7)


@pytest.mark.parametrize(
    ("vectors", "similarity", "message"),
    [
        (np.empty((2, 0)), "cosine", "a.parquet: no vectors: the array is 2 x 0"),
        ([[1, 2], [np.nan, 0], [np.inf, 1]], "dot", "2 rows hold NaN or infinite values, the first is row 1"),
        ([[1, 2], [0, 0], [-0.0, 0]], "cosine", "2 rows have length zero.*the first is row 1"),
        ([[1.0, 1e39]], "dot", "1 rows hold values too large for float32, the first is row 0"),
    ],
)
def test_what_cannot_be_compared_is_refused_with_count_and_first_row(vectors, similarity, message):
    with pytest.raises(InputError, match=message):
        checked(vectors, similarity)


def test_an_id_that_occurs_twice_is_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((5, 2)))
    (tmp_path / "ids.txt").write_text("4\n7\n4\n9\n7\n")
    with pytest.raises(InputError, match=r"ids\.txt: 2 ids occur more than once: image_id 4, 7"):
        Vectors.of_files(tmp_path / "a.npy", None, image_ids=tmp_path / "ids.txt")


@pytest.mark.parametrize(
    ("images", "owners", "message"),
    [
        ([0, 1], [0, 1, 8, 9, 9], "captions: 2 images of captions are not in images: row 8, 9"),
        ([0, 1, 2], [0, 0], "images: 2 images have no caption: row 1, 2"),
    ],
)
def test_images_and_captions_belong_together(images, owners, message):
    vectors = Vectors.of_arrays(np.ones((len(images), 1)), np.ones((len(owners), 1)), np.array(owners))
    with pytest.raises(InputError, match=message):
        vectors.split(WHOLE, CPU)
    assert len(vectors.split(WHOLE, CPU, paired=False).captions) == len(owners)


def test_one_model_under_two_names_is_one_model(tmp_path):
    """A run, and a transfer of it."""

    def made(name: str, digest: str) -> Vectors:
        about = {"run": name, "model_sha256": digest}
        table = pa.table({"image_id": [1], "embedding": pa.array([[1.0, 0.0]], pa.list_(pa.float32(), 2))})
        pq.write_table(table.replace_schema_metadata(about), tmp_path / "a.parquet")
        return Vectors.of_files(tmp_path / "a.parquet", None)

    first = made("hal", "a" * 64)
    first.must_match(made("hal_on_mine", "a" * 64))
    with pytest.raises(InputError, match=r"model_sha256 is 'b{64}', that of .* is 'a{64}'"):
        first.must_match(made("max", "b" * 64))
