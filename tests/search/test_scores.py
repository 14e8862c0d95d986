"""Scores of a search are those of the stages, and their corrections."""

import numpy as np
import pytest

from tests.naive import stages as naive
from tests.search.project import SPLITS
from vse_pipe.artifacts import embeddings, identity
from vse_pipe.artifacts.embeddings import Side
from vse_pipe.core.errors import InputError, UsageError
from vse_pipe.project import paths
from vse_pipe.search.engine import best_places
from vse_pipe.search.query import IMAGE, PHOTO, TEXT, TO_CAPTIONS, TO_IMAGES, Limits, Term, parse

TEST = SPLITS.count("test")
ALL = Limits(10**4)
RED, BOX, FIVE = (Term(TEXT, "a red disc"),), (Term(TEXT, "a box"),), (Term(IMAGE, "5"),)


def scored(answer, key="image_id"):
    return {getattr(hit, key): hit.score for hit in answer.hits}


def vectors(engine, kind):
    return getattr(engine._network.items, kind).double().tolist()


def ids(engine, kind):
    return getattr(engine._network.items, f"{kind.removesuffix('s')}_ids").tolist()


@pytest.mark.parametrize("criterion", ["nns", "csls"])
def test_parts_in_one_space_are_one_vector_before_the_correction(opened, criterion):
    engine = opened("sum", criterion)
    photo = engine.picture(ids(engine, "images")[3]).read_bytes()
    parts = (Term(TEXT, "a red disc", 2.0), Term(PHOTO, "x.png", 1.0, photo), Term(TEXT, "a blue box", -0.5))
    asked = [np.asarray(engine._network.sentence(one).side[0], float).tolist() for one in ("a red disc", "a blue box")]
    seen = vectors(engine, "images")
    query = naive.summed([asked[0], seen[3], asked[1]], [2.0, 1.0, -0.5])
    correction = engine.correction(TO_IMAGES)
    bias = np.zeros(TEST) if correction.bias is None else correction.bias
    wanted = [correction.scale * naive.inner(query, one) - less for one, less in zip(seen, bias, strict=True)]
    found = scored(engine.ask(parts, ALL))
    np.testing.assert_allclose([found[one] for one in ids(engine, "images")], wanted, atol=1e-5)


@pytest.mark.parametrize("run", ["scan", "ordered", "both"])
def test_models_without_one_space_average_the_scores(opened, run):
    engine = opened(run)
    each = [scored(engine.by_text(text, TEST)) for text in ("a red disc", "a box", "it is blue")]
    everything = ids(engine, "images")
    wanted = naive.averaged([[one[number] for number in everything] for one in each], [1, 2, -0.5])
    answer = engine.ask(parse("a red disc + a box:2 - it is blue:0.5"), ALL)
    np.testing.assert_allclose([scored(answer)[number] for number in everything], wanted, atol=1e-5)
    said = ("'a red disc' + 2 x 'a box' - 0.5 x 'it is blue'", {"kind": TEXT, "value": "it is blue", "weight": -0.5})
    assert (answer.query, answer.parts[2]) == said
    for text, limits, message in [
        (f"a box + image:{everything[0]}", Limits(), "not in one space of vectors: its images are searched with text"),
        ("a box", Limits(to="captions"), "its captions are searched with pictures"),
    ]:
        with pytest.raises(UsageError, match=message):
            engine.ask(parse(text), limits)


@pytest.mark.parametrize("run", ["sum", "twins"])
def test_pictures_find_pictures_and_sentences_sentences(opened, run):
    engine = opened(run)
    first, *others = ids(engine, "images")
    assert sorted(scored(engine.ask(parse(f"image:{first} + a box:0.001"), ALL))) == sorted(others)
    assert engine.ask((Term(IMAGE, str(first)),), Limits(TEST, "images")).hits[0].image_id in others
    caption = ids(engine, "captions")[-1]
    found = scored(engine.ask((Term(TEXT, engine._catalogue.text(caption)),), Limits(10**4, "captions")), "caption_id")
    assert found[caption] == pytest.approx(max(found.values()), abs=1e-6) == pytest.approx(1.0, abs=1e-5)


def test_a_condition_is_applied_before_the_best_are_taken(opened):
    engine = opened("sum", "nns", "all")
    everything, where = engine.by_text("a red disc", len(SPLITS)).hits, ("split=val", "width=40")
    answer = engine.ask(RED, Limits(5, where=where))
    val = {row["image_id"] for row in engine._catalogue.images.to_pylist() if row["split"] == "val"}
    assert [hit.image_id for hit in answer.hits] == [hit.image_id for hit in everything if hit.image_id in val][:5]
    assert answer.narrowed == {"where": list(where), "left": SPLITS.count("val")}
    captions = engine.ask(FIVE, Limits(100, where=("split=test",)))
    assert len(captions.hits) == captions.narrowed["left"] == 2 * TEST
    assert engine.ask(BOX, Limits(5, where=("width=41",))).hits == ()
    with pytest.raises(UsageError, match="expected COLUMN=VALUE with a column of"):
        engine.ask(BOX, Limits(where=("height_=1",)))


def test_the_best_are_those_of_a_sort():
    scores = np.array([1.0, 3.0, 3.0, 2.0, 3.0, -1.0], np.float32)
    for k in range(1, 9):
        assert best_places(scores, k).tolist() == [1, 2, 4, 3, 0, 5][:k]
    with pytest.raises(InputError, match="not finite"):
        best_places(np.array([1.0, np.nan]), 1)


def test_without_captions_pictures_find_pictures(opened):
    engine = opened()
    engine.counts = {**engine.counts, "captions": 0}
    for part in (*FIVE, Term(PHOTO, "x.png", content=engine.picture(5).read_bytes())):
        assert {hit.caption_id for hit in engine.ask((part,)).hits} == {None}
    with pytest.raises(InputError, match="has no captions of split 'test'"):
        engine.ask(FIVE, Limits(to="captions"))


@pytest.mark.parametrize(
    ("parts", "wanted", "message"),
    [
        (BOX, Limits(to="sounds"), "search for images or captions"),
    ],
)
def test_what_means_nothing_is_refused(opened, parts, wanted, message):
    with pytest.raises(UsageError, match=message):
        opened().ask(parts, wanted)


def _turned(path):
    """The same file with the vectors in another order."""
    side = embeddings.read(path)
    embeddings.write(path, Side(side.ids, side.image_ids, side.splits, side.vectors[::-1].copy(), side.about))
    read = identity.inputs_of(path.parent)
    identity.write(path.parent, read, {"vectors": embeddings.digest(path.parent)})


def test_each_direction_has_its_correction_by_the_bank_of_its_split(opened):
    engine = opened("sum", "csls")
    engine.ask(FIVE, Limits(to="images"))
    assert list(engine._corrections) == [TO_IMAGES]
    engine.ask(BOX, Limits(to="captions"))
    assert list(engine._corrections) == [TO_IMAGES, TO_CAPTIONS]
    about = engine.correction(TO_IMAGES).about
    assert (about["bank"], about["queries"], about["items"]) == ("test", 20, 10)


def test_an_open_engine_answers_from_the_vectors_that_it_has_read(opened):
    engine, before = opened("sum", "csls"), opened("sum", "csls")
    hits = before.ask(FIVE).hits  # 5 is of another split
    _turned(paths.embedded("sum") / embeddings.CAPTIONS)
    assert engine.ask(FIVE).hits == hits
    after = opened("sum", "csls").correction(TO_IMAGES)
    assert not np.array_equal(before.correction(TO_IMAGES).bias, after.bias)
