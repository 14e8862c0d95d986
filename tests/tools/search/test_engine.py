"""The engine against the evaluation: the same queries, the same rankings."""

import threading
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest

from tests.tools.search import project as artefacts
from tests.tools.search.project import HOSTILE, RUNS, SPLITS
from vse_pipe.artifacts import captions, evaluation
from vse_pipe.core.errors import InputError, IntegrityError, MissingResource, UsageError
from vse_pipe.evaluate.stage import evaluate
from vse_pipe.project import paths
from vse_pipe.tools.search.query import TO_CAPTIONS, TO_IMAGES

ALL_RUNS = [*RUNS, "both"]
TEST = SPLITS.count("test")


def ranked(run, inference, direction):
    """By query id, the ten best items as the evaluation wrote them down."""
    table = evaluation.read_ranks(paths.evaluated(run, inference))
    table = table.filter(pc.equal(table["direction"], direction))
    return dict(zip(table["query_id"].to_pylist(), table["top"].to_pylist(), strict=True))


def queries():
    table = captions.read(paths.prepared("toy"))
    table = table.filter(pc.equal(table["split"], "test"))
    return list(zip(table["caption_id"].to_pylist(), table["text"].to_pylist(), strict=True))


def must_agree(found, wanted, score):
    """The same items in the same order, but for neighbours whose scores are equal up to rounding."""
    assert sorted(found) == sorted(wanted)
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours == theirs or score[ours] == pytest.approx(score[theirs], abs=2e-5)


@pytest.mark.parametrize("run", ALL_RUNS)
def test_a_test_caption_finds_what_the_evaluation_ranked_for_it(opened, project, run):
    params = artefacts.params(project)
    evaluate(params, run, ["nns", "csls"], "cpu")
    for inference in ("nns", "csls"):
        engine, wanted = opened(run, inference), ranked(run, inference, TO_IMAGES)
        for number, text in queries()[:6]:
            hits = engine.by_text(text, TEST).hits
            score = {hit.image_id: hit.score for hit in hits}
            must_agree([hit.image_id for hit in hits], wanted[number], score)


@pytest.mark.parametrize("run", ALL_RUNS)
def test_a_test_image_finds_what_the_evaluation_ranked_for_it(opened, project, run):
    evaluate(artefacts.params(project), run, ["is"], "cpu")
    engine, wanted = opened(run, "is"), ranked(run, "is", TO_CAPTIONS)
    for number in list(wanted)[:4]:
        everything = engine.by_image_id(number, engine.counts["captions"]).hits
        score = {hit.caption_id: hit.score for hit in everything}
        theirs = [score[caption] for caption in wanted[number]]
        np.testing.assert_allclose([hit.score for hit in everything[:10]], theirs, atol=1e-4)


@pytest.mark.parametrize("inference", ["nnn", "dual_is", "sinkhorn", "is"])
@pytest.mark.parametrize("bank", ["test", "val", "train"])
def test_every_criterion_of_one_number_an_item_ranks_as_the_evaluation(opened, project, inference, bank):
    changes = {"evaluate": {"bank": bank}}
    evaluate(artefacts.params(project, **changes), "sum", [inference], "cpu")
    engine, wanted = opened("sum", inference, **changes), ranked("sum", inference, TO_IMAGES)
    for number, text in queries()[3:6]:
        hits = engine.by_text(text, TEST).hits
        score = {hit.image_id: hit.score for hit in hits}
        must_agree([hit.image_id for hit in hits], wanted[number], score)
    assert engine.correction(TO_IMAGES).about["bank"] == bank


def test_parameters_that_the_evaluation_chose_are_those_that_are_searched_with(opened, project):
    changes = {"evaluate": {"tune": True}, "inference": {"is": {"beta_grid": [3.0]}}}
    with pytest.raises(MissingResource, match=r"run `vse-pipe evaluate --run sum --inference is`"):
        opened("sum", "is", **changes).by_text("a red disc")
    evaluate(artefacts.params(project, **changes), "sum", ["is"], "cpu")
    assert opened("sum", "is", **changes).correction(TO_IMAGES).scale == 3.0


@pytest.mark.parametrize("run", ["sum", "ordered", "bags", "twins", "scan", "both"])
def test_a_photo_finds_what_the_same_image_of_the_data_set_finds(opened, run):
    engine = opened(run)
    number = engine.by_text("a red disc", 1).hits[0].image_id
    photo = engine.by_image(engine.picture(number).read_bytes(), 5)
    own = engine.by_image_id(number, 5)
    np.testing.assert_allclose([hit.score for hit in photo.hits], [hit.score for hit in own.hits], atol=1e-4)


def test_other_splits_are_searched_too(opened):
    for split, size in (("val", 8), ("train", 20), ("all", len(SPLITS))):
        engine = opened("sum", "csls", split)
        assert engine.counts == {"images": size, "captions": 2 * size}
        assert len({hit.image_id for hit in engine.by_text("a box", 1000).hits}) == size
    assert opened("scan", "csls", "all").counts["images"] == SPLITS.count("val") + TEST, "what it has embedded"
    with pytest.raises(InputError, match=r"nothing of split 'train'; .*name 'train' in embed\.splits"):
        opened("scan", split="train")
    answer = opened().by_image_id(5, 3)
    assert (answer.query, len(answer.hits)) == ("image 5", 3), "an image of another split than is searched"
    with pytest.raises(InputError, match=r"run 'sum' has embedded no image_id 6"):
        opened().by_image_id(6)


def test_hits_say_what_was_found(opened, project):
    hit = opened().by_text("a red disc", 1).hits[0]
    table = captions.read(paths.prepared("toy"))
    own = table.filter(pc.equal(table["image_id"], hit.image_id))
    assert (hit.rank, hit.caption_id, hit.file) == (1, None, f"{hit.image_id}.png")
    assert hit.text == own["text"][0].as_py()
    found = opened().by_image_id(hit.image_id, 1).hits[0]
    row = table.filter(pc.equal(table["caption_id"], found.caption_id))
    assert (found.text, found.image_id) == (row["text"][0].as_py(), row["image_id"][0].as_py())
    texts = {hit.text for hit in opened().by_text("a red disc", TEST).hits}
    assert HOSTILE + " a red disc" in texts


NOTHING = {
    "": "the sentence is empty",
    " \n\t ": "the sentence is empty",
    "zorg blarg": "no word of the sentence is in the vocabulary of texts 'words': zorg, blarg",
    "שלום עולם": "no word of the sentence is in the vocabulary of texts 'words': שלום, עולם",
    "?!": "no word of the sentence is in the vocabulary of texts 'words'",
    "x" * 200_000: "a sentence of 200000 characters",
}


def test_a_sentence_with_nothing_to_look_for_is_refused(opened):
    engine = opened()
    for text, message in NOTHING.items():
        with pytest.raises(InputError) as refused:
            engine.by_text(text)
        assert message in str(refused.value)
        assert len(str(refused.value)) < 500


def test_unknown_words_are_named_once_and_long_sentences_are_cut(opened):
    answer = opened().by_text("a red zorg, a Zorg \U0001f415 disc")
    assert answer.unknown == ("zorg", "\U0001f415")
    assert answer.notes == ()
    answer = opened().by_text("a red disc " * 4000)
    assert answer.notes == ("only the first 20 words are read",)
    assert len(answer.hits) == TEST
    assert opened("bags").by_text("there is a red disc and a zorg").unknown == ("zorg",)
    assert len(opened().by_text("a red disc", 10**6).hits) == TEST
    for k in (0, -1):
        with pytest.raises(UsageError, match="ask for at least one result"):
            opened().by_text("a red disc", k)


def test_photos_that_cannot_be_encoded_are_refused(opened):
    for content in (b"", b"<html>", b"\x89PNG\r\n\x1a\n" + b"\0" * 40):
        with pytest.raises(InputError, match=r"^a photo is (empty|no image in a known format)"):
            opened().by_image(content)
    with pytest.raises(UsageError, match=r"features\.plain of run 'given' are 'precomp'.*--image-id"):
        opened("given").by_image(b"")
    assert opened("given").by_image_id(5).hits
    with pytest.raises(IntegrityError, match=r"features\.filters was made with other weights"):
        opened("sum", seed=4).by_image(b"")


def test_criteria_that_need_more_than_a_number_an_item_are_refused(opened):
    for inference in ("gm", "rgm", "is+rgm", "qb_norm", "mutual_proximity"):
        with pytest.raises(UsageError, match=r"search with csls, dual_is, is, nnn, nns, sinkhorn"):
            opened("sum", inference)
    with pytest.raises(UsageError, match=r"unknown run 'summ'; did you mean 'sum'\?"):
        opened("summ")
    with pytest.raises(UsageError, match=r"unknown split 'tets'; did you mean 'test'\?"):
        opened(split="tets")


def test_a_run_that_is_not_embedded_names_the_command(opened, project):
    (paths.embedded("sum") / "images.parquet").unlink()
    with pytest.raises(MissingResource, match=r"make it with `vse-pipe embed --run sum`"):
        opened()


def test_a_run_that_is_not_trained_names_the_command(opened, project):
    for path in paths.trained("sum").glob("*.*"):
        path.unlink()
    engine = opened()
    with pytest.raises(MissingResource, match=r"make it with `vse-pipe train --run sum`"):
        engine.by_text("a red disc")
    assert engine.by_image_id(5).hits, "an image of the data set needs no model"


def test_embeddings_of_another_model_are_refused(opened, project):
    model = paths.trained("sum")
    for path in paths.trained("given").glob("*.*"):
        (model / path.name).write_bytes(path.read_bytes())
    with pytest.raises(IntegrityError, match=r"made by another model than .*`vse-pipe embed --run sum`"):
        opened()


def test_other_text_features_than_the_run_was_trained_on_are_refused(opened, project):
    meta = paths.extracted("toy", "words") / "meta.json"
    meta.write_text(meta.read_text().replace('"tokens.npy": "', '"tokens.npy": "0'))
    with pytest.raises(IntegrityError, match=r"trained on other texts"):
        opened().by_text("a red disc")


def test_a_picture_is_found_inside_its_root_only(opened, project):
    engine = opened()
    assert engine.picture(5) == Path("pictures/5.png")
    (project / "pictures/5.png").unlink()
    assert engine.picture(5) is None
    (project / "pictures/5.png").symlink_to("/etc/passwd")
    with pytest.raises(InputError, match="lies outside its root"):
        engine.picture(5)


def test_many_threads_get_the_answers_of_one(opened):
    alone = {text: opened("sum", "csls").by_text(text).hits for _, text in queries()}
    engine, found, failed = opened("sum", "csls"), {}, []

    def ask(text):
        try:
            found[text] = engine.by_text(text).hits
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=ask, args=(text,)) for _, text in queries()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert found == alone


def test_criteria_share_vectors_and_models_and_a_search_changes_no_vector(opened):
    engine = opened("sum", "csls")
    before = engine._network.images().clone()
    engine.by_text("a red disc")
    np.testing.assert_array_equal(engine._network.images(), before)
    engine = opened()
    other = engine.under("csls")
    assert other._network is engine._network
    assert other.by_text("a red disc").hits == opened("sum", "csls").by_text("a red disc").hits
    assert engine.by_text("a red disc").hits == opened().by_text("a red disc").hits
    with pytest.raises(UsageError, match="search with csls, dual_is"):
        engine.under("gm")


def test_vectors_that_are_not_finite_are_refused(opened, monkeypatch):
    monkeypatch.setattr(np, "isfinite", lambda values: np.zeros(1, bool))
    with pytest.raises(InputError, match="NaN or infinite"):
        opened().by_image_id(5)
