import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.toy_project import PARAMS, load_params, write_prepared
from vse_pipe.artifacts import captions, pairs
from vse_pipe.core.errors import InputError, IntegrityError
from vse_pipe.core.files import sha256
from vse_pipe.inject.stage import inject
from vse_pipe.project.params.typed import Params
from vse_pipe.project.paths import prepared


@pytest.fixture
def params(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_prepared()
    return load_params(tmp_path)


def test_rate_zero_pairs_every_caption_with_its_image(params):
    table = pairs.read(inject(params, "clean"))
    source = captions.read(prepared("toy"))
    assert table["caption_id"].equals(source["caption_id"])
    assert table["image_id"].equals(source["image_id"])
    assert not np.asarray(table["mismatched"]).any()


def test_only_train_pairs_move_and_the_truth_is_kept(params):
    table = pairs.read(inject(params, "half")).to_pandas()
    assert 0.2 < table.mismatched[table.split == "train"].mean() <= 0.5
    assert not table.mismatched[table.split != "train"].any()
    source = captions.read(prepared("toy")).to_pandas()
    assert (table.true_image_id == source.image_id).all()
    assert set(table.image_id[table.split == "train"]) <= set(source.image_id[source.split == "train"])


def test_the_same_seed_gives_the_same_bytes(params):
    first = (inject(params, "half") / pairs.NAME).read_bytes()
    assert (inject(params, "half") / pairs.NAME).read_bytes() == first


def test_without_prepared_data_the_error_names_the_command(params):
    shutil.rmtree("data")
    with pytest.raises(InputError, match="vse-pipe prepare --dataset toy"):
        inject(params, "clean")
    assert not Path("data/inject/toy/clean").exists()


def published(values: np.ndarray) -> Params:
    """Params with a noise ``published`` that reads ``values`` from a file."""
    np.save("index.npy", values)
    node = {"dataset": "toy", "protocol": "file", "path": "index.npy", "sha256": sha256(Path("index.npy"))}
    return load_params(Path(), noises={**PARAMS["noises"], "published": node})


def test_an_index_per_image_moves_the_captions_of_train_images(params):
    order = np.random.default_rng(0).permutation(30)
    table = pairs.read(inject(published(order), "published"))
    frame = table.to_pandas()
    train = frame[frame.split == "train"]
    expected = [order[(true - 7) // 10] * 10 + 7 for true in train.true_image_id]
    assert train.image_id.tolist() == expected
    assert (frame.mismatched == (frame.image_id != frame.true_image_id)).all()
    assert table.schema.metadata[b"protocol"] == b"file"
    assert float(table.schema.metadata[b"mismatched"]) == pytest.approx(train.mismatched.mean(), abs=1e-5)


def test_an_index_per_caption_is_in_the_order_of_the_train_captions(params):
    """The toy images have one, two or three captions, so there are twice as many captions as images."""
    index = np.random.default_rng(1).integers(0, 30, 60)
    frame = pairs.read(inject(published(index), "published")).to_pandas()
    assert frame.image_id[frame.split == "train"].tolist() == (index * 10 + 7).tolist()
    assert not frame.mismatched[frame.split != "train"].any()


def test_five_entries_per_image_need_five_captions_per_image(params):
    with pytest.raises(InputError, match="150 entries; expected 30, one per train image, or 60, one per train"):
        inject(published(np.repeat(np.arange(30), 5)), "published")
    assert not Path("data/inject/toy/published").exists()


def test_a_file_that_was_exchanged_stops_the_stage(params):
    given = published(np.arange(30))
    np.save("index.npy", np.arange(30)[::-1])
    with pytest.raises(IntegrityError, match=r"but params\.yaml says"):
        inject(given, "published")


def test_as_is_knows_nothing_about_train_pairs(params, capsys):
    own = load_params(Path(), noises={**PARAMS["noises"], "own": {"dataset": "toy", "protocol": "as_is"}})
    table = pairs.read(inject(own, "own"))
    source = captions.read(prepared("toy"))
    assert table["image_id"].equals(source["image_id"])
    train = np.asarray(table["split"]) == "train"
    for column in ("true_image_id", "mismatched"):
        assert (np.asarray(table[column].is_null()) == train).all(), column
    assert table.schema.metadata[b"mismatched"] == b"unknown"
    assert "60 train pairs, an unknown share mismatched (protocol as_is)" in capsys.readouterr().err
