"""`vse-pipe encode`: vectors of captions and pictures are those of ``embed``."""

import csv
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.fragment_project import run_of, write_fragment_project
from tests.train.conftest import extraction, painted_project  # noqa: F401 (fixtures)
from tests.train.painted import RAW, RUN, loaded
from vse_pipe.artifacts import captions, embeddings, images
from vse_pipe.core.errors import InputError, UsageError
from vse_pipe.embed.stage import embed
from vse_pipe.export.encode import encode_captions, encode_images
from vse_pipe.extract.stage import extract
from vse_pipe.project import paths
from vse_pipe.project.params.load import load
from vse_pipe.train.stage import train


def embedded_run(image: str = "linear", features: dict | None = None):
    """A run on photos, embedded."""
    params = loaded({}, features or {}, run={**RUN, "image": image}, epochs=1)
    if features:
        extract(params, "small", "cpu")
    train(params, "ft", "cpu")
    embed(params, "ft", "cpu")
    return params


def _vectors(path: Path) -> tuple[list, np.ndarray]:
    table = pq.read_table(path)
    key = "caption_id" if "caption_id" in table.column_names else "image_id"
    return table[key].to_pylist(), np.array(table["embedding"].to_pylist(), np.float32)


def _table(name: str, rows: list, end: str = "") -> None:
    with Path(name).open("w", newline="") as file:
        csv.writer(file).writerows(rows)
        file.write(end)


@pytest.fixture
def said(made):
    """The captions of the project ``made``, in their order, as a text file and as a table with ids."""
    table = captions.read(paths.prepared("toy")).to_pylist()
    Path("said.txt").write_text("\n".join(row["text"] for row in table) + "\n\n")
    rows = [[row["caption_id"], row["image_id"], row["text"]] for row in table]
    _table("said.csv", [["caption_id", "image_id", "caption"], *rows], "\n\n")
    return load(paths.PARAMS)


def test_captions_have_the_vectors_of_embed_to_the_last_bit(said):
    expected = embeddings.read(paths.embedded("sum") / embeddings.CAPTIONS)
    encode_captions(said, "sum", Path("said.txt"), Path("text.parquet"), "cpu")
    ids, vectors = _vectors(Path("text.parquet"))
    assert ids == list(range(len(expected.ids)))
    np.testing.assert_array_equal(vectors, expected.vectors)
    found = encode_captions(said, "sum", Path("said.csv"), Path("captions.parquet"), "cpu")
    assert found["unknown_words"] == 0.0
    again = embeddings.read(Path("captions.parquet"))
    for name in ("ids", "image_ids", "vectors"):
        np.testing.assert_array_equal(getattr(again, name), getattr(expected, name))
    assert again.about["model_sha256"] == expected.about["model_sha256"]


@pytest.mark.parametrize("image", ["linear", "finetune"])
def test_pictures_have_the_vectors_of_embed(painted_project, image):  # noqa: F811
    """Whether features are computed first or the encoder reads pixels; and one picture alone as among others."""
    params = embedded_run(image)
    side, table = embeddings.read(paths.embedded("ft") / embeddings.IMAGES), images.read(paths.prepared("toy"))
    expected = dict(zip(table["file"].to_pylist(), side.vectors, strict=True))
    (RAW / "album").mkdir()
    shutil.move(RAW / "003.png", RAW / "album/003.png")
    (RAW / "album/broken.jpg").write_bytes(b"no picture")
    found = encode_images(params, "ft", RAW, Path("all.parquet"), "cpu")
    ids, vectors = _vectors(Path("all.parquet"))
    assert ids == sorted([*(name for name in expected if name != "003.png"), "album/003.png"])
    np.testing.assert_allclose(vectors, [expected[Path(name).name] for name in ids], atol=1e-6)
    assert (found["images"], len(found["left_out"])) == (len(expected), 1)
    assert found["left_out"][0].startswith("album/broken.jpg: ")
    (RAW / "album/broken.jpg").unlink()
    encode_images(params, "ft", RAW / "album", Path("one.parquet"), "cpu")
    np.testing.assert_allclose(_vectors(Path("one.parquet"))[1], [expected["003.png"]], atol=1e-6)

    # All of them unreadable is an error.
    (RAW / "album/003.png").write_bytes(b"no picture")
    with pytest.raises(InputError, match=r"none of 1 pictures can be read; the first is 003\.png: "):
        encode_images(params, "ft", RAW / "album", Path("none.parquet"), "cpu")
    assert not Path("none.parquet").exists()


NO_COLUMN = "no column caption among caption_id"
CAPTIONS = [
    ("bad.txt", "a red dog\n\nblue\n", InputError, "line 2: the caption .* shows nothing"),
    ("bad.csv", "caption_id,caption\n1,a dog\n1,a tree\n", InputError, "'1' is given twice"),
    ("bad.csv", "caption_id\n1\n", InputError, NO_COLUMN),
]


@pytest.mark.parametrize(("name", "content", "error", "message"), CAPTIONS)
def test_captions_that_cannot_be_encoded_are_said_and_nothing_is_written(said, name, content, error, message):
    Path(name).write_text(content)
    with pytest.raises(error, match=message):
        encode_captions(said, "sum", Path(name), Path("out.parquet"), "cpu")
    assert not Path("out.parquet").exists()


def test_no_other_file_is_replaced(said):
    own = paths.embedded("sum") / embeddings.CAPTIONS
    before = own.read_bytes()
    with pytest.raises(UsageError, match=r"expected the name of a new \.parquet file"):
        encode_captions(said, "sum", Path("said.txt"), own, "cpu")
    assert own.read_bytes() == before
    with pytest.raises(UsageError, match=r"expected the name of a new \.parquet file"):
        encode_captions(said, "sum", Path("said.txt"), Path("text.npy"), "cpu")


def test_two_networks_have_one_vector_whose_inner_product_is_the_mean_of_their_scores(made):
    params = load(paths.PARAMS, ["runs.sum.loss=max", "runs.sum.scheme=ncr", "scheme.ncr.warm_up=1"])
    train(params, "sum", "cpu")
    embed(params, "sum", "cpu")
    texts = captions.read(paths.prepared("toy"))["text"].to_pylist()
    Path("two.txt").write_text("\n".join(texts))
    encode_captions(params, "sum", Path("two.txt"), Path("two.parquet"), "cpu")
    _, vectors = _vectors(Path("two.parquet"))
    whole = paths.embedded("sum")
    stored = [embeddings.read(folder / embeddings.CAPTIONS).vectors for folder in (whole, whole / embeddings.PEER)]
    expected = (stored[0] @ stored[0].T + stored[1] @ stored[1].T) / 2
    np.testing.assert_allclose(vectors @ vectors.T, expected, atol=1e-5)


def test_a_model_of_fragments_has_the_words_of_embed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    params = write_fragment_project(tmp_path, mine=run_of("scan_t2i", train={"epochs": 1}))
    train(params, "mine", "cpu")
    embed(params, "mine", "cpu")
    stored = embeddings.read(paths.embedded("mine") / embeddings.CAPTIONS).split("test")
    table = captions.read(paths.prepared("toy")).to_pylist()
    text_of = {row["caption_id"]: row["text"] for row in table}
    _table("said.csv", [["caption_id", "caption"], *([number, text_of[number]] for number in stored.ids.tolist())])
    encode_captions(params, "mine", Path("said.csv"), Path("words.parquet"), "cpu")
    rows = pq.read_table("words.parquet")
    assert rows.column_names == ["caption_id", "split", "fragments"]
    assert rows["caption_id"].to_pylist() == stored.ids.tolist()
    words = rows["fragments"].to_pylist()
    assert [len(row) for row in words] == stored.lengths.tolist()
    np.testing.assert_allclose(np.concatenate(words), stored.vectors, atol=1e-6)
