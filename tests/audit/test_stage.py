"""The audit of a trained run on a small project: what it writes, and what it refuses."""

import shutil
from contextlib import chdir
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

from tests import regions_project
from tests.fragment_project import run_of, write_fragment_project
from tests.naive import stages as naive
from tests.toy_project import PARAMS, kept, load_params, write_prepared
from tests.train import painted
from vse_pipe.artifacts import audit as artefact
from vse_pipe.artifacts import embeddings, model_files, pairs, regions
from vse_pipe.audit import losses, stage
from vse_pipe.core.errors import InputError, IntegrityError
from vse_pipe.core.files import read_json
from vse_pipe.core.seeds import generator
from vse_pipe.core.tables import read_csv
from vse_pipe.embed.stage import embed
from vse_pipe.extract.text_stage import extract_texts
from vse_pipe.inject.stage import inject
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.train import model
from vse_pipe.train.stage import train
from vse_pipe.train.trained import Trained

NOISES = {**PARAMS["noises"], "own": {"dataset": "toy", "protocol": "as_is"}}
RUNS = {name: {**PARAMS["runs"]["sum"], "noise": name} for name in ("half", "own")}
SIZES = {**PARAMS["train"], "epochs": 3, "batch_size": 32}


def _params(**changes) -> Params:
    return load_params(Path(), **{"noises": NOISES, "runs": RUNS, "train": SIZES, **changes})


def _project(**counts) -> Params:
    write_prepared(**counts)
    params = _params()
    extract_texts(params, "words")
    for name in RUNS:
        inject(params, name)
    return params


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A project with two trained runs: one knows the truth, one does not."""
    with chdir(tmp_path_factory.mktemp("audit")):
        params = _project(train=120)
        for name in RUNS:
            train(params, name, "cpu")
        yield params


@pytest.fixture
def own(trained):
    """The same, which the test may damage; it is not audited."""
    shutil.rmtree(paths.audited("half"), ignore_errors=True)
    with kept(Path("data")):
        yield trained


def _audited(params: Params, name: str = "half", **options: object) -> dict:
    return stage.audit(params, name, device="cpu", **options)


def _bytes() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in paths.audited("half").iterdir()}


def _train_pairs(noise: str) -> pa.Table:
    table = pairs.read(paths.injected("toy", noise))
    return table.filter(np.asarray(table["split"]) == "train")


def test_no_partner_on_regions_belongs_to_its_phrase_or_region(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = regions_project.run_of(train={"epochs": 1})
    params = regions_project.write_regions_project(tmp_path, told=run)
    train(params, "told", "cpu")
    _audited(params, "told")
    spoken = regions.read_phrases(paths.prepared(regions_project.REGIONS)).to_pylist()
    belong = {(one["region_id"], one["text"]) for one in spoken if one["split"] == "train"}
    text = {one["phrase_id"]: one["text"] for one in spoken}
    rows = artefact.read_pairs(paths.audited("told")).to_pylist()
    assert len(rows) > 20
    for row in rows:
        assert (row["image_id"], text[row["rematch_caption_id"]]) not in belong
        assert (row["rematch_image_id"], text[row["caption_id"]]) not in belong


def test_a_row_per_training_pair_with_its_truth(trained):
    metrics, folder = _audited(trained), paths.audited("half")
    table, given = artefact.read_pairs(folder), _train_pairs("half")
    for column in ("caption_id", "image_id", "mismatched"):
        assert table[column].equals(given[column]), column
    assert read_json(folder / artefact.METRICS) == metrics
    assert (metrics["truth"], metrics["partners_from"]) == ("known", "all")
    assert metrics["mismatched"] == sum(given["mismatched"].to_pylist())
    assert metrics["auc"] > 0.6
    losses, mismatched = table["loss"].to_pylist(), table["mismatched"].to_pylist()
    assert metrics["auc"] == pytest.approx(naive.auc(losses, mismatched), abs=1e-6)
    assert metrics["average_precision"] == pytest.approx(naive.average_precision(losses, mismatched), abs=1e-6)
    histogram = read_csv(folder / artefact.HISTOGRAM)
    assert histogram["pairs"].sum() == table.num_rows == metrics["pairs"]
    assert histogram["mismatched"].sum() == metrics["mismatched"]
    assert not (folder / artefact.COSTS).exists()
    assert read_json(paths.DATA / "audit" / "half.timing.json")["seconds"] > 0
    before = _bytes()
    _audited(trained)
    assert _bytes() == before, "the same again"


def test_partners_are_the_best_of_all_training_pairs(trained):
    _audited(trained)
    table = artefact.read_pairs(paths.audited("half")).to_pandas()
    model, given = _model_and_pairs(trained, "half")
    with torch.inference_mode():
        matrix = model.score(*model.encode(given.batch(np.arange(len(given))), torch.device("cpu"))).tolist()
    owners = table.image_id.tolist()
    for row, (_, score, _, other) in zip(table.itertuples(), naive.partners(matrix, owners), strict=True):
        assert row.rematch_caption_id != row.caption_id
        assert row.rematch_image_id != row.image_id
        assert row.rematch_caption_score == pytest.approx(score, abs=1e-5)
        assert row.rematch_image_score == pytest.approx(other, abs=1e-5)
        found = matrix[row.Index][table.caption_id.tolist().index(row.rematch_caption_id)]
        assert found == pytest.approx(score, abs=1e-5)
        assert row.score == pytest.approx(matrix[row.Index][row.Index], abs=1e-5)


def _model_and_pairs(params, run):
    trained = Trained.open(paths.trained(run))
    return trained.networks[0].model, stage._inputs(params.runs[run], run, trained)[0]


def test_the_gallery_has_the_most_suspect_pairs_one_of_each_image(trained):
    assert _audited(trained, limit=0)["gallery"] == []
    gallery = _audited(trained, limit=5)["gallery"]
    rows = artefact.read_pairs(paths.audited("half")).to_pandas()
    rows = rows.sort_values(["probability", "loss"], ascending=False, kind="stable").drop_duplicates("image_id")
    assert gallery == rows["caption_id"].head(5).tolist()


def test_data_without_truth_is_audited_without_figures(trained):
    metrics = _audited(trained, "own")
    assert metrics["truth"] == "unknown"
    assert "auc" not in metrics
    assert artefact.read_pairs(paths.audited("own"))["mismatched"].null_count == metrics["pairs"]


@pytest.mark.parametrize("similarity", ["scan_t2i", "sgr"])
def test_models_of_fragments_are_searched_batch_by_batch(tmp_path, monkeypatch, similarity):
    """60 pairs are three batches of 20, and every partner is of the pair's own batch."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(stage, "BATCH", 20)
    params = write_fragment_project(tmp_path, mine=run_of(similarity, train={"epochs": 1}))
    train(params, "mine", "cpu")
    metrics = _audited(params, "mine")
    assert (metrics["pairs"], metrics["mismatched"], metrics["auc"]) == (60, 0, None)
    assert metrics["partners_from"] == "batch"
    table = artefact.read_pairs(paths.audited("mine")).to_pandas()
    model, given = _model_and_pairs(params, "mine")
    for batch in losses.batches(60, 20, generator(params.seed, "audit", "mine")):
        with torch.inference_mode():
            matrix = model.score(*model.encode(given.batch(batch), torch.device("cpu"))).tolist()
        rows = table.iloc[batch]
        expected = naive.partners(matrix, rows.image_id.tolist())
        ids = rows.caption_id.tolist()
        assert rows.rematch_caption_id.tolist() == [ids[caption] for caption, *_ in expected]
        assert rows.rematch_image_id.tolist() == [image for _, _, image, _ in expected]
        expected = naive.pair_losses(matrix, rows.image_id.tolist(), 0.2)
        np.testing.assert_allclose(rows.loss, expected, atol=1e-5)


def test_what_a_scheme_recorded_of_its_transport_becomes_a_table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_prepared(train=60)
    changes = {"train": {**SIZES, "epochs": 4}, "scheme": {"l2rm": {"warm_up": 2}}}
    params = _params(runs={"mine": {**RUNS["half"], "scheme": "l2rm"}}, **changes)
    extract_texts(params, "words")
    inject(params, "half")
    train(params, "mine", "cpu")
    refined = _audited(params, "mine")["refined"]
    table = read_csv(paths.audited("mine") / artefact.COSTS)
    records = read_json(paths.trained("mine") / pairs.REMATCHING, list)
    assert records
    assert refined == {key: records[-1][key] for key in ("epoch", "alignment")}
    assert sorted(set(table.epoch)) == [record["epoch"] for record in records]
    for record in records:
        rows = table[table.epoch == record["epoch"]]
        assert rows.mismatched.tolist() == record["cost"]["mismatched"]
        assert [*rows.low, rows.high.iloc[-1]] == record["cost"]["edges"]


def test_a_model_of_pixels_is_audited_by_its_own_network(tmp_path, monkeypatch):
    """Not by the stored features, which another network made."""
    monkeypatch.chdir(tmp_path)
    painted.painted()
    params = painted.extracted(painted.loaded({"lr": 1e-3}, epochs=1))
    train(params, "ft", "cpu")
    monkeypatch.setattr(model, "image_inputs", lambda *_: pytest.fail("stored features were read"))
    metrics = _audited(params, "ft")
    embed(params, "ft", "cpu")
    table = artefact.read_pairs(paths.audited("ft")).to_pandas()
    sides = [embeddings.read(paths.embedded("ft") / name) for name in (embeddings.IMAGES, embeddings.CAPTIONS)]
    images, words = (dict(zip(s.ids, s.vectors, strict=True)) for s in sides)
    expected = [images[row.image_id] @ words[row.caption_id] for row in table.itertuples()]
    np.testing.assert_allclose(table.score, expected, atol=1e-5)
    assert metrics["pairs"] == 26


def test_pairs_of_another_noise_are_refused(own):
    renamed = _params(runs={"half": {**RUNS["half"], "noise": "own"}})
    with pytest.raises(IntegrityError, match=r"pairs of noise 'half', params\.yaml now says 'own'"):
        _audited(renamed)
    assert not paths.audited("half").exists()


def _filled(value: float) -> None:
    """The model's weights, all of them."""
    files = model_files.read(paths.trained("half"))
    weights = {name: torch.full_like(weight, value) for name, weight in files.weights.items()}
    model_files.write(paths.trained("half"), weights, files.words, files.config)


def test_a_model_that_diverged(own):
    _filled(torch.nan)
    with pytest.raises(InputError, match="data/train/half: the model's losses are not finite"):
        _audited(own)
    assert not paths.audited("half").exists()


def test_equal_losses_flag_nothing_and_say_why(own, capsys):
    """A model of nothing but zeros: every vector is 0, and so is every similarity."""
    _filled(0.0)
    metrics = _audited(own)
    assert (metrics["pairs"], metrics["expected"], metrics["auc"]) == (240, 0, 0.5)
    assert metrics["mixture"]["doubts"] == ["all losses are equal"]
    assert "do not trust the probabilities: all losses are equal" in capsys.readouterr().err
