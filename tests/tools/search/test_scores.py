"""Queries of several parts, narrowed: against the loops of tests.naive.stages."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.naive import stages as naive
from tests.tools.search.project import SPLITS
from vse_pipe.core.errors import InputError, UsageError
from vse_pipe.tools.search import engine as scoring
from vse_pipe.tools.search.engine import best_places, leaders
from vse_pipe.tools.search.query import IMAGE, PHOTO, TEXT, TO_CAPTIONS, TO_IMAGES, Limits, Term, parse

TEST = SPLITS.count("test")
ALL = Limits(10**4)


def scored(answer, key="image_id"):
    return {getattr(hit, key): hit.score for hit in answer.hits}


def vectors(engine, kind):
    side = engine._network.images() if kind == "images" else engine._network.captions()
    return side.double().tolist()


def ids(engine, kind):
    found = engine._network.ids
    return (found.image_ids if kind == "images" else found.caption_ids).tolist()


@pytest.mark.parametrize("criterion", ["nns", "csls"])
def test_parts_in_one_space_are_one_vector_before_the_correction(opened, criterion):
    engine = opened("sum", criterion)
    number = ids(engine, "images")[3]
    photo = engine.picture(number).read_bytes()
    parts = (Term(TEXT, "a red disc", 2.0), Term(PHOTO, "x.png", 1.0, photo), Term(TEXT, "a blue box", -0.5))
    asked = [np.asarray(engine._network.sentence(one).side[0], float).tolist() for one in ("a red disc", "a blue box")]
    query = naive.summed([asked[0], vectors(engine, "images")[3], asked[1]], [2.0, 1.0, -0.5])
    correction = engine.correction(TO_IMAGES)
    bias = np.zeros(TEST) if correction.bias is None else correction.bias
    wanted = [
        correction.scale * naive.inner(query, one) - bias[place] for place, one in enumerate(vectors(engine, "images"))
    ]
    found = scored(engine.ask(parts, ALL))
    np.testing.assert_allclose([found[one] for one in ids(engine, "images")], wanted, atol=1e-5)


def test_the_weight_of_one_part_alone_and_of_all_of_them_changes_nothing(opened):
    engine = opened()
    plain, twice = engine.ask(parse("a red disc + a box")), engine.ask(parse("a red disc:3 + a box:3"))
    np.testing.assert_allclose([hit.score for hit in plain.hits], [hit.score for hit in twice.hits], atol=1e-6)
    assert [hit.image_id for hit in plain.hits] == [hit.image_id for hit in twice.hits]
    assert engine.ask((Term(TEXT, "a red disc"),)).hits == engine.by_text("a red disc").hits


@pytest.mark.parametrize("run", ["scan", "ordered", "both"])
def test_models_without_one_space_average_the_scores(opened, run):
    engine = opened(run)
    each = [scored(engine.by_text(text, TEST)) for text in ("a red disc", "a box", "it is blue")]
    everything = ids(engine, "images")
    wanted = naive.averaged([[one[number] for number in everything] for one in each], [1, 2, -0.5])
    answer = engine.ask(parse("a red disc + a box:2 - it is blue:0.5"), ALL)
    np.testing.assert_allclose([scored(answer)[number] for number in everything], wanted, atol=1e-5)
    assert answer.query == "'a red disc' + 2 x 'a box' - 0.5 x 'it is blue'"
    assert answer.parts[2] == {"kind": TEXT, "value": "it is blue", "weight": -0.5}
    with pytest.raises(UsageError, match=r"not in one space of vectors: its images are searched with text"):
        engine.ask(parse(f"a box + image:{everything[0]}"))
    with pytest.raises(UsageError, match=r"its captions are searched with pictures"):
        engine.ask(parse("a box"), Limits(to="captions"))


@pytest.mark.parametrize("run", ["sum", "twins"])
def test_pictures_find_pictures_and_sentences_sentences(opened, run):
    engine = opened(run)
    first, *others = ids(engine, "images")
    answer = engine.ask(parse(f"image:{first} + a box:0.001"), ALL)
    assert sorted(scored(answer)) == sorted(others)
    assert engine.ask((Term(IMAGE, str(first)),), Limits(TEST, "images")).hits[0].image_id in others
    caption = ids(engine, "captions")[-1]
    found = scored(engine.ask((Term(TEXT, engine._catalogue.text(caption)),), Limits(10**4, "captions")), "caption_id")
    assert found[caption] == pytest.approx(max(found.values()), abs=1e-6) == pytest.approx(1.0, abs=1e-5)


def test_parts_that_cancel_out_are_nothing_to_look_for(opened):
    with pytest.raises(InputError, match="cancel out"):
        opened().ask((Term(TEXT, "a red disc"), Term(TEXT, "a  red disc", -1.0)))


def test_a_condition_is_applied_before_the_best_are_taken(opened):
    engine = opened("sum", "nns", "all")
    everything = engine.by_text("a red disc", len(SPLITS)).hits
    answer = engine.ask((Term(TEXT, "a red disc"),), Limits(5, where="split = 'val' and width = 40"))
    catalogue = engine._catalogue.columns.to_pylist()
    val = {row["image_id"] for row in catalogue if row["split"] == "val"}
    assert [hit.image_id for hit in answer.hits] == [hit.image_id for hit in everything if hit.image_id in val][:5]
    assert answer.narrowed == {"where": "split = 'val' and width = 40", "left": SPLITS.count("val")}
    captions = engine.ask((Term(IMAGE, "5"),), Limits(100, where="split = 'test'"))
    assert len(captions.hits) == captions.narrowed["left"] == 2 * TEST
    assert engine.ask((Term(TEXT, "a box"),), Limits(5, where="width > 40")).hits == ()
    with pytest.raises(UsageError, match="no column 'height_'; did you mean 'height'"):
        engine.ask((Term(TEXT, "a box"),), Limits(where="height_ > 1"))


@pytest.mark.parametrize(
    ("run", "to"), [("sum", "images"), ("sum", "captions"), ("scan", "images"), ("both", "images")]
)
def test_of_what_is_alike_the_best_is_shown(opened, run, to):
    engine = opened(run)
    query = (Term(TEXT, "a red disc"),) if to == "images" else (Term(IMAGE, "5"),)
    if run == "scan":
        units = [naive.unit(np.sum(one, axis=0)) for one in vectors(engine, "images")]
    elif run == "both":
        parts = [side.double().tolist() for side in engine._network.images().parts]
        units = [
            naive.unit(np.concatenate([naive.unit(np.sum(one, axis=0)) for one in each]))
            for each in zip(*parts, strict=True)
        ]
    else:
        units = vectors(engine, to)
    cosines = sorted(naive.inner(a, b) for a in units for b in units)
    least = next(round(value, 4) for value in cosines[len(cosines) // 2 :] if value % 1e-4 > 2e-5)
    key = "image_id" if to == "images" else "caption_id"
    scores = scored(engine.ask(query, ALL), key)
    order = ids(engine, to)
    wanted = naive.grouped(
        [scores[one] for one in order], [True] * len(order), 4, lambda a, b: naive.inner(units[a], units[b]) >= least
    )
    answer = engine.ask(query, Limits(4, group=least))
    assert [(getattr(hit, key), list(hit.alike)) for hit in answer.hits] == [
        (order[leader], [order[one] for one in group]) for leader, group in wanted
    ]
    assert answer.narrowed == {"group": least}


def test_of_many_that_are_alike_twenty_are_named_and_all_counted(opened):
    (hit,) = opened("sum", "nns", "all").ask((Term(TEXT, "a red disc"),), Limits(4, group=1e-9)).hits[:1]
    order = [one.image_id for one in opened("sum", "nns", "all").ask((Term(TEXT, "a red disc"),), ALL).hits]
    assert len(hit.alike) == min(20, hit.alike_count)
    assert hit.alike_count > 20
    assert list(hit.alike) == [one for one in order if one in hit.alike]


def test_items_in_many_blocks_are_grouped_as_in_one(monkeypatch):
    rng = np.random.default_rng(3)
    scores, alike = rng.standard_normal(40), rng.random((40, 40)) < 0.1
    monkeypatch.setattr(scoring, "_BLOCK", 7)
    found = leaders(scores, np.full(40, True), 12, lambda items, others: alike[np.ix_(others, items)].T)
    wanted = naive.grouped(scores.tolist(), [True] * 40, 12, lambda a, b: alike[a][b])
    assert [(leader, group.tolist()) for leader, group in found] == wanted


def test_the_best_are_those_of_a_sort_and_ties_keep_their_order():
    scores = np.array([1.0, 3.0, 3.0, 2.0, 3.0, -1.0], np.float32)
    for k in range(1, 9):
        assert best_places(scores, k).tolist() == [1, 2, 4, 3, 0, 5][:k]
    with pytest.raises(InputError, match="not finite"):
        best_places(np.array([1.0, np.nan]), 1)


def test_without_captions_pictures_find_pictures(opened):
    engine = opened()
    engine.counts = {**engine.counts, "captions": 0}
    photo = engine.picture(5).read_bytes()
    for part in (Term(IMAGE, "5"), Term(PHOTO, "x.png", content=photo)):
        assert {hit.caption_id for hit in engine.ask((part,)).hits} == {None}
    with pytest.raises(InputError, match="has no captions of split 'test'"):
        engine.ask((Term(IMAGE, "5"),), Limits(to="captions"))


@given(st.data())
def test_groups_are_those_of_the_loop(data):
    size = data.draw(st.integers(1, 12))
    scores = data.draw(st.lists(st.integers(0, 5), min_size=size, max_size=size))
    kept = data.draw(st.lists(st.booleans(), min_size=size, max_size=size))
    alike = np.array(
        data.draw(st.lists(st.lists(st.booleans(), min_size=size, max_size=size), min_size=size, max_size=size))
    )
    k = data.draw(st.integers(1, size))
    found = leaders(np.array(scores, float), np.array(kept), k, lambda items, others: alike[np.ix_(others, items)].T)
    wanted = naive.grouped(scores, kept, k, lambda a, b: alike[a][b])
    assert [(leader, group.tolist()) for leader, group in found] == wanted


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (Limits(0), "k is 0"),
        (Limits(group=0.0), "--group is a cosine above 0 and at most 1, got 0"),
        (Limits(group=float("nan")), "--group is a cosine"),
        (Limits(to="sounds"), "search for images or captions"),
    ],
)
def test_what_means_nothing_is_refused(opened, wanted, message):
    with pytest.raises(UsageError, match=message):
        opened().ask((Term(TEXT, "a box"),), wanted)


def test_the_correction_is_that_of_the_items(opened):
    engine = opened("sum", "csls")
    engine.ask((Term(IMAGE, "5"),), Limits(to="images"))
    assert list(engine._corrections) == [TO_IMAGES]
    engine.ask((Term(TEXT, "a box"),), Limits(to="captions"))
    assert list(engine._corrections) == [TO_IMAGES, TO_CAPTIONS]
