import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from tests.toy_project import load_params, write_prepared
from vse_pipe.artifacts import captions, embeddings, features, model_files
from vse_pipe.core import tables
from vse_pipe.core.errors import InputError, IntegrityError
from vse_pipe.core.files import sha256
from vse_pipe.embed import vectors
from vse_pipe.embed.stage import embed
from vse_pipe.extract import text_methods as _tokens
from vse_pipe.extract.text_stage import extract_texts
from vse_pipe.inject.stage import inject
from vse_pipe.project import paths
from vse_pipe.train import model as train_model
from vse_pipe.train.restore import load
from vse_pipe.train.stage import train


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        root = tmp_path_factory.mktemp("embed")
        patch.chdir(root)
        write_prepared()
        params = load_params(root)
        inject(params, "clean")
        extract_texts(params, "words")
        train(params, "sum", "cpu")
        embed(params, "sum", "cpu")
        yield params


def test_every_image_and_caption_of_every_split_has_a_unit_vector(project):
    images = embeddings.read(paths.embedded("sum") / embeddings.IMAGES)
    texts = embeddings.read(paths.embedded("sum") / embeddings.CAPTIONS)
    table = captions.read(paths.prepared("toy"))
    assert texts.ids.tolist() == table["caption_id"].to_pylist()
    assert texts.image_ids.tolist() == table["image_id"].to_pylist()
    assert texts.splits.tolist() == table["split"].to_pylist()
    assert set(images.splits) == {"train", "val", "test"}
    for side in (images, texts):
        np.testing.assert_allclose(np.linalg.norm(side.vectors, axis=1), 1.0, rtol=1e-5)
    assert images.about["similarity"] == "cosine"
    assert json.loads(images.about["normalised"]) is True


def test_vectors_are_those_of_the_best_epoch_one_caption_at_a_time(project):
    files = model_files.read(paths.trained("sum"))
    table = captions.read(paths.prepared("toy"))
    texts = embeddings.read(paths.embedded("sum") / embeddings.CAPTIONS)
    model, _ = load(paths.trained("sum"))
    for place in (0, 7, 40):
        tokens, _ = _tokens.encode([table["text"][place].as_py()], files.words, 100)
        ids, lengths = tokens.padded(np.array([0]))
        with torch.inference_mode():
            alone = model.txt(torch.from_numpy(ids), torch.from_numpy(lengths))[0].numpy()
        np.testing.assert_allclose(texts.vectors[place], alone, atol=1e-6)


def test_batches_do_not_change_a_vector_beyond_rounding(project):
    model, source = load(paths.trained("sum"))[0], features.read(paths.extracted("toy", "plain"))
    few = train_model.images(model, source.array, source.rows, torch.device("cpu"), batch=3)
    many = train_model.images(model, source.array, source.rows, torch.device("cpu"), batch=64)
    np.testing.assert_allclose(few, many, atol=1e-6)


def test_another_models_features_are_refused(project):
    folder = paths.extracted("toy", "plain")
    source = features.read(folder)
    index = tables.read(folder / features.INDEX, features.SCHEMA)
    array, meta = np.array(source.array), dict(source.meta)
    features.write(folder, array + 1, index, meta)
    with pytest.raises(IntegrityError, match="trained on other features"):
        embed(project, "sum", "cpu")
    features.write(folder, array, index, meta)


def test_a_changed_model_file_is_noticed(project):
    path = paths.trained("sum") / model_files.MODEL
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(IntegrityError, match=r"model\.safetensors: content does not match the digest"):
        embed(project, "sum", "cpu")
    path.write_bytes(whole)


def test_an_untrained_run_names_the_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="vse-pipe train --run sum"):
        embed(load_params(tmp_path), "sum", "cpu")
    assert not paths.embedded("sum").exists()


@pytest.fixture
def config(project):
    """config.json as a dictionary and as it was; put back afterwards."""
    path = paths.trained("sum") / model_files.CONFIG
    whole = path.read_text()
    yield path, json.loads(whole)
    path.write_text(whole)


def test_a_config_without_digests(project, config):
    path, content = config
    del content["sha256"]
    path.write_text(json.dumps(content))
    with pytest.raises(IntegrityError, match=r"config\.json: holds no digests; train the run again"):
        embed(project, "sum", "cpu")


def test_a_vocabulary_without_words(project, config):
    path, content = config
    vocabulary = path.with_name(model_files.VOCABULARY)
    whole = vocabulary.read_text()
    vocabulary.write_text("{}")
    content["sha256"][model_files.VOCABULARY] = sha256(vocabulary)
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"vocabulary\.json: holds no words; train the run again"):
        embed(project, "sum", "cpu")
    vocabulary.write_text(whole)


def test_a_config_without_the_digests_of_the_inputs(project, config):
    path, content = config
    del content["texts_sha256"]
    path.write_text(json.dumps(content))
    with pytest.raises(IntegrityError, match="trained on other texts"):
        embed(project, "sum", "cpu")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda content: content["text"]["params"].update(of_another_version=1), "of_another_version"),
        (lambda content: content.update(embed_size=13), "size mismatch"),
        (lambda content: content["image"].update(name="unheard_of"), "unheard_of"),
        (lambda content: content.pop("feature_shape"), "KeyError: 'feature_shape'"),
        (lambda content: content.update(text=[]), "Type"),
    ],
)
def test_a_config_that_does_not_fit_the_weights_or_this_version(project, config, change, reason):
    path, content = config
    change(content)
    path.write_text(json.dumps(content))
    message = r"config\.json: does not fit model\.safetensors or this version; train the run again"
    with pytest.raises(IntegrityError, match=message) as caught:
        embed(project, "sum", "cpu")
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_features_made_from_other_pictures_are_refused_by_train_and_embed(project):
    path = paths.extracted("toy", "plain") / features.META
    whole = path.read_bytes()
    path.write_text(json.dumps({**json.loads(whole), "images_sha256": "0" * 64}), encoding="utf-8")
    for command in (embed, train):
        with pytest.raises(
            IntegrityError, match=r"plain: made from other images than .*images\.parquet now holds; run `dvc"
        ):
            command(project, "sum", "cpu")
    path.write_bytes(whole)
    embed(project, "sum", "cpu")


def test_texts_made_from_other_captions_are_refused_by_train_and_embed(project):
    folder = paths.prepared("toy")
    path = folder / captions.NAME
    whole, table = path.read_bytes(), captions.read(folder)
    texts = ["other words", *table["text"].to_pylist()[1:]]
    captions.write(folder, table.set_column(table.schema.get_field_index("text"), "text", pa.array(texts)))
    for command in (embed, train):
        with pytest.raises(IntegrityError, match=r"words: made from other captions than .*captions\.parquet"):
            command(project, "sum", "cpu")
    path.write_bytes(whole)


def test_vectors_that_take_more_than_memory_may_hold_are_written_in_parts(project, monkeypatch):
    names = (embeddings.IMAGES, embeddings.CAPTIONS)
    whole = [embeddings.read(paths.embedded("sum") / name) for name in names]
    monkeypatch.setattr(vectors, "BATCH", 4)
    monkeypatch.setattr(vectors, "_COPIES", 2**20 // 12)  # of 12 dimensions a vector: 4 of them take 4 MiB
    embed(replace(project, embed=project.embed.model_copy(update={"memory": 9})), "sum", "cpu")
    for name, before in zip(names, whole, strict=True):
        path = paths.embedded("sum") / name
        groups, count = pq.ParquetFile(path).metadata, len(before.ids)
        sizes = [groups.row_group(number).num_rows for number in range(groups.num_row_groups)]
        assert sizes == [8] * (count // 8) + [count % 8] * (count % 8 > 0)
        now = embeddings.read(path)
        assert (now.ids.tolist(), now.splits.tolist()) == (before.ids.tolist(), before.splits.tolist())
        np.testing.assert_allclose(now.vectors, before.vectors, atol=1e-6)
