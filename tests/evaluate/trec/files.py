"""Runs and judgements of TREC, made up."""

from pathlib import Path

import numpy as np

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
            qrels[f"q{query}"] = {
                names[item]: int(grades[item]) for item in {*judged.tolist(), *np.flatnonzero(grades)}
            }
    return run, qrels


def write(folder: Path, run: Scores, qrels: Grades) -> tuple[Path, Path]:
    answers = [(query, item, score) for query, found in run.items() for item, score in found.items()]
    lines = [f"{query} Q0 {item} {rank} {score} made-up\n" for rank, (query, item, score) in enumerate(answers)]
    (folder / "run.txt").write_text("".join(lines))
    judged = [f"{query} 0 {item} {grade}\n" for query, found in qrels.items() for item, grade in found.items()]
    (folder / "qrels.txt").write_text("".join(judged))
    return folder / "run.txt", folder / "qrels.txt"
