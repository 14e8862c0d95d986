"""A run on data sets that it was not trained on."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.toy_project import PARAMS, WORDS, load_params, write_prepared
from vse_pipe.artifacts import captions, embeddings, evaluation, features, model_files
from vse_pipe.artifacts.embeddings import Side
from vse_pipe.core import tables
from vse_pipe.core.errors import IntegrityError, MissingResource
from vse_pipe.core.text import END, START, UNK
from vse_pipe.embed import stage
from vse_pipe.evaluate.stage import evaluate
from vse_pipe.extract import text_methods
from vse_pipe.extract.text_stage import extract_texts
from vse_pipe.inject.stage import inject
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.train.restore import load
from vse_pipe.train.stage import train

STRANGE = ["red", "azure", "green", "vast", "small", "round", "oblong", "dog", "ferret", "tree"]
PRECOMP = {"backbone": "precomp"}
CHANGES = {
    "datasets": {name: {"format": "csv", "source": "toy.csv"} for name in ("toy", "twin", "strange", "bare")},
    "features": {
        "plain": {"dataset": "toy", **PRECOMP},
        "of_bare": {"dataset": "bare", **PRECOMP},
        "of_twin": {"dataset": "twin", **PRECOMP},
        "of_strange": {"dataset": "strange", **PRECOMP},
    },
    "texts": {
        "words": {"dataset": "toy", "method": "words", "min_count": 1},
        "bags": {"dataset": "toy", "method": "tfidf"},
    },
    "runs": {"sum": PARAMS["runs"]["sum"], "bags": {**PARAMS["runs"]["sum"], "texts": "bags", "text": "two_branch"}},
    "transfers": {
        "sum_on_twin": {"run": "sum", "dataset": "twin"},
        "bags_on_twin": {"run": "bags", "dataset": "twin"},
        "sum_on_strange": {"run": "sum", "dataset": "strange"},
        "lent": {"run": "sum", "dataset": "strange", "bank": "toy"},
        "on_bare": {"run": "sum", "dataset": "bare"},
    },
    "text": {"gru": {"word_dim": 6}, "two_branch": {"hidden": 12}},
}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Two runs on ``toy``, embedded on it and elsewhere: ``twin`` holds the same, ``strange`` other images and some other words."""
    with pytest.MonkeyPatch.context() as patch:
        root = tmp_path_factory.mktemp("transfer")
        patch.chdir(root)
        write_prepared()
        write_prepared(dataset="twin", extracted="of_twin")
        write_prepared(8, 6, 12, seed=5, dataset="strange", extracted="of_strange", known=STRANGE)
        write_prepared(8, 0, 12, seed=7, dataset="bare", extracted="of_bare")
        params = load_params(root, **CHANGES)
        inject(params, "clean")
        for name in params.texts:
            extract_texts(params, name)
        for run in params.runs:
            train(params, run, "cpu")
            stage.embed(params, run, "cpu")
        for name in params.transfers:
            stage.embed(params, name, "cpu")
        yield params


def _sides(name: str) -> tuple[Side, Side]:
    folder = paths.embedded(name)
    return embeddings.read(folder / embeddings.IMAGES), embeddings.read(folder / embeddings.CAPTIONS)


def _told(name: str) -> dict:
    return json.loads(_sides(name)[0].about[embeddings.TRANSFER])


@pytest.mark.parametrize("run", ["sum", "bags"])
def test_a_data_set_that_holds_the_same_has_the_same_vectors(project, run):
    for here, there in zip(_sides(run), _sides(f"{run}_on_twin"), strict=True):
        np.testing.assert_array_equal(here.vectors, there.vectors)
        np.testing.assert_array_equal(here.ids, there.ids)
        assert here.about["data"] == there.about["data"]
        assert embeddings.TRANSFER not in here.about


def test_vectors_are_those_of_each_caption_and_image_read_alone_with_the_runs_own_words(project):
    model, files = load(paths.trained("sum"))
    seen, read = _sides("sum_on_strange")
    table = captions.read(paths.prepared("strange"))
    for place in range(0, len(read.ids), 7):
        ids = [files.words.index(word) if word in files.words else UNK for word in table["text"][place].as_py().split()]
        with torch.inference_mode():
            alone = model.txt(torch.tensor([[START, *ids, END]]), torch.tensor([len(ids) + 2]))[0].numpy()
        np.testing.assert_allclose(read.vectors[place], alone, atol=1e-6)
    source = features.read(paths.extracted("strange", "of_strange"))
    with torch.inference_mode():
        alone = torch.cat([model.img(torch.from_numpy(row[None].copy())) for row in source.array]).numpy()
    np.testing.assert_allclose(seen.vectors, alone, atol=1e-6)


def test_the_share_of_unknown_words_is_told_by_split(project):
    known = set(model_files.read(paths.trained("sum")).words)
    table = captions.read(paths.prepared("strange")).to_pylist()
    expected = {}
    for split in ("train", "val", "test"):
        words = [word for row in table if row["split"] == split for word in text_methods.tokenize(row["text"])]
        expected[split] = sum(word not in known for word in words) / len(words)
    assert known >= set(WORDS)
    assert min(expected.values()) > 0.1
    assert _told("sum_on_strange")["unknown_words"] == pytest.approx(expected, abs=1e-6)
    assert set(_told("sum_on_twin")["unknown_words"].values()) == {0.0}


def test_metrics_name_both_data_sets_and_are_those_of_the_same_vectors(project):
    (own,) = evaluate(project, "sum", ["nns"], "cpu").values()
    (moved,) = evaluate(project, "sum_on_twin", ["nns"], "cpu").values()
    assert moved["rsum"] == own["rsum"]
    assert "transfer" not in own
    expected = {"run": "sum", "trained_on": "toy", "dataset": "twin", "unknown_words": 0.0}
    assert moved["transfer"] == expected


def _under(project: Params, name: str, bank: str) -> dict:
    params = dataclasses.replace(project, evaluate=project.evaluate.model_copy(update={"bank": bank}))
    return evaluate(params, name, ["csls"], "cpu")["csls"]


@pytest.mark.parametrize("bank", ["train", "val"])
def test_a_bank_is_of_the_data_set_that_is_measured_or_of_the_runs_own_as_asked(project, bank):
    here, lent = (_under(project, name, bank) for name in ("sum_on_strange", "lent"))
    assert here["bank"] == f"{bank} of strange"
    assert lent["bank"] == f"{bank} of toy"
    assert here["text_to_image"] != lent["text_to_image"]
    assert _under(project, "sum", bank)["bank"] == bank


def test_a_lent_bank_gives_what_its_split_beside_the_ranked_one_gives(project, tmp_path):
    """The bank of the run's own train split, put as the train split of the transfer's own files."""
    expected = _under(project, "lent", "train")
    here, there = _sides("lent"), _sides("sum")
    folder = paths.embedded("lent")
    before = {name: (folder / name).read_bytes() for name in (embeddings.IMAGES, embeddings.CAPTIONS)}
    for name, ours, theirs in zip(before, here, there, strict=True):
        kept, lent = ours.splits == "test", theirs.splits == "train"
        columns = [
            np.concatenate([getattr(ours, key)[kept], getattr(theirs, key)[lent] + shift]) for key, shift in _KEYS
        ]
        splits = np.concatenate([ours.splits[kept], theirs.splits[lent]])
        vectors = np.concatenate([ours.vectors[kept], theirs.vectors[lent]])
        embeddings.write(folder / name, Side(*columns, splits, vectors, ours.about))
    node = project.transfers["lent"].model_copy(update={"bank": "strange"})
    found = _under(dataclasses.replace(project, transfers={"lent": node}), "lent", "train")
    for name, content in before.items():
        (folder / name).write_bytes(content)
    assert {key: found[key] for key in ("rsum", "hs_sum")} == {key: expected[key] for key in ("rsum", "hs_sum")}


def _joined(project: Params, split_of_run: str, path: Path) -> Params:
    """``project`` in which the images and captions of a split of the run are the split val of ``on_bare``."""
    for name, ours, theirs in zip(
        (embeddings.IMAGES, embeddings.CAPTIONS), _sides("on_bare"), _sides("sum"), strict=True
    ):
        lent = theirs.splits == split_of_run
        columns = [np.concatenate([getattr(ours, key), getattr(theirs, key)[lent] + shift]) for key, shift in _KEYS]
        splits = np.concatenate([ours.splits, np.full(lent.sum(), "val", object)])
        vectors = np.concatenate([ours.vectors, theirs.vectors[lent]])
        embeddings.write(path / name, Side(*columns, splits, vectors, ours.about))
    return project


@pytest.mark.parametrize(("criterion", "tune"), [("rgm", False), ("is", True), ("is+rgm", True)])
def test_without_val_the_runs_own_chooses_what_is_open(project, criterion, tune):
    """As if the run's val were the split val of the data set that is ranked."""
    params = dataclasses.replace(project, evaluate=project.evaluate.model_copy(update={"tune": tune}))
    chosen = evaluate(params, "on_bare", ["nns", criterion], "cpu")
    assert chosen[criterion].pop("tuned_on") == "val of toy"
    assert "tuned_on" not in chosen["nns"]
    folder = paths.embedded("on_bare")
    before = {name: (folder / name).read_bytes() for name in (embeddings.IMAGES, embeddings.CAPTIONS)}
    expected = evaluate(_joined(params, "val", folder), "on_bare", [criterion], "cpu")[criterion]
    for name, content in before.items():
        (folder / name).write_bytes(content)
    assert chosen[criterion].pop("made_from") != expected.pop("made_from"), "vectors of two files"
    assert chosen[criterion] == expected


def test_a_val_that_is_half_bank_chooses_with_the_other_half(project):
    node = project.transfers["on_bare"].model_copy(update={"bank": "toy"})
    options = project.evaluate.model_copy(update={"tune": True, "bank": "val"})
    params = dataclasses.replace(project, transfers={"on_bare": node}, evaluate=options)
    found = evaluate(params, "on_bare", ["is"], "cpu")["is"]
    assert (found["bank"], found["tuned_on"]) == ("val of toy", "val of toy")


@pytest.mark.parametrize("criterion", ["csls", "is"])
def test_a_bank_that_the_other_data_set_lacks_is_that_of_the_run(project, criterion):
    node = project.transfers["on_bare"].model_copy(update={"bank": "toy"})
    params = dataclasses.replace(project, evaluate=project.evaluate.model_copy(update={"bank": "val"}))
    found = evaluate(params, "on_bare", ["nns", criterion], "cpu")
    named = evaluate(dataclasses.replace(params, transfers={"on_bare": node}), "on_bare", ["nns", criterion], "cpu")
    assert found == named
    assert found[criterion]["bank"] == "val of toy"


def test_without_embeddings_of_the_run_the_criterion_is_left_out(project):
    aside = paths.embedded("sum").rename(paths.embedded("aside"))
    assert list(evaluate(project, "on_bare", ["nns", "rgm"], "cpu")) == ["nns"]
    aside.rename(paths.embedded("sum"))
    why = evaluation.read_unmeasured(paths.evaluations("on_bare"))["rgm"]
    assert "data/embed/on_bare holds no split val, and run 'sum' is not embedded on its own data set" in why


_KEYS = (("ids", 10**6), ("image_ids", 10**6))


def test_features_made_otherwise_are_refused_and_the_command_is_named(project):
    folder = paths.extracted("strange", "of_strange")
    path = folder / features.META
    before = path.read_text()
    path.write_text(json.dumps({**json.loads(before), "transform": {"image_size": 999}}))
    with pytest.raises(
        IntegrityError, match=r"made with other transform than .*vse-pipe extract --features of_strange"
    ):
        stage.embed(project, "sum_on_strange", "cpu")
    path.write_text(before)


def test_features_of_another_width_are_refused(project):
    folder = paths.extracted("strange", "of_strange")
    source = features.read(folder)
    array, meta = np.array(source.array), dict(source.meta)
    index = tables.read(folder / features.INDEX, features.SCHEMA)
    features.write(folder, array[:, :-1], index, PRECOMP)
    with pytest.raises(IntegrityError, match="made with other the shape of a row"):
        stage.embed(project, "sum_on_strange", "cpu")
    features.write(folder, array, index, {key: meta[key] for key in PRECOMP})


def test_features_that_are_not_there_name_the_command(project, monkeypatch):
    folder = paths.extracted("strange", "of_strange")
    aside = folder.rename(folder.with_name("aside"))
    with pytest.raises(Exception, match="vse-pipe extract --features of_strange"):
        stage.embed(project, "sum_on_strange", "cpu")
    aside.rename(folder)


def test_texts_that_are_not_there_name_the_command(project):
    folder = paths.extracted("toy", "bags")
    aside = folder.rename(folder.with_name("aside"))
    with pytest.raises(MissingResource, match="vse-pipe extract --texts bags"):
        stage.embed(project, "bags_on_twin", "cpu")
    aside.rename(folder)


def test_twice_gives_the_same_bytes_and_nothing_is_left(project):
    folder = paths.embedded("sum_on_strange")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    stage.embed(project, "sum_on_strange", "cpu")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert {path.name for path in Path("data/embed").iterdir() if path.is_dir()} == {*project.runs, *project.transfers}


def test_one_is_refused_once_either_data_set_means_other_captions(project):
    """Under its own bank the data set it is on counts; under one that is lent that of its run, too."""
    folders = {name: paths.prepared(name) for name in ("strange", "toy")}
    whole = {name: captions.read(folder) for name, folder in folders.items()}
    for dataset, split, refused in (("strange", "test", ["sum_on_strange", "lent"]), ("toy", "train", ["lent"])):
        table = whole[dataset]
        texts = table["text"].to_pylist()
        texts[table["split"].to_pylist().index(split)] = "other words"
        captions.write(folders[dataset], table.set_column(2, "text", [texts]))
        for name in ("sum_on_strange", "lent"):
            if name in refused:
                where = name if dataset == "strange" else "sum"
                with pytest.raises(IntegrityError, match=rf"embed/{where}: made from other .* split {split} than"):
                    _under(project, name, "train")
            else:
                _under(project, name, "train")
        captions.write(folders[dataset], table)
