"""The approximate index: the items that a loop over all of them finds, as surely as it says."""

import numpy as np
import pytest

from tests.tools.search.project import SPLITS
from vse_pipe.core.errors import UsageError
from vse_pipe.project.params.schema import SearchParams
from vse_pipe.tools.search.correction import Correction
from vse_pipe.tools.search.narrow import Wanted
from vse_pipe.tools.search.query import IMAGE, TO_IMAGES, Term, parse

pytest.importorskip("faiss", reason="faiss-cpu is not installed")
from vse_pipe.ranking.engine import index
from vse_pipe.tools.search import approximate

ITEMS, DIM, QUERIES = 3000, 24, 60
TEST = SPLITS.count("test")
SMALL = {"search": {"approximate_from": 1, "recall": 1.0}}


def unit(vectors):
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture(scope="module")
def planted():
    """Items around 40 centres, queries beside items, and hubs that a correction takes down."""
    rng = np.random.default_rng(0)
    items = unit(rng.standard_normal((40, DIM))[rng.integers(40, size=ITEMS)] + 0.6 * rng.standard_normal((ITEMS, DIM)))
    queries = unit(items[rng.integers(ITEMS, size=QUERIES)] + 0.1 * rng.standard_normal((QUERIES, DIM)))
    return items, queries, rng.normal(0, 0.1, ITEMS)


def naive(items, query, scale, bias, k):
    scores = [scale * sum(a * b for a, b in zip(query.tolist(), one, strict=True)) for one in items.tolist()]
    corrected = [score - bias[place] for place, score in enumerate(scores)]
    order = sorted(range(len(items)), key=lambda place: -corrected[place])[:k]
    return order, [corrected[place] for place in order]


def made(folder, planted, corrected=True, **options):
    items, queries, bias = planted
    correction = Correction(2.0, bias, {"computed": "then", "kept": False}) if corrected else Correction(1.0, None, {})
    params = SearchParams(**options)
    return approximate.opened(params, folder / "csls.test.text_to_image", items, correction, {}, lambda: queries)


@pytest.mark.parametrize("index", ["ivf", "hnsw"])
@pytest.mark.parametrize("corrected", [False, True])
def test_the_best_are_those_of_a_loop_and_their_scores_are_exact(tmp_path, planted, index, corrected):
    items, queries, bias = planted
    found = made(tmp_path, planted, corrected, index=index, recall=0.999)
    assert found.about["recall"] >= 0.99
    hit = []
    for query in queries[:12]:
        order, scores = naive(items, query, 2.0 if corrected else 1.0, bias if corrected else np.zeros(ITEMS), 10)
        values, places = found.find(query, 10)
        hit.append(len(set(places.tolist()) & set(order)) / 10)
        ours = dict(zip(places.tolist(), values.tolist(), strict=True))
        shared = [(ours[place], score) for place, score in zip(order, scores, strict=True) if place in ours]
        np.testing.assert_allclose(*zip(*shared, strict=True), atol=1e-5)
        assert values.tolist() == sorted(values.tolist(), reverse=True)
    assert np.mean(hit) >= 0.98


def test_a_correction_changes_what_is_found(tmp_path, planted):
    plain, corrected = made(tmp_path / "a", planted, False), made(tmp_path / "b", planted)
    query = planted[1][0]
    assert plain.find(query, 10)[1].tolist() != corrected.find(query, 10)[1].tolist()


def test_what_it_says_of_its_recall_is_what_is_measured_again(tmp_path, planted):
    items, queries, bias = planted
    found = made(tmp_path, planted, recall=0.5)
    exact = [np.argsort(-(2 * (items @ query) - bias))[:10] for query in queries]
    answers = [found.find(query, 10) for query in queries]
    again = np.mean(
        [0 if ours is None else np.isin(ours[1], best).mean() for ours, best in zip(answers, exact, strict=True)]
    )
    assert found.about["asked"] == "queries"
    assert (found.about["queries"], found.about["recall"]) == (QUERIES, pytest.approx(again, abs=1e-3))
    assert made(tmp_path / "all", planted, recall=1.0).about["recall"] > 0.99


def test_it_is_kept_and_made_again_for_other_files_or_options(tmp_path, planted):
    assert [made(tmp_path, planted).about["kept"] for _ in range(2)] == [False, True]
    assert not made(tmp_path, planted, False).about["kept"]
    assert not made(tmp_path, planted, recall=0.5).about["kept"]
    kept = next(tmp_path.glob("*.faiss"))
    kept.write_bytes(kept.read_bytes()[:-100])
    assert not made(tmp_path, planted, recall=0.5).about["kept"]


def test_too_few_candidates_are_no_answer_whatever_is_asked_for(tmp_path, planted):
    found = made(tmp_path, planted)
    index.exert(found._index, 1)
    assert [found.find(planted[1][0], k) for k in (1, 10, 300)] == [None] * 3


def test_what_is_asked_for_does_not_change_what_is_found(tmp_path, planted):
    found = made(tmp_path, planted, recall=0.5)
    answers = [[found.find(query, k) for k in (10, 300)] for query in planted[1]]
    pairs = [(few[1].tolist(), many[1].tolist()) for few, many in answers if few is not None]
    assert len(pairs) >= QUERIES // 2
    assert all(few == many[:10] for few, many in pairs)


@pytest.mark.parametrize("full", [False, True])
def test_an_index_that_cannot_be_written_is_a_warning(tmp_path, planted, monkeypatch, capsys, full):
    folder = tmp_path / "folder"
    if full:

        def refuse(index, path):
            raise RuntimeError("Error: 'ret == (size)' failed: write error: No space left on device")

        monkeypatch.setattr(approximate.faiss, "write_index", refuse)
    else:
        folder.write_bytes(b"")
    assert made(folder, planted) is None
    assert "cannot be written and every item is scored" in capsys.readouterr().err
    assert not full or not list(folder.iterdir())


def test_of_a_collection_without_captions_the_recall_is_that_of_items(tmp_path, planted):
    items, queries, _ = planted
    about = made(tmp_path, (items, queries[:0], np.zeros(ITEMS)), recall=0.5).about
    assert (about["asked"], about["queries"]) == ("items", 200)


def test_where_the_index_finds_too_few_every_item_is_scored(opened_engine, monkeypatch):
    engine, exact = opened_engine(**SMALL), opened_engine()
    monkeypatch.setattr(approximate.Approximate, "find", lambda self, query, k: None)
    answer = engine.ask(parse("a box"), Wanted(TEST))
    assert (answer.approximate, answer.hits) == ({}, exact.ask(parse("a box"), Wanted(TEST)).hits)


def test_the_memory_says_how_exactly_vectors_are_held():
    specs = [approximate.chosen(SearchParams(memory=one), 10**6, 512) for one in (2200, 600, 300)]
    assert specs == ["IVF2048,Flat", "IVF2048,SQ8", "IVF2048,SQ4"]
    assert approximate.chosen(SearchParams(memory=1000, index="hnsw"), 10**6, 512) == "HNSW32_SQ8"
    with pytest.raises(UsageError, match=r"search\.memory: 100 MiB is too little .* give at least 25\d"):
        approximate.chosen(SearchParams(memory=100), 10**6, 512)


@pytest.mark.parametrize("criterion", ["nns", "csls"])
def test_an_engine_ranks_through_it_as_without(opened_engine, criterion):
    exact, index = opened_engine(criterion), opened_engine(criterion, **SMALL)
    for parts in (parse("a red disc"), parse("a red disc + a box"), (Term(IMAGE, "5"),)):
        for wanted in (Wanted(TEST), Wanted(3, offset=2), Wanted(4, to="images")):
            ours, theirs = index.ask(parts, wanted), exact.ask(parts, wanted)
            assert [(hit.rank, hit.image_id, hit.caption_id) for hit in ours.hits] == [
                (hit.rank, hit.image_id, hit.caption_id) for hit in theirs.hits
            ]
            np.testing.assert_allclose([hit.score for hit in ours.hits], [hit.score for hit in theirs.hits], atol=1e-6)
            assert (ours.approximate.get("recall"), theirs.approximate) == (1.0, {})


def test_conditions_and_groups_and_other_models_are_searched_exactly(opened_engine):
    engine = opened_engine(**SMALL)
    assert engine.ask(parse("a box"), Wanted(group=0.9)).approximate == {}
    assert engine.ask(parse("a box"), Wanted(5000)).approximate == {}
    assert opened_engine(run="scan", **SMALL).ask(parse("a box")).approximate == {}
    assert opened_engine(search={"approximate_from": TEST + 1}).approximate(TO_IMAGES) is None
    assert opened_engine(search={"approximate_from": None}).approximate(TO_IMAGES) is None


@pytest.fixture
def opened_engine(opened):
    return lambda criterion="nns", run="sum", **changes: opened(run, criterion, **changes)
