"""How far a review is, how far people agree: ``vse-pipe review --summary``, ``--auto``."""

from itertools import combinations
from pathlib import Path

import pandas as pd

from vse_pipe.audit.review.ledger import VERDICTS, Ledger
from vse_pipe.core import console
from vse_pipe.report.formatting import plural


def summary(ledger: Ledger) -> dict:
    """Decisions that hold, contradictions, and agreement of the reviewers."""
    verdicts = ledger.read()
    standing, people = verdicts.standing, verdicts.people
    columns = {"findings": standing.notna(), "decided": standing != ""}
    columns |= {name: standing == name for name in VERDICTS}
    columns["contradictions"] = people.mask(people == "").nunique(axis=1) > 1
    table = pd.DataFrame(columns).groupby(ledger.rows["kind"]).sum().loc[ledger.kinds]
    return {
        "kinds": table.to_dict("index"),
        **table.sum().to_dict(),
        "reviewers": (verdicts.reviewers != "").sum().to_dict(),
        "agreement": [row for pair in combinations(people, 2) if (row := _agreement(people[list(pair)]))],
    }


def _agreement(verdicts: pd.DataFrame) -> dict | None:
    """How many findings two people decided, how many of them equally, and Cohen's kappa, None where
    chance alone agrees always; None without common findings."""
    from sklearn.metrics import cohen_kappa_score

    both = verdicts[(verdicts != "").all(axis=1)]
    if both.empty:
        return None
    first, second = both.iloc[:, 0], both.iloc[:, 1]
    kappa = None if both.stack().nunique() == 1 else float(cohen_kappa_score(first, second))
    return {"reviewers": [*both], "both": len(both), "equal": int((first == second).sum()), "kappa": kappa}


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
