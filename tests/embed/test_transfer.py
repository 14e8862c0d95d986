"""A run on data sets that it was not trained on."""

import json
import shutil
from contextlib import chdir
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.sealed import made_anew
from tests.toy_project import PARAMS, WORDS, kept, load_params, ready, write_prepared
from vse_pipe.artifacts import captions, embeddings, features, identity, model_files
from vse_pipe.artifacts.embeddings import Side
from vse_pipe.core.errors import InputError, IntegrityError
from vse_pipe.core.text import END, START, UNK
from vse_pipe.embed import stage
from vse_pipe.evaluate.stage import evaluate
from vse_pipe.extract import text_methods
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.train.trained import TrainedNetwork

STRANGE = ["red", "azure", "green", "vast", "small", "round", "oblong", "dog", "ferret", "tree"]
FEATURES = {"plain": "toy", "of_bare": "bare", "of_twin": "twin", "of_strange": "strange"}
CHANGES = {
    "datasets": {name: {"format": "csv", "source": "toy.csv"} for name in FEATURES.values()},
    "features": {name: {"dataset": dataset, "backbone": "precomp"} for name, dataset in FEATURES.items()},
    "texts": {**PARAMS["texts"], "bags": {"dataset": "toy", "method": "tfidf"}},
    "noises": {"clean": PARAMS["noises"]["clean"]},
    "runs": {"sum": PARAMS["runs"]["sum"], "bags": {**PARAMS["runs"]["sum"], "texts": "bags", "text": "two_branch"}},
    "transfers": {
        "sum_on_twin": {"run": "sum", "dataset": "twin", "features": "of_twin"},
        "bags_on_twin": {"run": "bags", "dataset": "twin", "features": "of_twin"},
        "sum_on_strange": {"run": "sum", "dataset": "strange", "features": "of_strange"},
        "lent": {"run": "sum", "dataset": "strange", "features": "of_strange", "bank": "toy"},
        "on_bare": {"run": "sum", "dataset": "bare", "features": "of_bare"},
    },
    "text": {"gru": {"word_dim": 6}, "two_branch": {"hidden": 12}},
    "train": {**PARAMS["train"], "epochs": 2},
    "evaluate": {"resamples": 10},
}
FILES = (embeddings.IMAGES, embeddings.CAPTIONS)


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Two runs on ``toy``, embedded on it and elsewhere: ``twin`` holds the same, ``strange`` other images and some other words."""
    with chdir(tmp_path_factory.mktemp("transfer")):
        write_prepared()
        write_prepared(dataset="twin", extracted="of_twin")
        write_prepared(8, 6, 12, seed=5, dataset="strange", extracted="of_strange", known=STRANGE)
        write_prepared(8, 0, 12, seed=7, dataset="bare", extracted="of_bare")
        params = ready(load_params(Path(), **CHANGES))
        for name in params.transfers:
            stage.embed(params, name, "cpu")
        yield params


def _sides(name: str) -> list[Side]:
    return [embeddings.read(paths.embedded(name) / file) for file in FILES]


def _told(name: str) -> dict:
    return json.loads(_sides(name)[0].about[embeddings.TRANSFER])


def _changed(project: Params, banks: dict[str, str] | None = None, **options: object) -> Params:
    """With these banks of transfers, and these options of evaluate."""
    nodes = {name: project.transfers[name].model_copy(update={"bank": bank}) for name, bank in (banks or {}).items()}
    transfers = {**project.transfers, **nodes}
    return replace(project, transfers=transfers, evaluate=project.evaluate.model_copy(update=options))


def _under(params: Params, name: str) -> dict:
    return evaluate(params, name, ["csls"], "cpu")["csls"]


def _put(split: str, name: str, beside: list[str]) -> None:
    """The images and captions of a split of run ``sum`` into a transfer, of which these splits stay."""
    for file, ours, theirs in zip(FILES, _sides(name), _sides("sum"), strict=True):
        stays, lent = np.isin(ours.splits, beside), theirs.splits == split
        own, more = (
            [getattr(side, key) for key in ("ids", "image_ids", "splits", "vectors")] for side in (ours, theirs)
        )
        more = [more[0] + 10**6, more[1] + 10**6, *more[2:]]
        columns = [np.concatenate([here[stays], there[lent]]) for here, there in zip(own, more, strict=True)]
        embeddings.write(paths.embedded(name) / file, Side(*columns, ours.about))


@pytest.mark.parametrize("run", ["sum", "bags"])
def test_a_data_set_that_holds_the_same_has_the_same_vectors(project, run):
    for here, there in zip(_sides(run), _sides(f"{run}_on_twin"), strict=True):
        np.testing.assert_array_equal(here.vectors, there.vectors)
        np.testing.assert_array_equal(here.ids, there.ids)
        assert here.about["data"] == there.about["data"]
        assert embeddings.TRANSFER not in here.about


def test_vectors_are_those_of_each_caption_and_image_read_alone_with_the_runs_own_words(project):
    network = TrainedNetwork.load(paths.trained("sum"))
    model, files = network.model, network.files
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
    own, moved = (evaluate(project, name, ["nns"], "cpu")["nns"] for name in ("sum", "sum_on_twin"))
    assert moved["rsum"] == own["rsum"]
    assert "transfer" not in own
    assert moved["transfer"] == {"run": "sum", "trained_on": "toy", "dataset": "twin", "unknown_words": 0.0}


@pytest.mark.parametrize("bank", ["train", "val"])
def test_a_bank_is_of_the_data_set_that_is_measured_or_of_the_runs_own_as_asked(project, bank):
    here, lent, own = (_under(_changed(project, bank=bank), name) for name in ("sum_on_strange", "lent", "sum"))
    assert (here["bank"], lent["bank"], own["bank"]) == (f"{bank} of strange", f"{bank} of toy", bank)
    assert here["text_to_image"] != lent["text_to_image"]


def test_a_lent_bank_gives_what_its_split_beside_the_ranked_one_gives(project):
    """The bank of the run's own train split, put as the train split of the transfer's own files."""
    expected = _under(_changed(project, bank="train"), "lent")
    with kept(paths.embedded("lent")):
        _put("train", "lent", ["test"])
        found = _under(_changed(project, {"lent": "strange"}, bank="train"), "lent")
    assert {key: found[key] for key in ("rsum", "hs_sum")} == {key: expected[key] for key in ("rsum", "hs_sum")}


@pytest.mark.parametrize(("criterion", "tune"), [("rgm", False), ("is", True), ("is+rgm", True)])
def test_without_val_the_runs_own_chooses_what_is_open(project, criterion, tune):
    """As if the run's val were the split val of the data set that is ranked."""
    params = _changed(project, tune=tune)
    chosen = evaluate(params, "on_bare", ["nns", criterion], "cpu")
    assert chosen[criterion].pop("tuned_on") == "val of toy"
    assert "tuned_on" not in chosen["nns"]
    with kept(paths.embedded("on_bare")):
        _put("val", "on_bare", ["train", "test"])
        expected = evaluate(params, "on_bare", [criterion], "cpu")[criterion]
    assert chosen[criterion] == expected


SEEN, SAID = Path("data/extract/strange/of_strange"), Path("data/extract/toy/bags")


def _made_otherwise() -> None:
    meta = SEEN / features.META
    meta.write_text(json.dumps({**json.loads(meta.read_text()), "transform": {"image_size": 999}}))


REFUSED = [
    (_made_otherwise, IntegrityError, r"made with other transform than .*vse-pipe extract --features of_strange"),
    (lambda: shutil.rmtree(SEEN), InputError, "vse-pipe extract"),
    (lambda: shutil.rmtree(SAID), InputError, "bags/meta.json does not exist; make it with `vse-pipe extract`"),
]


@pytest.mark.parametrize(("change", "error", "message"), REFUSED)
def test_features_or_texts_that_do_not_fit_or_are_gone_name_the_command(project, change, error, message):
    with kept(SEEN, SAID):
        change()
        with pytest.raises(error, match=message):
            stage.embed(project, "bags_on_twin" if "bags" in message else "sum_on_strange", "cpu")


@pytest.mark.parametrize(
    ("place", "part"),
    [
        (paths.prepared("bare"), "test"),
        (paths.trained("sum"), "weights"),
        (paths.extracted("bare", "of_bare"), "features"),
    ],
)
def test_what_a_transfer_was_made_from_counts(project, place, part):
    evaluate(project, "on_bare", ["nns"], "cpu")
    with kept(place):
        made_anew(place, **{part: "0"})
        for out in (paths.embedded("on_bare"), paths.evaluations("on_bare")):
            with pytest.raises(IntegrityError, match=f"made from other .* than {place} now holds"):
                identity.require_current(out)
        with pytest.raises(IntegrityError, match="run `vse-pipe embed --run on_bare` again"):
            evaluate(project, "on_bare", ["nns"], "cpu")
