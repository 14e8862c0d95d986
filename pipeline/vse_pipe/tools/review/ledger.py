"""The decisions of every reviewer on the findings of a table, as decisions.csv has them."""

import os
import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd

from vse_pipe.artifacts import decisions
from vse_pipe.core.console import say
from vse_pipe.core.errors import InputError, PipelineError, UsageError
from vse_pipe.report.formatting import plural
from vse_pipe.tools.review import findings
from vse_pipe.tools.review.findings import Prepared, ReviewTable

# What a code in the arrays means: the place in this list. 0: undecided.
VERDICTS = ("", "keep", "drop", "take", "weight")
_COLUMNS = [name for name in decisions.COLUMNS if name not in ("decision", "by", "at")]


@dataclass
class Reviewer:
    """The last decision of a person on each finding. codes: int8, of VERDICTS; times: int64, seconds since 1970."""

    codes: np.ndarray
    times: np.ndarray


@dataclass
class Ledger:
    """Decisions on ``table`` in the file ``path``, which other processes may extend meanwhile. For several threads.

    header: the first line of a new file. strangers: decisions on findings that the table does not have. lock: to hold
    while several values are read.
    """

    path: Path
    table: ReviewTable
    header: str
    reviewers: dict[str, Reviewer] = field(default_factory=dict)
    strangers: int = 0
    _content: bytes = b""
    _state: tuple = ()
    lock: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        self._restart()

    def refresh(self) -> None:
        """Reads what was added to the file since the last call. Raises as ``decisions.read``."""
        with self.lock:
            if not self.path.is_file():
                return self._restart()
            status = self.path.stat()
            state = status.st_ino, status.st_size, status.st_mtime_ns
            if state == self._state:
                return None
            content = decisions.content_of(self.path)
            if self._content.startswith(b"# ") and content.startswith(self._content):
                head = b"".join(content.splitlines(keepends=True)[:2])
                try:
                    rows = decisions.parse(self.path, head + content[len(self._content) :])
                except InputError:
                    decisions.parse(self.path, content)  # it names the line of the whole file
                    raise
                self._add(rows)
            else:
                self._restart()
                self._add(decisions.parse(self.path, content))
            # An incomplete last row is read again when it is complete.
            self._content = content[: content.rfind(b"\n") + 1]
            self._state = state
            return None

    def of(self, person: str) -> Reviewer:
        if person not in self.reviewers:
            count = len(self.table)
            self.reviewers[person] = Reviewer(np.zeros(count, np.int8), np.full(count, -1))
        return self.reviewers[person]

    @property
    def people(self) -> list[str]:
        """Names of all reviewers that are persons."""
        return sorted(name for name in self.reviewers if not is_automatic(name))

    def others(self, person: str, place: int) -> list[dict[str, str]]:
        """What others decided on a finding; before an own decision the program alone, so that people stay independent."""
        has_own = self.of(person).codes[place] > 0
        named = [(name, VERDICTS[one.codes[place]]) for name, one in sorted(self.reviewers.items()) if name != person]
        seen = [(name, verdict) for name, verdict in named if verdict and (has_own or is_automatic(name))]
        return [{"by": name, "decision": verdict} for name, verdict in seen]

    def contradicted(self, person: str) -> np.ndarray:
        """bool, the findings on which ``person`` and another decided differently."""
        codes_of_person = self.of(person).codes
        differ = np.zeros(len(self.table), bool)
        for name in self.people:
            codes = self.reviewers[name].codes
            differ |= (codes > 0) & (codes != codes_of_person)
        return differ & (codes_of_person > 0)

    def record(self, places: Sequence[int], decision: str, person: str) -> None:
        """Appends a row for each place, and returns when they are on the disk.

        Raises UsageError for a decision that a finding does not have, OSError where the file cannot be written.
        """
        rows = self.table.rows.loc[list(places), _COLUMNS]
        _check(rows, decision)
        with self.lock:
            # Later than every decision on it, also where another machine's clock is ahead.
            earlier_times = [one.times[list(places)] for one in self.reviewers.values()]
            now = np.maximum.reduce([np.full(len(places), int(datetime.now(UTC).timestamp())), *earlier_times])
            times = pd.to_datetime(now, unit="s").strftime(decisions.TIME)
            proposes_drop = (rows["proposal"] == "drop") & (decision == "take")
            rows = rows.assign(decision=np.where(proposes_drop, "drop", decision), by=person, at=times)
            decisions.append(self.path, rows, self.header)
            self.refresh()

    def _restart(self) -> None:
        self.reviewers, self.strangers, self._content, self._state = {}, 0, b"", ()
        self._last = np.full(len(self.table), -1)  # time of the last row of each finding

    def _add(self, rows: pd.DataFrame) -> None:
        """For each finding and person the row with the latest time counts; of equal times, and without one, the last."""
        rows = rows[rows["decision"] != ""]
        places = self.table.places(rows)
        self.strangers += int((places < 0).sum())
        rows = rows.assign(place=places)[places >= 0]
        if not len(rows):
            return
        moments = pd.to_datetime(rows["at"].where(rows["at"] != ""), utc=True, format="ISO8601")
        seconds = pd.Series(moments.astype("datetime64[s, UTC]").astype("int64"), rows.index).where(moments.notna())
        row_places = rows["place"].to_numpy()
        # As for ``decisions.latest``, a row without a time is as late as the row before it.
        seconds = (
            seconds.groupby(row_places).ffill().fillna(pd.Series(self._last[row_places], rows.index)).astype(np.int64)
        )
        self._last[row_places] = seconds  # of equal places numpy takes the last
        drops = (rows["decision"] == "take") & (rows["proposal"] == "drop")
        verdicts = rows["decision"].mask(drops, "drop").replace("undo", "")
        codes = pd.Index(VERDICTS).get_indexer(verdicts).astype(np.int8)
        rows = rows.assign(seconds=seconds, code=codes).sort_values("seconds", kind="stable")
        for person, mine in rows.drop_duplicates(["place", "by"], keep="last").groupby("by"):
            reviewer, row_places = self.of(str(person)), mine["place"].to_numpy()
            times = mine["seconds"].to_numpy()
            later = times >= reviewer.times[row_places]
            reviewer.times[row_places[later]] = times[later]
            reviewer.codes[row_places[later]] = mine["code"].to_numpy()[later]


def open_ledger(
    dataset: str, noise: str | None, findings_file: Path | None, path: Path | None
) -> tuple[Ledger, Prepared]:
    """The decisions on the findings of an audit, and the data set. Raises InputError where a file is missing or belongs to
    another data set."""
    prepared = Prepared.read(dataset)
    table = findings.read(findings.find(dataset, noise, findings_file), prepared)
    ledger = Ledger(path or Path(decisions.NAME), table, prepared.header)
    if ledger.path.is_dir():
        raise PipelineError(f"{ledger.path} is a folder; name another file with --decisions")
    if ledger.path.is_file():
        rows = prepared.matched(decisions.latest(decisions.read(ledger.path)))
        if lost := len(rows.attrs["lost"]):
            say(
                f"{ledger.path}: {plural(lost, 'decision')} on what is not there now; `prepare` removes what was dropped"
            )
    ledger.refresh()
    if ledger.strangers:
        say(
            f"{ledger.path}: {plural(ledger.strangers, 'row')} on findings that this audit does not have; they stay there"
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


def standing_codes(ledger: Ledger) -> np.ndarray:
    """int8, the code of the decision that holds for each finding, whoever made it."""
    codes = np.zeros(len(ledger.table), np.int8)
    if not ledger.path.is_file():
        return codes
    rows = decisions.latest(decisions.read(ledger.path))
    verdicts = rows["decision"].mask((rows["decision"] == "take") & (rows["proposal"] == "drop"), "drop")
    places = ledger.table.places(rows)
    codes[places[places >= 0]] = pd.Index(VERDICTS).get_indexer(verdicts)[places >= 0]
    return codes


def decide(ledger: Ledger, least: float, kinds: Collection[str] = ()) -> dict[str, int]:
    """Takes the proposal of each finding with a doubt of ``least`` or more on which nobody's decision holds. Pairs are
    dropped: their doubt says that they are wrong, not that the proposed partner is right. kinds: only these, if any.

    Returns the numbers by kind, and under ``""`` the findings that have no proposal and stay undecided."""
    rows = ledger.table.rows
    sure = (rows["doubt"].fillna(-1.0) >= least).to_numpy() & (standing_codes(ledger) == 0)
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
