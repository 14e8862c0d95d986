"""Images that could not be read are in no embedding, no pair and no figure, and are counted."""

import json
from contextlib import chdir
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.sealed import made_anew
from tests.toy_project import load_params, ready, write_prepared
from vse_pipe.artifacts import captions, embeddings, features, pairs, texts
from vse_pipe.audit.stage import audit
from vse_pipe.core.errors import InputError
from vse_pipe.core.tables import read as read_table
from vse_pipe.embed.stage import embed
from vse_pipe.evaluate.stage import evaluate
from vse_pipe.project import paths
from vse_pipe.train.data import TrainTable
from vse_pipe.train.stage import train

# Of data set `toy`: images 0 to 29 are train, 30 to 37 val, 38 to 43 test; image k has id 10 k + 7 and 1 + k % 3 captions.
FAILED = np.array([17, 57, 317, 397, 427])


def _sides() -> dict[str, embeddings.Side]:
    return {name: embeddings.read(paths.embedded("sum") / name) for name in (embeddings.IMAGES, embeddings.CAPTIONS)}


def _fail(image_ids: np.ndarray) -> None:
    """Record in index.parquet that these could not be read; their rows stay in the array, and nothing may read them."""
    folder = paths.extracted("toy", "plain")
    whole = features.read(folder)
    index = read_table(folder / features.INDEX, features.SCHEMA)
    missing = np.isin(index["image_id"].to_numpy(), image_ids)
    columns = {
        "image_id": index["image_id"],
        "row": pa.array(index["row"].to_numpy(), pa.int64(), mask=missing),
        "status": np.where(missing, features.UNREADABLE, features.OK),
        "detail": np.where(missing, "is empty (0 bytes)", ""),
    }
    features.write(folder, np.array(whole.array), pa.table(columns), dict(whole.meta))


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A trained run and the embeddings of all its images; then some of them fail, and it is embedded anew."""
    with chdir(tmp_path_factory.mktemp("left_out")):
        write_prepared()
        params = ready(load_params(Path(), evaluate={"resamples": 10}))
        whole = _sides()
        _fail(FAILED)
        embed(params, "sum", "cpu")
        yield params, whole


def test_the_others_have_the_vectors_they_had(project) -> None:
    _, whole = project
    for name, side in _sides().items():
        kept = ~np.isin(whole[name].image_ids, FAILED)
        assert kept.sum() < len(kept)
        assert np.array_equal(side.ids, whole[name].ids[kept])
        np.testing.assert_allclose(side.vectors, whole[name].vectors[kept], atol=1e-6)
        assert side.about["left_out"] == (
            '{"test": {"captions": 2, "images": 2}, "train": {"captions": 5, "images": 2}, '
            '"val": {"captions": 2, "images": 1}}'
        )


def test_figures_are_those_of_the_others(project, capsys) -> None:
    params, whole = project
    metrics = evaluate(params, "sum", ["nns"], "cpu")["nns"]
    assert metrics["left_out"] == {"images": 2, "captions": 2}
    assert metrics["data"] == json.loads(_sides()[embeddings.IMAGES].about["data"])["test"]
    assert metrics["data"] != json.loads(whole[embeddings.IMAGES].about["data"])["test"]
    assert "2 images of split 'test' that could not be read are left out, with 2 captions" in capsys.readouterr().err
    assert metrics["image_to_text"]["queries"] == 4


def _joined(noise: str) -> tuple[TrainTable, pa.Table, features.Features]:
    shown = pairs.read(paths.injected("toy", noise))
    source = features.read(paths.extracted("toy", "plain"))
    words = texts.read(paths.extracted("toy", "words"))
    return TrainTable.join(captions.read(paths.prepared("toy")), shown, source, words), shown, source


@pytest.mark.parametrize("noise", ["clean", "half"])
def test_training_sees_neither_them_nor_their_captions(project, noise: str) -> None:
    table, shown, source = _joined(noise)
    wanted = [
        (row["caption_id"], row["image_id"])
        for row in shown.to_pylist()
        if row["split"] == "train" and not {row["image_id"], row["true_image_id"]} & set(FAILED.tolist())
    ]
    rows = shown.take(pa.array(table.train_rows)).to_pylist()
    assert [(row["caption_id"], row["image_id"]) for row in rows] == wanted
    assert table.train_pairs.texts.caption_ids[table.train_pairs.places].tolist() == [caption for caption, _ in wanted]
    assert table.train_pairs.owners.tolist() == [image for _, image in wanted]
    assert source.image_ids[np.searchsorted(source.rows, table.train_pairs.rows)].tolist() == [i for _, i in wanted]
    train_pairs = sum(row["split"] == "train" for row in shown.to_pylist())
    assert table.left_out == (train_pairs - len(wanted), 2)
    assert 317 not in table.val_pairs.owners


def test_a_run_trains_and_is_audited_without_them(project, capsys) -> None:
    params, _ = project
    made_anew(paths.extracted("toy", "plain"), features="with failures")
    train(params, "sum", "cpu")
    assert "5 training pairs and 2 validation captions are left out" in capsys.readouterr().err
    assert audit(params, "sum", device="cpu")["pairs"] == 60 - 5


@pytest.mark.parametrize(
    ("first", "every", "message"),
    [
        (1, False, "1 images have no features, the first is image_id 7"),
        (0, True, "two train captions and one val caption with features"),
    ],
    ids=["one is missing without a reason", "none is left"],
)
def test_images_that_are_missing_or_all_unreadable_are_an_error(project, first, every, message) -> None:
    table, shown, source = _joined("clean")
    failed = np.concatenate([source.image_ids, source.failed]) if every else source.failed
    less = features.Features(source.array, source.image_ids[first:], source.rows[first:], source.meta, None, failed)
    with pytest.raises(InputError, match=message):
        TrainTable.join(captions.read(paths.prepared("toy")), shown, less, table.train_pairs.texts)
