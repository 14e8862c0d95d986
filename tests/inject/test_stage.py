import numpy as np
import pytest

from pipeline.artifacts import captions, pairs
from pipeline.errors import InputError
from pipeline.inject.stage import inject
from pipeline.paths import prepared
from tests.project import load_params, write_prepared


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


def test_without_prepared_data_the_error_names_the_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="vse-pipe prepare --dataset toy"):
        inject(load_params(tmp_path), "clean")
    assert not (tmp_path / "data" / "inject" / "toy" / "clean").exists()
