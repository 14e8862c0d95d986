"""A TREC run: metrics.json, and queries.parquet of queries with a correct item."""

from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from vse_pipe.artifacts.evaluation import JUDGED_SCHEMA, METRICS, rounded, with_further
from vse_pipe.core import console, locks, memory, tables
from vse_pipe.core.console import document, line, ruled
from vse_pipe.core.errors import InputError
from vse_pipe.core.files import whole_folder, write_json
from vse_pipe.evaluate import text_tables
from vse_pipe.evaluate.stage import require_free
from vse_pipe.project.params.schema import EvaluateParams
from vse_pipe.ranking import graded
from vse_pipe.ranking.evaluation import Depths, graded_columns, means

QUERIES = "queries.parquet"
FILES = (METRICS, QUERIES)
SCHEMA = tables.schema(
    "answered 1",
    tables.field("query", pa.string(), "as the judgements name it"),
    # The run may have none of the correct items of a query.
    *[field.with_nullable(field.name == "rank") for field in list(JUDGED_SCHEMA)[3:]],
)


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


def evaluate_trec(run: Path, qrels: Path, params: EvaluateParams, out: Path | None = None) -> dict:
    """The metrics document; ``out`` receives it with queries.parquet.

    run: lines ``query Q0 item rank score tag``; only scores count, as in trec_eval, and equal
    scores are ties. qrels: lines ``query 0 item relevance``; a pair is correct with a mean
    relevance above ``params.correct_above``. A query with correct items and no answer counts as a
    miss; queries without a correct item are left out. Raises InputError for files of another form,
    a run with repeated pairs, or files without a common query."""
    if out is not None:
        require_free(out, METRICS, "an evaluation of a TREC run")
    with memory.limit(params.memory, "evaluate.memory"):
        answers, judged = _read(run, _RUN, "score"), _read(qrels, _QRELS, "relevance")
    repeated = np.flatnonzero(answers.duplicated(_PAIR))
    if len(repeated):
        row = answers.iloc[repeated[0]]
        raise InputError(
            f"{run}: row {repeated[0] + 1}: item {row['item']} of query {row['query']} is there more than once"
        )
    judged = judged.groupby(_PAIR, sort=False, as_index=False)["relevance"].mean()
    metrics, table = measured(answers, judged, params, str(qrels))
    metrics = {"run": str(run), "qrels": str(qrels), "ties": params.ties, **metrics}
    with locks.claim(out) if out else nullcontext():
        if out:
            with whole_folder(out, FILES) as folder:
                write_json(folder / METRICS, metrics)
                tables.write(folder / QUERIES, table, with_further(SCHEMA, table.column_names), {})
    return metrics


def _read(path: Path, names: tuple[str, ...], number: str) -> pd.DataFrame:
    table = text_tables.read(path, names, bare=[names], headed=False)
    table[number] = text_tables.numbers(path, table, number)
    return table[[*_PAIR, number]]


def measured(answers: pd.DataFrame, judged: pd.DataFrame, params: EvaluateParams, qrels: str) -> tuple[dict, pa.Table]:
    """The figures, and a row a query. answers: query, item, score. judged: relevance."""
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
    ranks = pa.array(columns["rank"], mask=np.isinf(columns["rank"]))
    table = pa.table({"query": pa.array(names, pa.string()), **columns, "rank": ranks})
    return counts | rounded(means(columns)), table
