"""How far a review is, how far its people agree, and the tables of ``vse-pipe review --summary`` and ``--auto``."""

from itertools import combinations
from pathlib import Path

import numpy as np

from vse_pipe.audit.review.findings import ReviewTable
from vse_pipe.audit.review.ledger import VERDICTS, Ledger
from vse_pipe.core import console
from vse_pipe.core.console import document, line, ruled
from vse_pipe.report.formatting import plural


def kappa(first: np.ndarray, second: np.ndarray) -> float | None:
    """Cohen's kappa of two lists of codes; None where chance alone agrees always (both know one answer).

    Cohen, A coefficient of agreement for nominal scales (1960); as sklearn.metrics.cohen_kappa_score, which gives NaN
    for that case."""
    if not len(first):
        return None
    codes = np.arange(len(VERDICTS))
    by_chance = float(((first[:, None] == codes).mean(axis=0) * (second[:, None] == codes).mean(axis=0)).sum())
    return None if by_chance == 1 else (float((first == second).mean()) - by_chance) / (1 - by_chance)


def agreement(ledger: Ledger) -> list[dict]:
    """For each two people with common findings: their names, how many those are, how many are equal, and kappa."""
    pairs = []
    for one, another in combinations(ledger.people, 2):
        first, second = ledger.reviewers[one], ledger.reviewers[another]
        both = (first > 0) & (second > 0)
        if both.any():
            equal = int((first == second)[both].sum())
            figures = {"both": int(both.sum()), "equal": equal, "kappa": kappa(first[both], second[both])}
            pairs.append({"reviewers": [one, another], **figures})
    return pairs


def progress(table: ReviewTable, decided: np.ndarray) -> dict:
    """Numbers of findings and of decided ones. decided: bool."""
    masks = {kind: table.of_kind(kind) for kind in table.kinds}
    by_kind = {kind: {"decided": int(decided[mask].sum()), "total": int(mask.sum())} for kind, mask in masks.items()}
    return {"decided": int(decided.sum()), "total": len(table), "kinds": by_kind}


def summary(ledger: Ledger) -> dict:
    """Decisions that hold, by kind; contradictions between people; decisions and agreement of the reviewers."""
    codes = ledger.standing
    differ = np.zeros(len(codes), bool)
    for name in ledger.people:
        differ |= ledger.contradicted(name)
    rows = {}
    for kind in ledger.table.kinds:
        mine = ledger.table.of_kind(kind)
        counts = {verdict: int((codes[mine] == code).sum()) for code, verdict in enumerate(VERDICTS) if code}
        rows[kind] = {"findings": int(mine.sum()), "decided": sum(counts.values()), **counts}
        rows[kind]["contradictions"] = int(differ[mine].sum())
    totals = {name: sum(row[name] for row in rows.values()) for name in next(iter(rows.values()))}
    counts = {name: int((codes > 0).sum()) for name, codes in sorted(ledger.reviewers.items())}
    return {"kinds": rows, **totals, "reviewers": counts, "agreement": agreement(ledger), "strangers": ledger.strangers}


def show_summary(figures: dict, as_json: bool) -> None:
    if as_json:
        return document(figures)
    columns = list(next(iter(figures["kinds"].values())))
    table = ruled()
    for name in ("kind", *columns):
        table.add_column(name, justify="left" if name == "kind" else "right")
    for kind, row in [*figures["kinds"].items(), ("all", figures)]:
        table.add_row(kind, *(f"{row[name]:,}" for name in columns))
    console.show(table)
    for name, count in figures["reviewers"].items():
        line(f"{name or '(no name)'}: {plural(count, 'decision')}")
    for pair in figures["agreement"]:
        names = " and ".join(name or "(no name)" for name in pair["reviewers"])
        value = "undefined, both gave one answer only" if pair["kappa"] is None else f"{pair['kappa']:.3f}"
        line(f"{names}: {pair['equal']} of {pair['both']} equal, kappa {value}")
    return None


def show_automatic(counts: dict[str, int], least: float, path: Path, as_json: bool) -> None:
    """counts: of ``ledger.decide``."""
    by_kind = {kind: count for kind, count in counts.items() if kind}
    if as_json:
        return document({"decided": by_kind, "without_proposal": counts[""], "least": least, "decisions": str(path)})
    for kind, count in by_kind.items():
        line(f"{kind}: {count:,} dropped" if kind == "pair" else f"{kind}: {plural(count, 'proposal')} taken")
    if counts[""]:
        line(f"{plural(counts[''], 'finding')} with a doubt of {least:g} or more stay undecided: they have no proposal")
    return None
