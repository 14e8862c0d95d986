"""`vse-pipe encode`: captions and photos of the user have the vectors that ``embed`` gives the same content."""

import csv
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from tests.command_line import caller, json_document, output
from tests.train.conftest import extraction, painted_project  # noqa: F401 (fixtures)
from tests.train.painted import RAW, RUN, loaded
from vse_pipe.artifacts import captions, embeddings, images, model_files
from vse_pipe.core.errors import InputError, UsageError
from vse_pipe.core.files import read_json, write_json
from vse_pipe.embed.stage import embed
from vse_pipe.project import paths
from vse_pipe.project.params.load import load
from vse_pipe.tools.encode import CaptionFile, Encoder, encode_captions, encode_images
from vse_pipe.train.stage import train


def _vectors(path: Path) -> tuple[list, np.ndarray]:
    table = pq.read_table(path)
    key = "caption_id" if "caption_id" in table.column_names else "image_id"
    return table[key].to_pylist(), np.array(table["embedding"].to_pylist(), np.float32)


@pytest.fixture
def said(made):
    """The captions of the project ``made``, in their order, as a text file and as a table with ids."""
    table = captions.read(paths.prepared("toy")).to_pylist()
    Path("said.txt").write_text("\n".join(row["text"] for row in table) + "\n\n")
    with Path("said.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["caption_id", "image_id", "sentence"])
        rows.writerows([row["caption_id"], row["image_id"], row["text"]] for row in table)
        file.write("\n\n")
    return load(paths.PARAMS)


def test_captions_have_the_vectors_of_embed_to_the_last_bit(said):
    expected = embeddings.read(paths.embedded("sum") / embeddings.CAPTIONS)
    encode_captions(said, "sum", Path("said.txt"), None, Path("text.parquet"), "cpu")
    ids, vectors = _vectors(Path("text.parquet"))
    assert ids == list(range(len(expected.ids)))
    np.testing.assert_array_equal(vectors, expected.vectors)
    found = encode_captions(said, "sum", Path("said.csv"), "sentence", Path("captions.parquet"), "cpu")
    assert found["unknown_words"] == 0.0
    again = embeddings.read(Path("captions.parquet"))
    for name in ("ids", "image_ids", "vectors"):
        np.testing.assert_array_equal(getattr(again, name), getattr(expected, name))
    assert again.about["model_sha256"] == expected.about["model_sha256"]


def test_some_captions_alone_differ_by_rounding(said):
    """A batch is padded to its longest caption."""
    expected = embeddings.read(paths.embedded("sum") / embeddings.CAPTIONS).vectors
    encoder = Encoder.open(said, "sum", torch.device("cpu"))
    sentences = list(CaptionFile.read(Path("said.txt")))
    for place in range(0, len(sentences), 9):
        (alone,) = encoder.captions([sentences[place]], 1)
        np.testing.assert_allclose(alone[0], expected[place], atol=1e-6)


@pytest.mark.parametrize("image", ["linear", "finetune"])
def test_pictures_have_the_vectors_of_embed_to_the_last_bit(painted_project, image):  # noqa: F811
    """Whether features are computed first or the encoder reads pixels; and one picture alone as among others."""
    params = loaded({}, run={**RUN, "image": image}, epochs=1)
    train(params, "ft", "cpu")
    embed(params, "ft", "cpu")
    side, table = embeddings.read(paths.embedded("ft") / embeddings.IMAGES), images.read(paths.prepared("toy"))
    expected = dict(zip(table["file"].to_pylist(), side.vectors, strict=True))
    (RAW / "album").mkdir()
    shutil.move(RAW / "003.png", RAW / "album/003.png")
    (RAW / "album/broken.jpg").write_bytes(b"no picture")
    found = encode_images(params, "ft", RAW, Path("all.parquet"), "cpu")
    ids, vectors = _vectors(Path("all.parquet"))
    assert ids == sorted([*(name for name in expected if name != "003.png"), "album/003.png"])
    np.testing.assert_array_equal(vectors, [expected[Path(name).name] for name in ids])
    assert found["images"] == len(expected)
    assert len(found["left_out"]) == 1
    assert found["left_out"][0].startswith("album/broken.jpg: ")
    (RAW / "album/broken.jpg").unlink()
    encode_images(params, "ft", RAW / "album", Path("one.parquet"), "cpu")
    np.testing.assert_array_equal(_vectors(Path("one.parquet"))[1], [expected["003.png"]])


def test_both_files_are_ranked_and_exported(painted_project, monkeypatch, capsys):  # noqa: F811
    """As the data set itself, under the names of the pictures."""
    params = loaded({}, run={**RUN, "image": "linear"}, epochs=1)
    train(params, "ft", "cpu")
    embed(params, "ft", "cpu")
    files = dict(
        zip(*(images.read(paths.prepared("toy"))[name].to_pylist() for name in ("image_id", "file")), strict=True)
    )
    with Path("said.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["image", "caption"])
        told = captions.read(paths.prepared("toy")).to_pylist()
        rows.writerows([files[row["image_id"]], row["text"]] for row in told)
    call = caller(monkeypatch, capsys)
    for arguments in (("--captions", "said.csv", "--out", "c.parquet"), ("--images", RAW, "--out", "i.parquet")):
        output(call, "encode", "--run", "ft", *arguments, "--device", "cpu")
    measured = []
    whole = paths.embedded("ft")
    for seen, read in (("i.parquet", "c.parquet"), (whole / embeddings.IMAGES, whole / embeddings.CAPTIONS)):
        sides = ("--images", seen, "--captions", read)
        measured.append(
            json_document(call, "evaluate", *sides, "--inference", "csls", "--json", "--out", Path(seen).stem)
        )
    assert measured[0]["rsum"] == measured[1]["rsum"]
    assert "album" not in pq.read_table("i/csls/ranks.parquet")["image_name"].to_pylist()
    assert set(pq.read_table("i/csls/ranks.parquet")["image_name"].to_pylist()) == set(files.values())
    sides = ("--images", "i.parquet", "--captions", "c.parquet")
    output(call, "export", *sides, "--inference", "csls", "--to", "npy", "--out", "exported")


def test_what_cannot_be_encoded_is_said_and_nothing_is_written(said):
    out = Path("out.parquet")
    for content, what in [("a red dog\n\nblue\n", "line 2: the caption is empty"), ("\n", "holds no captions")]:
        Path("bad.txt").write_text(content)
        with pytest.raises(InputError, match=what):
            encode_captions(said, "sum", Path("bad.txt"), None, out, "cpu")
    with pytest.raises(
        UsageError, match="no column caption or text; name that of the captions with --column: caption_id"
    ):
        encode_captions(said, "sum", Path("said.csv"), None, out, "cpu")
    Path("bad.csv").write_text("caption_id,caption\n1,a dog\n1,a tree\n")
    with pytest.raises(InputError, match="'1' is given twice"):
        encode_captions(said, "sum", Path("bad.csv"), None, out, "cpu")
    Path("bad.csv").write_text("caption\na,dog\n")
    with pytest.raises(InputError, match=r"bad\.csv row 2: expected 1 cells, there are 2"):
        encode_captions(said, "sum", Path("bad.csv"), None, out, "cpu")
    Path("empty").mkdir()
    with pytest.raises(InputError, match="no picture in it"):
        encode_images(said, "sum", Path("empty"), out, "cpu")
    Path("empty/a.png").write_bytes(b"no picture")
    with pytest.raises(UsageError, match="'precomp': computed elsewhere"):
        encode_images(said, "sum", Path("empty"), out, "cpu")
    assert not out.exists()


def test_no_other_file_is_replaced(said):
    for _ in range(2):
        encode_captions(said, "sum", Path("said.txt"), None, Path("text.parquet"), "cpu")
    own = paths.embedded("sum") / embeddings.CAPTIONS
    before = own.read_bytes()
    with pytest.raises(UsageError, match="exists and is no file of vse-pipe encode"):
        encode_captions(said, "sum", Path("said.txt"), None, own, "cpu")
    assert own.read_bytes() == before
    with pytest.raises(UsageError, match=r"expected the name of a \.parquet file"):
        encode_captions(said, "sum", Path("said.txt"), None, Path("text.npy"), "cpu")


def test_all_pictures_unreadable_is_an_error(painted_project):  # noqa: F811
    params = loaded({}, run={**RUN, "image": "linear"}, epochs=1)
    train(params, "ft", "cpu")
    Path("broken").mkdir()
    Path("broken/a.png").write_bytes(b"no picture")
    with pytest.raises(InputError, match=r"none of 1 pictures can be read; the first is a\.png: "):
        encode_images(params, "ft", Path("broken"), Path("out.parquet"), "cpu")
    assert not Path("out.parquet").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"similarity": {"name": "scan_t2i", "params": {}}}, "compares regions with words .scan_t2i."),
        ({"peer_sha256": "0" * 64}, "is the mean of two networks"),
    ],
)
def test_runs_without_one_vector_are_refused(said, changes, message):
    path = paths.trained("sum") / model_files.CONFIG
    write_json(path, {**read_json(path), **changes})
    with pytest.raises(UsageError, match=message):
        Encoder.open(said, "sum", torch.device("cpu"))
