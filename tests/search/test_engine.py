"""The engine against the evaluation: the same queries, the same rankings."""

import json
import re
import shutil
import threading
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest
import torch
from PIL import Image

from tests.command_line import caller
from tests.search import project as artefacts
from tests.search.project import RUNS, SPLITS
from vse_pipe.artifacts import captions, evaluation
from vse_pipe.core.errors import InputError, IntegrityError, MissingResource, UsageError
from vse_pipe.evaluate.stage import evaluate
from vse_pipe.project import paths
from vse_pipe.search.query import IMAGE, PHOTO, TO_CAPTIONS, TO_IMAGES, Limits, Term
from vse_pipe.search.show import answer_document
from vse_pipe.train.trained import Trained


@pytest.fixture
def call(monkeypatch, capsys):
    return caller(monkeypatch, capsys)


ALL_RUNS = [*RUNS, "both"]
TEST = SPLITS.count("test")


def ranked(run, inference, direction):
    """By query id, the ten best items as the evaluation wrote them down."""
    table = evaluation.read_ranks(paths.evaluated(run, inference))
    table = table.filter(pc.equal(table["direction"], direction))
    return dict(zip(table["query_id"].to_pylist(), table["top"].to_pylist(), strict=True))


def of_photo(content):
    return (Term(PHOTO, "a photo", content=content),), Limits(5)


def of_image(number, k=10):
    return (Term(IMAGE, str(number)),), Limits(k)


def queries():
    table = captions.read(paths.prepared("toy"))
    table = table.filter(pc.equal(table["split"], "test"))
    return list(zip(table["caption_id"].to_pylist(), table["text"].to_pylist(), strict=True))


def must_agree(hits, wanted, key="image_id"):
    """The same items in the same order, but for neighbours whose scores are equal up to rounding."""
    found, score = [getattr(hit, key) for hit in hits], {getattr(hit, key): hit.score for hit in hits}
    assert sorted(found) == sorted(wanted)
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours == theirs or score[ours] == pytest.approx(score[theirs], abs=2e-5)


QUICK = {"resamples": 0}


@pytest.mark.parametrize("run", ALL_RUNS)
def test_a_caption_and_an_image_of_test_find_what_the_evaluation_ranked_for_them(opened, project, run):
    evaluate(artefacts.params(project, evaluate=QUICK), run, ["nns", "csls", "is"], "cpu")
    for inference in ("nns", "csls"):
        engine, wanted = opened(run, inference), ranked(run, inference, TO_IMAGES)
        for number, text in queries()[:6]:
            must_agree(engine.by_text(text, TEST).hits, wanted[number])
    engine, wanted = opened(run, "is"), ranked(run, "is", TO_CAPTIONS)
    for number in list(wanted)[:4]:
        everything = engine.ask(*of_image(number, engine.counts["captions"])).hits
        score = {hit.caption_id: hit.score for hit in everything}
        theirs = [score[caption] for caption in wanted[number]]
        np.testing.assert_allclose([hit.score for hit in everything[:10]], theirs, atol=1e-4)


BANKS = [(name, "val") for name in ("nnn", "dual_is", "sinkhorn", "is")]


@pytest.mark.parametrize(("inference", "bank"), [*BANKS, ("nnn", "train")])
def test_every_criterion_of_one_number_an_item_ranks_as_the_evaluation(opened, project, inference, bank):
    changes = {"evaluate": {"bank": bank, **QUICK}}
    evaluate(artefacts.params(project, **changes), "sum", [inference], "cpu")
    engine, wanted = opened("sum", inference, **changes), ranked("sum", inference, TO_IMAGES)
    for number, text in queries()[3:6]:
        must_agree(engine.by_text(text, TEST).hits, wanted[number])
    assert engine.correction(TO_IMAGES).about["bank"] == bank


def test_parameters_that_the_evaluation_chose_are_those_that_are_searched_with(opened, project):
    changes = {"evaluate": {"tune": True, **QUICK}, "inference": {"is": {"beta_grid": [3.0]}}}
    with pytest.raises(MissingResource, match=r"run `vse-pipe evaluate --run sum --inference is`"):
        opened("sum", "is", **changes).by_text("a red disc")
    evaluate(artefacts.params(project, **changes), "sum", ["is"], "cpu")
    assert opened("sum", "is", **changes).correction(TO_IMAGES).scale == 3.0


@pytest.mark.parametrize("run", ["sum", "ordered", "bags", "twins", "scan", "both"])
def test_a_photo_finds_what_the_same_image_of_the_data_set_finds(opened, run):
    engine = opened(run)
    number = engine.by_text("a red disc", 1).hits[0].image_id
    scores = [
        [hit.score for hit in answer.hits]
        for answer in (engine.ask(*of_photo(engine.picture(number).read_bytes())), engine.ask(*of_image(number, 5)))
    ]
    np.testing.assert_allclose(*scores, atol=1e-4)


WORDS = "no word of the sentence is in the vocabulary of texts 'words'"
CRITERIA = "these are one: csls, dual_is, is, nnn, nns, sinkhorn"
NO_PHOTO = r"^a photo is (empty|no image in a known format)"
PRECOMP = "features 'precomp' were computed elsewhere.*image:ID"
REFUSED = [
    (lambda opened: opened().by_text(""), InputError, "the sentence is empty"),
    (lambda opened: opened().by_text("zorg blarg"), InputError, WORDS),
    (lambda opened: opened().ask(*of_photo(b"")), InputError, NO_PHOTO),
    (lambda opened: opened("given").ask(*of_photo(b"")), UsageError, PRECOMP),
    (lambda opened: opened("sum", "gm"), UsageError, CRITERIA),
    (lambda opened: opened("sum", "qb_norm"), UsageError, CRITERIA),
    (lambda opened: opened("summ"), UsageError, r"unknown run 'summ'; did you mean 'sum'\?"),
    (lambda opened: opened(split="tets"), UsageError, r"unknown split 'tets'; did you mean 'test'\?"),
    (
        lambda opened: opened("scan", split="train"),
        InputError,
        r"nothing of split 'train'; .*name 'train' in embed\.splits",
    ),
    (lambda opened: opened().ask(*of_image(6)), InputError, "run 'sum' has embedded no image_id 6"),
]


@pytest.mark.parametrize(("ask", "error", "message"), REFUSED)
def test_what_cannot_be_answered_is_said_in_few_words(opened, ask, error, message):
    with pytest.raises(error, match=message) as refused:
        ask(opened)
    assert len(str(refused.value)) < 500


def test_unknown_words_are_named_once_and_long_sentences_are_cut(opened):
    answer = opened().by_text("a red zorg, a Zorg \U0001f415 disc")
    assert (answer.unknown, answer.notes) == (("zorg", "\U0001f415"), ())
    answer = opened().by_text("a red disc " * 4000)
    assert (answer.notes, len(answer.hits)) == (("only the first 20 words are read",), TEST)
    assert opened("bags").by_text("there is a red disc and a zorg").unknown == ("zorg",)
    assert len(opened().by_text("a red disc", 10**6).hits) == TEST
    assert opened("given").ask(*of_image(5)).hits


def _other_texts() -> None:
    meta = paths.extracted("toy", "words") / "meta.json"
    meta.write_text(meta.read_text().replace('"tokens.npy": "', '"tokens.npy": "0'))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            lambda: (paths.embedded("sum") / "images.parquet").unlink(),
            InputError,
            "make it with `vse-pipe embed --run sum`",
        ),
        (lambda: shutil.rmtree(paths.trained("sum")), MissingResource, "make it with `vse-pipe train --run sum`"),
        (
            lambda: shutil.copytree(paths.trained("given"), paths.trained("sum"), dirs_exist_ok=True),
            IntegrityError,
            "made from other weights than .*`vse-pipe embed --run sum`",
        ),
        (_other_texts, IntegrityError, "not the texts that the model was trained on"),
    ],
)
def test_what_is_missing_or_of_another_run_names_the_command(opened, change, error, message):
    change()
    with pytest.raises(error, match=message):
        opened().by_text("a red disc")
    if "train --run" in message:
        assert opened().ask(*of_image(5)).hits, "an image of the data set needs no model"


def test_a_picture_is_found_inside_its_root_only(opened):
    engine, picture = opened(), Path("pictures/5.png")
    assert engine.picture(5) == picture
    picture.unlink()
    assert engine.picture(5) is None
    picture.symlink_to("../elsewhere/nothing.png")
    assert engine.picture(5) is None


@pytest.mark.parametrize("asked", [["a red disc"], ["a red disc", "--html", "out.html"], ["image:5"]])
def test_a_picture_that_was_replaced_under_its_name_is_refused_by_every_kind_of_search(project, call, asked):
    artefacts.params(project)
    command = ("search", *asked, "--run", "sum", "--split", "all", "--k", "1", "--device", "cpu")
    assert call(*command)[0] == 0
    Image.new("RGB", (40, 40), "yellow").save("other.png")
    for file in Path("pictures").iterdir():
        shutil.copy("other.png", file)
    status, out, err = call(*command)
    assert (status, out) == (5, "")
    assert re.search(r"pictures/\d+\.png: the file changed .* run `vse-pipe prepare` again", err)


def test_many_threads_get_the_answers_of_one(opened):
    alone = {text: opened("sum", "csls").by_text(text).hits for _, text in queries()}
    engine, found, failed = opened("sum", "csls"), {}, []

    def ask(text):
        try:
            found[text] = engine.by_text(text).hits
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=ask, args=(text,)) for text in alone]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (failed, found) == ([], alone)


def test_criteria_share_vectors_and_models_and_a_search_changes_no_vector(opened):
    engine = opened("sum", "csls")
    before = engine._network.items.images.clone()
    engine.by_text("a red disc")
    np.testing.assert_array_equal(engine._network.items.images, before)
    engine = opened()
    other = engine.under("csls")
    assert other._network is engine._network
    assert other.by_text("a red disc").hits == opened("sum", "csls").by_text("a red disc").hits
    assert engine.by_text("a red disc").hits == opened().by_text("a red disc").hits
    with pytest.raises(UsageError, match="these are one: csls, dual_is"):
        engine.under("gm")


@pytest.mark.parametrize("run", ["scan", "sgr"])
def test_every_hit_says_where_each_word_matched(opened, run):
    """The best region of each word by the attention of the model over the stored regions."""
    engine = opened(run)
    answer = engine.by_text("a red disc", 3)
    document = answer_document(engine, answer, TO_IMAGES, "")
    words = Trained.open(paths.trained(run)).captions(["a red disc"]).vectors
    images, ids = engine._network.items.images, engine._network.items.image_ids
    for hit, found in zip(answer.hits, document["regions"], strict=True):
        assert [entry["word"] for entry in found] == ["<start>", "a", "red", "disc", "<end>"]
        raw = torch.nn.functional.leaky_relu(images[int(np.flatnonzero(ids == hit.image_id)[0])] @ words.T, 0.1)
        weights = (9.0 * raw / (raw.norm(dim=1, keepdim=True) + 1e-8)).softmax(dim=0)
        assert [entry["region"] for entry in found] == weights.argmax(dim=0).tolist()
        assert [entry["weight"] for entry in found] == pytest.approx(weights.amax(dim=0).tolist(), abs=1e-5)
        assert all(entry["box"] is None or len(entry["box"]) == 4 for entry in found)
    json.dumps(document, allow_nan=False)
    assert not engine.ask(*of_image(answer.hits[0].image_id)).regions
    shutil.rmtree(paths.extracted("toy", "grid"))
    assert opened(run).by_text("a red disc", 3).regions[0][0]["box"] is None
    assert not opened("sum").by_text("a red disc").regions
    assert not opened("both").by_text("a red disc").regions
