"""Vectors of a collection that changed: those that computing all anew gives, byte for byte, and only new pictures computed."""

import shutil
from collections.abc import Sequence
from contextlib import chdir
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.toy_project import WORDS, load_params, write_prepared
from vse_pipe.artifacts import captions, embeddings, features, images, joins, model_files
from vse_pipe.core.errors import InputError
from vse_pipe.embed import stage
from vse_pipe.embed.earlier import vectors_digest
from vse_pipe.embed.stage import Sources
from vse_pipe.extract.text_stage import extract_texts
from vse_pipe.inject.stage import inject
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.train.stage import train

POOL = np.random.default_rng(5).random((20, 10), dtype=np.float32)
PRECOMP = {"backbone": "precomp"}
CHANGES = {
    "datasets": {name: {"format": "csv", "source": "toy.csv"} for name in ("toy", "mine")},
    "features": {"plain": {"dataset": "toy", **PRECOMP}, "of_mine": {"dataset": "mine", **PRECOMP}},
    "transfers": {"moved": {"run": "sum", "dataset": "mine"}},
}
OUT = Path("data/embed/moved")


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A run on ``toy``, to be moved to ``mine``."""
    with chdir(tmp_path_factory.mktemp("grown")):
        write_prepared()
        params = load_params(Path(), **CHANGES)
        inject(params, "clean")
        extract_texts(params, "words")
        train(params, "sum", "cpu")
        yield params


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many images each call encodes."""
    seen, run = [], Sources.encode_images
    monkeypatch.setattr(
        Sources, "encode_images", lambda self, ids, *more, **how: seen.append(len(ids)) or run(self, ids, *more, **how)
    )
    return seen


def holds(pictures: Sequence[int], meta: dict | None = None) -> None:
    """``mine`` with these pictures of the pool, numbered by their places, and their features."""
    count = len(pictures)
    ids, split, zeros = np.arange(count), ["test"] * count, np.zeros(count, np.int32)
    columns = {"image_id": ids, "file": [f"{one}.jpg" for one in pictures], "split": split}
    digests = [f"{one:064x}" for one in pictures]
    table = pa.table({**columns, "width": zeros, "height": zeros, "sha256": digests}, images.SCHEMA)
    prepared, out = paths.prepared("mine"), paths.extracted("mine", "of_mine")
    for folder in (prepared, out):
        folder.mkdir(parents=True, exist_ok=True)
    images.write(prepared, table, ".")
    texts = [WORDS[one % len(WORDS)] for one in pictures]
    captions.write(prepared, pa.table({"caption_id": ids, "image_id": ids, "text": texts, "split": split}))
    index = pa.table({"image_id": ids, "row": ids, "status": ["ok"] * count, "detail": [""] * count})
    about = {**PRECOMP, **(meta or {})}
    features.write(out, POOL[list(pictures)], index, about)
    joins.write(out, joins.picture_contents(table), features.row_digest(about))


def outputs() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(OUT.iterdir())}


def fresh(params: Params) -> dict[str, bytes]:
    shutil.rmtree(OUT, ignore_errors=True)
    embed(params)
    found = outputs()
    shutil.rmtree(OUT)
    return found


def embed(params: Params) -> None:
    stage.embed(params, "moved", "cpu")


def having(params: Params, *splits: str) -> Params:
    return replace(params, embed=params.embed.model_copy(update={"splits": list(splits)}))


@pytest.mark.parametrize(
    ("pictures", "new"),
    [(range(20), 8), ([15, *range(12)], 1), ([3, 7, 9], 0), (range(11, -1, -1), 0), ([19, 4, 4, 11, 0, 13], 2)],
    ids=["added", "added in front", "removed", "in another order", "all of it"],
)
def test_only_new_pictures_are_computed(project, computed, capsys, pictures: Sequence[int], new: int) -> None:
    holds(pictures)
    wanted = fresh(project)
    holds(range(12))
    embed(project)
    holds(pictures)
    computed.clear()
    capsys.readouterr()
    embed(project)
    assert sum(computed) == new
    assert f"embed moved: {len(pictures) - new} of {len(pictures)} pictures computed before" in capsys.readouterr().err
    assert outputs() == wanted


def test_vectors_of_another_model_beside_contents_of_this_one_are_not_taken(project, computed) -> None:
    """As a checkout that was killed between two files leaves them."""
    holds(range(12))
    wanted = fresh(project)
    embed(project)
    other = embeddings.read(OUT / embeddings.IMAGES)
    about = {**{key: other.about[key] for key in ("run", "similarity")}, "model_sha256": "f" * 64}
    embeddings.write(OUT / embeddings.IMAGES, replace(other, vectors=other.vectors + 1, about=about))
    computed.clear()
    embed(project)
    assert sum(computed) == 12
    assert outputs() == wanted


def test_rows_are_taken_from_row_groups_wherever_they_lie(project, computed, monkeypatch, capsys) -> None:
    """In parts of four rows; then with damage in the first row group, which the third part meets."""
    monkeypatch.setattr(
        stage, "parts_of", lambda count, dim, memory: [slice(at, min(at + 4, count)) for at in range(0, count, 4)]
    )
    pictures = [19, *range(11, -1, -1), 15, 4]
    holds(pictures)
    wanted = fresh(project)
    holds(range(12))
    embed(project)
    path = OUT / "images.parquet"
    with pq.ParquetFile(path) as file:
        chunk = file.metadata.row_group(0).column(2)
        start = chunk.dictionary_page_offset or chunk.data_page_offset
        assert (file.metadata.num_row_groups, chunk.path_in_schema) == (3, "embedding.list.element")
    shutil.copytree(OUT, "earlier")
    holds(pictures)
    for damaged, new in ((False, 2), (True, 8)):
        shutil.copytree("earlier", OUT, dirs_exist_ok=True)
        content = bytearray(path.read_bytes())
        content[start + chunk.total_compressed_size - 1] ^= damaged
        path.write_bytes(content)
        computed.clear(), capsys.readouterr()
        embed(project)
        assert ("doing so now" in capsys.readouterr().err) == damaged
        assert (sum(computed), outputs()) == (new, wanted)


def test_other_features_or_damage_compute_all(project, computed, capsys) -> None:
    holds(range(14))
    embed(project)
    wanted, path = outputs(), OUT / "images.parquet"
    path.write_bytes(path.read_bytes()[:-9] + bytes(9))
    computed.clear()
    embed(project)
    assert "doing so now" in capsys.readouterr().err
    assert (sum(computed), outputs()) == (14, wanted)
    holds(range(14), {"device": "cuda"})  # alike enough for a run, and with other last bits
    computed.clear()
    embed(project)
    assert sum(computed) == 14
    computed.clear()
    embed(having(project, "test"))
    assert sum(computed) == 0


def test_what_a_picture_shows_may_be_unknown(project, capsys) -> None:
    """contents.parquet of features is damaged, or of other rows: vectors are computed, and those bytes are the same."""
    holds(range(9))
    embed(project)
    wanted, known = outputs(), paths.extracted("mine", "of_mine") / joins.NAME
    content = known.read_bytes()
    for damage in (
        lambda: known.write_bytes(content[:-9] + bytes(9)),
        lambda: joins.write(known.parent, pa.array(["a", "b"]), "made"),
    ):
        capsys.readouterr()
        damage()
        embed(project)
        assert "all vectors are computed" in " ".join(capsys.readouterr().err.split())
        assert {**outputs(), joins.NAME: wanted[joins.NAME]} == wanted
    assert joins.read(OUT)[0].null_count == 9


def test_no_picture_of_the_splits_is_an_error_of_the_user(project) -> None:
    holds(range(3))
    with pytest.raises(InputError, match=r"moved: the data set has no picture of split val, train; embed\.splits"):
        embed(having(project, "val", "train"))


def test_what_a_pair_was_made_of_decides_no_vector(project) -> None:
    """The features that its config.json has the digest of are those of the collection, which grows."""
    holds(range(3))
    source = features.read(paths.extracted("mine", "of_mine"))
    model = model_files.read(paths.trained("sum"))
    found = {
        vectors_digest(project, "sum", replace(model, config={**model.config, **more}), source, "cpu")
        for more in ({}, {"features_sha256": "0" * 64, "texts_sha256": "1" * 64}, {"embed_size": 3})
    }
    assert len(found) == 2
