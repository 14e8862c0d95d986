"""How far a review is, how far its people agree, and the tables of ``vse-pipe review --summary`` and ``--auto``."""

from itertools import combinations
from pathlib import Path

import pandas as pd

from vse_pipe.audit.review.ledger import VERDICTS, Ledger, Verdicts
from vse_pipe.core import console
from vse_pipe.report.formatting import plural


def kappa(first: pd.Series, second: pd.Series) -> float | None:
    """Cohen's kappa of two lists of answers; None where chance alone agrees always (both know one answer).

    Cohen, A coefficient of agreement for nominal scales (1960); as sklearn.metrics.cohen_kappa_score, which gives NaN
    for that case and needs a second to be imported."""
    by_chance = float((first.value_counts(normalize=True) * second.value_counts(normalize=True)).sum())
    return None if by_chance == 1 else (float((first == second).mean()) - by_chance) / (1 - by_chance)


def agreement(verdicts: Verdicts) -> list[dict]:
    """For each two people with common findings: their names, how many those are, how many are equal, and kappa."""
    rows = []
    for names in combinations(verdicts.people, 2):
        both = verdicts.people[list(names)]
        both = both[(both != "").all(axis=1)]
        if len(both):
            first, second = both[names[0]], both[names[1]]
            equal = int((first == second).sum())
            rows.append({"reviewers": [*names], "both": len(both), "equal": equal, "kappa": kappa(first, second)})
    return rows


def progress(ledger: Ledger, verdicts: Verdicts) -> dict:
    """Numbers of findings and of decided ones."""
    is_decided = verdicts.standing != ""
    of_kinds = is_decided.groupby(ledger.rows["kind"]).agg(decided="sum", total="size").to_dict("index")
    return {"decided": int(is_decided.sum()), "total": len(is_decided), "kinds": of_kinds}


def summary(ledger: Ledger) -> dict:
    """Decisions that hold, by kind; contradictions between people; decisions and agreement of the reviewers."""
    verdicts = ledger.read()
    standing = verdicts.standing
    columns = {"findings": pd.Series(True, standing.index), "decided": standing != ""}
    columns |= {name: standing == name for name in VERDICTS}
    differ = pd.DataFrame({name: verdicts.contradicted(name) for name in verdicts.people}, standing.index).any(axis=1)
    table = pd.DataFrame({**columns, "contradictions": differ}).groupby(ledger.rows["kind"]).sum().loc[ledger.kinds]
    counts = (verdicts.reviewers != "").sum().to_dict()
    return {
        "kinds": table.to_dict("index"),
        **table.sum().to_dict(),
        "reviewers": counts,
        "agreement": agreement(verdicts),
        "strangers": verdicts.strangers,
    }


def show_summary(figures: dict, as_json: bool) -> None:
    if as_json:
        return console.document(figures)
    columns = list(next(iter(figures["kinds"].values())))
    table = console.ruled()
    for name in ("kind", *columns):
        table.add_column(name, justify="left" if name == "kind" else "right")
    for kind, row in [*figures["kinds"].items(), ("all", figures)]:
        table.add_row(kind, *(f"{row[name]:,}" for name in columns))
    console.show(table)
    for name, count in figures["reviewers"].items():
        console.line(f"{name or '(no name)'}: {plural(count, 'decision')}")
    for pair in figures["agreement"]:
        names = " and ".join(name or "(no name)" for name in pair["reviewers"])
        value = "undefined, both gave one answer only" if pair["kappa"] is None else f"{pair['kappa']:.3f}"
        console.line(f"{names}: {pair['equal']} of {pair['both']} equal, kappa {value}")
    return None


def show_automatic(counts: dict[str, int], least: float, path: Path, as_json: bool) -> None:
    """counts: of ``ledger.decide``."""
    by_kind = {kind: count for kind, count in counts.items() if kind}
    if as_json:
        document = {"decided": by_kind, "without_proposal": counts[""], "least": least, "decisions": str(path)}
        return console.document(document)
    for kind, count in by_kind.items():
        console.line(f"{kind}: {count:,} dropped" if kind == "pair" else f"{kind}: {plural(count, 'proposal')} taken")
    if counts[""]:
        console.line(f"{plural(counts[''], 'finding')} with a doubt of {least:g} or more have no proposal")
    return None
