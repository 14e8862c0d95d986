"""TREC runs against loops, against trec_eval and ir-measures, and against an evaluation of the same vectors."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.evaluate.files import sample
from tests.evaluate.files import write as write_vectors
from tests.naive import evaluate as naive
from vse_pipe.artifacts.evaluation import DIRECTIONS
from vse_pipe.core.errors import InputError
from vse_pipe.evaluate.trec import evaluate_trec, measured
from vse_pipe.export.export import export_vectors
from vse_pipe.project.params.schema import EvaluateParams

Scores = dict[str, dict[str, float]]
Grades = dict[str, dict[str, int]]


def drawn(seed: int, queries: int = 12, items: int = 40) -> tuple[Scores, Grades]:
    """Many ties, lists of different lengths, judged items that are in no list, queries without answers and without judgements.

    trec_eval orders answers of the same score by their names, the largest first. The names begin with 9 less the grade, so that
    by its rule the worst comes first, as by ours; they tell this program nothing, which does not read them.
    """
    rng = np.random.default_rng(seed)
    run: Scores = {}
    qrels: Grades = {}
    for query in range(queries):
        grades = rng.choice([0, 0, 0, 0, 1, 2, 3], items)
        names = [f"{9 - grade}-{number}" for number, grade in enumerate(grades)]
        listed = rng.permutation(items)[: rng.integers(0 if seed % 5 == 0 else 1, items + 1)]
        if len(listed):
            run[f"q{query}"] = {names[item]: float(rng.integers(-3, 4)) / 4 for item in listed}
        judged = rng.permutation(items)[: rng.integers(1, items)]
        if query:
            chosen = {*judged.tolist(), *np.flatnonzero(grades)}
            qrels[f"q{query}"] = {names[item]: int(grades[item]) for item in chosen}
    return run, qrels


def flat(nested: dict[str, dict]) -> list[tuple]:
    return [(query, item, value) for query, found in nested.items() for item, value in found.items()]


def write(folder: Path, run: Scores, qrels: Grades) -> tuple[Path, Path]:
    lines = [f"{query} Q0 {item} {rank} {score} made-up\n" for rank, (query, item, score) in enumerate(flat(run))]
    (folder / "run.txt").write_text("".join(lines))
    (folder / "qrels.txt").write_text("".join(f"{query} 0 {item} {grade}\n" for query, item, grade in flat(qrels)))
    return folder / "run.txt", folder / "qrels.txt"


PARAMS = EvaluateParams(recall=[3], ndcg=[5])
MEASURES = {"map": naive.average_precision, "map@r": naive.average_precision_at_r, "r_precision": naive.r_precision}


@pytest.mark.parametrize("ties", ["pessimistic", "optimistic"])
@pytest.mark.parametrize("above", [0.0, 1.0])
def test_against_loops(tmp_path, ties, above):
    run, qrels = drawn(5)
    params = PARAMS.model_copy(update={"ties": ties, "correct_above": above})
    found = evaluate_trec(*write(tmp_path, run, qrels), params)
    right = {query: grades for query, grades in qrels.items() if max(grades.values()) > above}
    places = {query: naive.places(run.get(query, {}), grades, above, ties) for query, grades in right.items()}
    assert found["queries"] == len(right)
    assert found["unanswered"] == len(set(right) - set(run))
    assert found["unjudged"] == len(set(run) - set(right)) > 0
    for k in (1, 3, 5, 10):
        assert found[f"r@{k}"] == pytest.approx(100 * np.mean([one[0] < k for one in places.values()]), abs=1e-5)
    for name, measure in MEASURES.items():
        assert found[name] == pytest.approx(100 * np.mean([measure(one) for one in places.values()]), abs=1e-5), name
    for k in (5, 10):
        wanted = [naive.graded_ndcg(run.get(query, {}), grades, k, ties) for query, grades in right.items()]
        assert found[f"graded_ndcg@{k}"] == pytest.approx(100 * np.mean(wanted), abs=1e-5)


def of_queries(run, qrels, above: float = 0.0) -> dict[str, dict[str, float]]:
    """By our name of a measure and by query, 0 to 1."""
    given = ((run, "score"), (qrels, "relevance"))
    frames = (pd.DataFrame(flat(of), columns=["query", "item", name]) for of, name in given)
    _, found = measured(*frames, EvaluateParams(ndcg=[5], correct_above=above), "made up")
    table = found.set_index("query")
    table["mrr"] = 1 / table["rank"]
    return {name: table[name].astype(float).to_dict() for name in table.columns}


def agrees(ours: dict[str, float], theirs: dict[str, float], what: object) -> None:
    """Of the queries that both have: theirs lacks those without an answer, ours those without a judgement."""
    theirs = {query: value for query, value in theirs.items() if query in ours}
    for query, value in theirs.items():
        assert ours[query] == pytest.approx(value, abs=1e-6), (what, query)
    for query in ours.keys() - theirs.keys():
        assert ours[query] == 0.0, (what, query)


def test_agreement_with_trec_eval():
    import pytrec_eval

    names = {"map": "ap", "recip_rank": "mrr", "Rprec": "r_precision", "success_5": "hit_5"}
    names |= {"ndcg_cut_5": "graded_ndcg_5", "ndcg_cut_10": "graded_ndcg_10"}
    for seed in range(10):
        run, qrels = drawn(seed)
        ours = of_queries(run, qrels)
        measures = {"map", "recip_rank", "Rprec", "success.5", "ndcg_cut.5,10"}
        theirs = pytrec_eval.RelevanceEvaluator(qrels, measures).evaluate(run)
        for name, own in names.items():
            agrees(ours[own], {query: of[name] for query, of in theirs.items()}, (seed, name))


@pytest.mark.parametrize(
    ("run", "qrels", "message"),
    [
        ("q 0 a 1 0.5\n", "q 0 a 1\n", r"run\.txt: 1 rows of .*; expected lines of query iteration item"),
        ("q 0 a 1 1 t\nq 0 a 2 1 t\n", "q 0 a 1\n", r"run\.txt: row 2: item a of query q is there more than once"),
        ("q 0 a 1 1 t\n", "q 0 a 1\nq 0 a -1\n", r"qrels\.txt: no item is correct"),
        ("p 0 a 1 1 t\n", "q 0 a 1\n", r"qrels\.txt: no query of the run has a correct item there"),
    ],
)
def test_files_that_are_no_runs(tmp_path, run, qrels, message):
    (tmp_path / "run.txt").write_text(run)
    (tmp_path / "qrels.txt").write_text(qrels)
    with pytest.raises(InputError, match=message):
        evaluate_trec(tmp_path / "run.txt", tmp_path / "qrels.txt", EvaluateParams())


def test_ids_that_look_like_a_header_or_a_missing_value_are_ids(tmp_path):
    (tmp_path / "run.txt").write_text("query Q0 NA 1 2 score\nquery\tQ0\titem\t2\t1\tscore\n")
    (tmp_path / "qrels.txt").write_text("query 0 NA 0\nquery 0 item 1\n")
    found = evaluate_trec(tmp_path / "run.txt", tmp_path / "qrels.txt", EvaluateParams())
    assert (found["queries"], found["mrr"]) == (1, 50.0)


def by_files(folder, params: EvaluateParams, **more) -> dict:
    files = replace(write_vectors(SAMPLE, folder), **more)
    return files.ranked(["nns"], params)["nns"]


SAMPLE, QUICK = sample(), EvaluateParams(resamples=0)


def test_an_export_of_image_queries_is_measured_from_its_own_judgements(tmp_path):
    files, out = write_vectors(SAMPLE, tmp_path), tmp_path / "out"
    for direction in DIRECTIONS:
        export_vectors(files.sources(QUICK), "nns", QUICK, {}, "trec", direction, out, "cpu")
        wanted = by_files(tmp_path, QUICK)
        found = by_files(tmp_path, QUICK, qrels=str(out / "qrels.txt"))
        assert [found[way]["r@1"] for way in DIRECTIONS] == [wanted[way]["r@1"] for way in DIRECTIONS]
        judged = by_files(tmp_path, QUICK.model_copy(update={"judgements": str(out / "qrels.txt")}))["judged"]
        assert judged[direction]["r@1"] == wanted[direction]["r@1"]
        assert evaluate_trec(out / "run.txt", out / "qrels.txt", QUICK)["r@1"] == pytest.approx(
            wanted[direction]["r@1"]
        )
