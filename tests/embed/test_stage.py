import json
from contextlib import chdir
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from tests.sealed import made_anew
from tests.toy_project import PARAMS, kept, load_params, ready, write_prepared
from vse_pipe.artifacts import captions, embeddings
from vse_pipe.core.errors import IntegrityError, UsageError
from vse_pipe.embed import stage as vectors
from vse_pipe.embed.stage import embed
from vse_pipe.project import paths
from vse_pipe.search.network import open_run
from vse_pipe.train.stage import train


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    with chdir(tmp_path_factory.mktemp("embed")):
        write_prepared()
        yield ready(load_params(Path(), noises={"clean": PARAMS["noises"]["clean"]}))


def _sides() -> list[embeddings.Side]:
    return [embeddings.read(paths.embedded("sum") / name) for name in (embeddings.IMAGES, embeddings.CAPTIONS)]


def test_every_image_and_caption_of_every_split_has_a_unit_vector(project):
    (images, texts), table = _sides(), captions.read(paths.prepared("toy"))
    assert texts.ids.tolist() == table["caption_id"].to_pylist()
    assert texts.image_ids.tolist() == table["image_id"].to_pylist()
    assert texts.splits.tolist() == table["split"].to_pylist()
    assert set(images.splits) == {"train", "val", "test"}
    for side in (images, texts):
        np.testing.assert_allclose(np.linalg.norm(side.vectors, axis=1), 1.0, rtol=1e-5)
    assert images.about["similarity"] == "cosine"
    assert json.loads(images.about["normalised"]) is True


def test_short_vectors_have_length_one_and_search_cuts_its_queries_too(project):
    whole, short = _sides(), replace(project, embed=project.embed.model_copy(update={"dim": 5}))
    embed(short, "sum", "cpu")
    try:
        for side, before in zip(_sides(), whole, strict=True):
            assert side.about["cut_from"] == "12"
            cut = before.vectors[:, :5] / np.linalg.norm(before.vectors[:, :5], axis=1, keepdims=True)
            np.testing.assert_allclose(side.vectors, cut, atol=1e-6)
        query = open_run(short, "sum", "test", torch.device("cpu")).sentence("red dog").side
        assert query.shape == (1, 5)
        assert float(query.norm()) == pytest.approx(1)
        with pytest.raises(UsageError, match=r"embed\.dim 13: vectors of run 'sum' have 12 dimensions"):
            embed(replace(project, embed=project.embed.model_copy(update={"dim": 13})), "sum", "cpu")
    finally:
        embed(project, "sum", "cpu")
    assert [side.about for side in _sides()] == [before.about for before in whole]


@pytest.mark.parametrize(
    ("folder", "part", "out"),
    [
        (paths.extracted("toy", "plain"), "features", "train/sum"),
        (paths.extracted("toy", "words"), "texts", "train/sum"),
        (paths.prepared("toy"), "images", "extract/toy/plain"),
        (paths.prepared("toy"), "captions", "extract/toy/words"),
    ],
)
def test_what_the_run_was_not_trained_with_is_refused(project, folder, part, out):
    with kept(Path("data")):
        made_anew(folder, **{part: "0"})
        for command in (embed, train) if "extract" in out else (embed,):
            with pytest.raises(IntegrityError, match=f"data/{out}: made from other {part} than"):
                command(project, "sum", "cpu")


def test_vectors_that_take_more_than_memory_may_hold_are_written_in_parts(project, monkeypatch):
    whole = _sides()
    monkeypatch.setattr(vectors, "BATCH", 4)
    monkeypatch.setattr(vectors, "_COPIES", 2**20 // 12)  # of 12 dimensions a vector: 4 of them take 4 MiB
    embed(replace(project, embed=project.embed.model_copy(update={"memory": 9})), "sum", "cpu")
    for name, before in zip((embeddings.IMAGES, embeddings.CAPTIONS), whole, strict=True):
        path = paths.embedded("sum") / name
        groups, count = pq.ParquetFile(path).metadata, len(before.ids)
        sizes = [groups.row_group(number).num_rows for number in range(groups.num_row_groups)]
        assert sizes == [8] * (count // 8) + [count % 8] * (count % 8 > 0)
        now = embeddings.read(path)
        assert (now.ids.tolist(), now.splits.tolist()) == (before.ids.tolist(), before.splits.tolist())
        np.testing.assert_allclose(now.vectors, before.vectors, atol=1e-6)
