"""Figures of a TREC run."""

from pathlib import Path

import numpy as np
import pandas as pd

from vse_pipe.artifacts.evaluation import rounded
from vse_pipe.core import console, memory
from vse_pipe.core.console import document, line, ruled
from vse_pipe.core.errors import InputError
from vse_pipe.evaluate import text_tables
from vse_pipe.project.params.schema import EvaluateParams
from vse_pipe.ranking import graded
from vse_pipe.ranking.outcomes import Depths, graded_columns, means


def show(metrics: dict, as_json: bool) -> None:
    if as_json:
        document(metrics)
        return
    table = ruled()
    table.add_column("measure")
    table.add_column("%", justify="right", no_wrap=True)
    for name, value in metrics.items():
        if isinstance(value, float):
            table.add_row(name, f"{value:.2f}")
    console.show(table)
    line(
        f"{metrics['run']}: {metrics['queries']} queries, of which {metrics['unanswered']} have no answer and count as "
        f"nothing found; {metrics['unjudged']} further ones have no correct item in {metrics['qrels']}"
    )


_RUN = ("query", "iteration", "item", "rank", "score", "tag")
_QRELS = ("query", "iteration", "item", "relevance")
_PAIR = ["query", "item"]


def evaluate_trec(run: Path, qrels: Path, params: EvaluateParams) -> dict:
    """The metrics document.

    run: lines ``query Q0 item rank score tag``; only scores count, as in trec_eval, and equal
    scores are ties. qrels: lines ``query 0 item relevance``; a pair is correct with a mean
    relevance above ``params.correct_above``. A query with correct items and no answer counts as a
    miss; queries without a correct item are left out. Raises InputError for files of another form,
    a run with repeated pairs, or files without a common query."""
    with memory.limit(params.memory, "evaluate.memory"):
        answers, judged = _read(run, _RUN, "score"), _read(qrels, _QRELS, "relevance")
    repeated = np.flatnonzero(answers.duplicated(_PAIR))
    if len(repeated):
        row = answers.iloc[repeated[0]]
        raise InputError(
            f"{run}: row {repeated[0] + 1}: item {row['item']} of query {row['query']} is there more than once"
        )
    judged = judged.groupby(_PAIR, sort=False, as_index=False)["relevance"].mean()
    figures, _ = measured(answers, judged, params, str(qrels))
    return {"run": str(run), "qrels": str(qrels), "ties": params.ties, **figures}


def _read(path: Path, names: tuple[str, ...], number: str) -> pd.DataFrame:
    table = text_tables.read(path, names, bare=[names], headed=False)
    table[number] = text_tables.numbers(path, table, number)
    return table[[*_PAIR, number]]


def measured(
    answers: pd.DataFrame, judged: pd.DataFrame, params: EvaluateParams, qrels: str
) -> tuple[dict, pd.DataFrame]:
    """The figures, and a row for each query that has a correct item. answers: query, item, score. judged: relevance."""
    names = pd.Index(judged.loc[judged["relevance"] > params.correct_above, "query"].unique())
    judged, matched = (table[table["query"].isin(names)] for table in (judged, answers))
    if not len(names) or matched.empty:
        problem = "no query of the run has a correct item there" if len(names) else "no item is correct"
        raise InputError(f"{qrels}: {problem}")
    pairs = matched.merge(judged, on=_PAIR, how="outer")
    queries, grades = names.get_indexer(pairs["query"]).astype(np.int64), pairs["relevance"].fillna(0.0).to_numpy(float)
    scores = pairs["score"].to_numpy(float)
    correct, good = (
        graded.listed(queries, scores, grades, above, params.ties) for above in (params.correct_above, 0.0)
    )
    columns = graded_columns(correct, good, Depths.including(params.recall, params.ndcg))
    counts = {
        "queries": len(names),
        "unanswered": len(names) - matched["query"].nunique(),
        "unjudged": len(pd.Index(answers["query"].unique()).difference(names)),
    }
    return counts | rounded(means(columns)), pd.DataFrame({"query": names, **columns})
