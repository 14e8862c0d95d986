import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from vse_pipe.core.errors import InputError
from vse_pipe.evaluate import vectors
from vse_pipe.evaluate.vectors import Vectors, checked, must_fit, must_pair, without_dropped


def given(vectors, ids=None, similarity="cosine") -> Vectors:
    vectors = np.asarray(vectors)
    ids = np.arange(len(vectors)) * 10 if ids is None else np.array(ids)
    return checked("a.parquet", "image_id", ids, None, vectors, similarity)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_cosine_has_vectors_of_length_one_and_dot_keeps_them(dtype):
    values = np.array([[3, 4], [0, -0.5]], dtype)
    np.testing.assert_array_equal(given(values).vectors, np.array([[0.6, 0.8], [0, -1]], np.float32))
    np.testing.assert_array_equal(given(values, similarity="dot").vectors, values.astype(np.float32))
    assert given(values).vectors.dtype == given(values, similarity="dot").vectors.dtype == np.float32


def test_rows_are_each_divided_by_their_own_length_many_and_very_long_and_very_short_ones():
    found = given(np.array([[1e300, 1e300], [3e-300, 4e-300]])).vectors
    np.testing.assert_allclose(found, [[0.5**0.5, 0.5**0.5], [0.6, 0.8]], rtol=1e-6)
    vectors = np.random.default_rng(0).standard_normal((20_000, 3))
    found = given(vectors).vectors
    np.testing.assert_allclose(found, vectors / np.linalg.norm(vectors, axis=1, keepdims=True), atol=1e-7)


@pytest.mark.parametrize(
    ("vectors", "ids", "similarity", "message"),
    [
        (np.empty((0, 3)), [], "cosine", "a.parquet: no vectors: the array is 0 x 3"),
        (np.empty((2, 0)), None, "cosine", "a.parquet: no vectors: the array is 2 x 0"),
        (np.ones((5, 2)), [4, 7, 4, 9, 7], "dot", "a.parquet: 2 image_ids occur more than once: image_id 4, 7"),
        ([[1, 2], [np.nan, 0], [np.inf, 1]], None, "dot", "2 rows hold NaN or infinite values: image_id 10, 20"),
        (np.full((5, 1), np.nan), None, "cosine", "5 rows hold NaN or infinite values: image_id 0, 10, 20, ..."),
        ([[1, 2], [0, 0], [-0.0, 0]], None, "cosine", "2 rows have length zero and no cosine.*: image_id 10, 20"),
        ([[1.0, 1e39]], None, "dot", "1 rows hold values too large for float32: image_id 0"),
    ],
)
def test_what_cannot_be_compared_is_refused_with_count_and_first_ids(vectors, ids, similarity, message):
    with pytest.raises(InputError, match=message):
        given(vectors, ids, similarity)


def test_both_sides_have_one_width_and_zero_vectors_are_allowed_under_dot():
    assert given(np.zeros((2, 3)), similarity="dot").vectors.sum() == 0
    one, other = given(np.ones((1, 2))), given(np.ones((1, 3)))
    must_fit(one, one)
    with pytest.raises(InputError, match=r"vectors of 3 values, those of a\.parquet have 2"):
        must_fit(one, other)


@pytest.mark.parametrize(
    ("images", "owners", "message"),
    [
        ([1, 2], [1, 2, 8, 9, 9], "b.npy: captions of 2 images that a.npy does not hold: image_id 8, 9"),
        ([1, 2, 3], [1, 1], "a.npy: 2 images without a caption in b.npy: image_id 2, 3; leave them out, or"),
    ],
)
def test_images_and_captions_belong_together(images, owners, message):
    one = Vectors("a.npy", "image_id", np.array(images), None, np.ones((len(images), 1), np.float32))
    ids = np.arange(len(owners))
    other = Vectors("b.npy", "caption_id", ids, np.array(owners), np.ones((len(owners), 1), np.float32))
    with pytest.raises(InputError, match=message):
        must_pair(one, other)


def test_one_model_under_two_names_is_one_model(tmp_path):
    """A run, and a transfer of it."""

    def made(name: str, digest: str) -> Vectors:
        about = {"run": name, "model_sha256": digest}
        table = pa.table({"image_id": [1], "embedding": pa.array([[1.0, 0.0]], pa.list_(pa.float32(), 2))})
        pq.write_table(table.replace_schema_metadata(about), tmp_path / "a.parquet")
        return vectors.read_images(tmp_path / "a.parquet", "cosine")

    must_fit(made("hal", "a" * 64), made("hal_on_mine", "a" * 64))
    with pytest.raises(InputError, match=r"vectors of 2 values of run max \(model bbbbbbbbbbbb\), those of .* run hal"):
        must_fit(made("hal", "a" * 64), made("max", "b" * 64))


def test_where_no_row_is_dropped_nothing_is_copied():
    sides = given(np.eye(3)), checked("captions", "caption_id", np.arange(3), np.arange(3), np.eye(3), "cosine")
    for kept, side in zip(without_dropped(*sides), sides, strict=True):
        assert np.shares_memory(kept.vectors, side.vectors)
