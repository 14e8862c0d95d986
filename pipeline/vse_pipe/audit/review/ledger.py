"""The decisions of every reviewer on the findings of a table, as decisions.csv has them."""

import os
import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd

from vse_pipe.artifacts import decisions
from vse_pipe.artifacts.catalogue import Catalogue
from vse_pipe.audit.review import findings
from vse_pipe.audit.review.findings import ReviewTable
from vse_pipe.core.console import say, warn
from vse_pipe.core.errors import PipelineError, UsageError
from vse_pipe.report.formatting import plural

# What a code in the arrays means: the place in this list. 0: undecided.
VERDICTS = ("", "keep", "drop", "take", "weight")


@dataclass
class Ledger:
    """Decisions on the findings ``table`` in the file ``path``, which other processes may extend meanwhile.

    reviewers: the last decision of each on each finding, int8, of VERDICTS; standing: the decision that holds, whoever
    made it; strangers: decisions on findings that the table does not have. lock: to hold while several values are read.
    """

    path: Path
    table: ReviewTable
    prepared: Catalogue
    reviewers: dict[str, np.ndarray] = field(default_factory=dict)
    standing: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int8))
    strangers: int = 0
    lock: threading.RLock = field(default_factory=threading.RLock)

    def refresh(self) -> decisions.InForce | None:
        """Reads the file anew, if there is one. Raises as ``decisions.read``."""
        with self.lock:
            self.reviewers, self.standing, self.strangers = {}, np.zeros(len(self.table), np.int8), 0
            if not self.path.exists():
                return None
            rows = decisions.read(self.path)
            is_decided = rows["decision"] != ""
            holding = decisions.in_force(rows, is_decided, self.prepared.images, self.prepared.captions)
            self.standing = self._codes(holding.rows)
            self.reviewers = {str(by): self._codes(own) for by, own in holding.by_person.groupby("by")}
            self.strangers = int((self.table.places(holding.rows) < 0).sum())
            return holding

    def _codes(self, rows: pd.DataFrame) -> np.ndarray:
        verdicts = rows["action"].where(rows["action"].isin(VERDICTS), "take")
        places = self.table.places(rows)
        codes = np.zeros(len(self.table), np.int8)
        codes[places[places >= 0]] = pd.Index(VERDICTS).get_indexer(verdicts)[places >= 0]
        return codes

    def of(self, person: str) -> np.ndarray:
        """The codes of a reviewer."""
        return self.reviewers.get(person, np.zeros(len(self.table), np.int8))

    @property
    def people(self) -> list[str]:
        """Names of all reviewers that are persons."""
        return sorted(name for name in self.reviewers if not is_automatic(name))

    def others(self, person: str, place: int) -> list[dict[str, str]]:
        """What others decided on a finding; before an own decision the program alone, so that people stay independent."""
        has_own = self.of(person)[place] > 0
        named = [(name, VERDICTS[codes[place]]) for name, codes in sorted(self.reviewers.items()) if name != person]
        seen = [(name, verdict) for name, verdict in named if verdict and (has_own or is_automatic(name))]
        return [{"by": name, "decision": verdict} for name, verdict in seen]

    def contradicted(self, person: str) -> np.ndarray:
        """bool, the findings on which ``person`` and another decided differently."""
        own = self.of(person)
        differ = np.zeros(len(self.table), bool)
        for name in self.people:
            differ |= (self.reviewers[name] > 0) & (self.reviewers[name] != own)
        return differ & (own > 0)

    def record(self, places: Sequence[int], decision: str, person: str) -> None:
        """Appends a row for each place, and returns when they are on the disk.

        Raises UsageError for a decision that a finding does not have, OSError where the file cannot be written.
        """
        rows = self.table.rows.loc[list(places)]
        _check(rows, decision)
        rows = rows.assign(decision=decision, by=person, at=datetime.now(UTC).strftime(decisions.TIME))
        rows["decision"] = rows["decision"].mask((rows["proposal"] == "drop") & (decision == "take"), "drop")
        with self.lock:
            decisions.append(self.path, rows)
            self.refresh()


def open_ledger(
    dataset: str, noise: str | None, findings_file: Path | None, path: Path | None
) -> tuple[Ledger, Catalogue]:
    """The decisions on the findings of an audit, and the data set. Raises InputError where a file is missing or cannot be
    read."""
    source = findings.find(dataset, noise, findings_file)
    prepared = findings.reviewed(dataset, noise)
    ledger = Ledger(path or Path(decisions.NAME), findings.read(source, prepared), prepared)
    if ledger.path.is_dir():
        raise PipelineError(f"{ledger.path} is a folder; name another file with --decisions")
    if (holding := ledger.refresh()) is None:
        return ledger, prepared
    for sentence in decisions.notes(replace(holding, gone=[], by_person=holding.by_person[:0])):
        warn(f"{ledger.path}: {sentence}")
    if holding.gone:
        say(
            f"{ledger.path}: {plural(len(holding.gone), 'decision')} on what is not there now; `prepare` removes what was dropped"
        )
    if ledger.strangers:
        say(
            f"{ledger.path}: {plural(ledger.strangers, 'decision')} on findings that this audit does not have; they stay there"
        )
    return ledger, prepared


def _check(rows: pd.DataFrame, decision: str) -> None:
    wrong = {"take": rows["proposal"] == "", "weight": (rows["kind"] != "pair") | rows["doubt"].isna()}
    if decision in wrong and wrong[decision].any():
        row = rows[wrong[decision]].iloc[0]
        if decision == "take":
            raise UsageError(f"{row['kind']} {row['id']} has no proposal to take; keep or drop it")
        raise UsageError(f"{row['kind']} {row['id']} cannot be weighted; only a pair with a doubt can")


def is_automatic(person: str) -> bool:
    return person.partition(" ")[0] == decisions.AUTO


def check_writable(path: Path) -> None:
    """Raises PipelineError where ``path`` cannot be written, before anybody decides anything."""
    folder = next(folder for folder in path.absolute().parents if folder.exists())
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise PipelineError(f"{path} cannot be written; change its rights, or name another file with --decisions")


def decide(ledger: Ledger, least: float, kinds: Collection[str] = ()) -> dict[str, int]:
    """Takes the proposal of each finding with a doubt of ``least`` or more on which nobody's decision holds. Pairs are
    dropped: their doubt says that they are wrong, not that the proposed partner is right. kinds: only these, if any.

    Returns the numbers by kind, and under ``""`` the findings that have no proposal and stay undecided."""
    rows = ledger.table.rows
    sure = (rows["doubt"].fillna(-1.0) >= least).to_numpy() & (ledger.standing == 0)
    if kinds:
        sure &= rows["kind"].isin(list(kinds)).to_numpy()
    proposed = (rows["proposal"] != "").to_numpy()
    places = np.flatnonzero(sure & proposed)
    is_pair = (rows["kind"].iloc[places] == "pair").to_numpy()
    for decision, chosen in (("drop", places[is_pair]), ("take", places[~is_pair])):
        if len(chosen):
            ledger.record(chosen.tolist(), decision, f"{decisions.AUTO} {least:g}")
    counts = rows["kind"].iloc[places].value_counts()
    return {kind: int(counts.get(kind, 0)) for kind in ledger.table.kinds} | {"": int((sure & ~proposed).sum())}
