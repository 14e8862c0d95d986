"""The findings of an audit in the order of a review, and the decisions of every reviewer on them,
as decisions.csv has them."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd

from vse_pipe.artifacts import decisions, identity, pairs
from vse_pipe.artifacts.catalogue import Catalogue
from vse_pipe.core.console import warn
from vse_pipe.core.errors import InputError, PipelineError, UsageError
from vse_pipe.core.files import require
from vse_pipe.project import paths
from vse_pipe.report.formatting import plural

VERDICTS = ("keep", "drop", "take", "weight")
_TEXTS = ["kind", "why", "file", "caption", "other_file", "other_caption"]


class Verdicts:
    """What a file of decisions says of findings.

    reviewers: a column for each reviewer with the last decision on each finding, of VERDICTS, empty
    without one; people: those that are persons; standing: the decision that holds, whoever made
    it."""

    def __init__(self, findings: pd.Index, holding: decisions.InForce) -> None:
        by_person = holding.by_person.groupby("by")
        self.reviewers = pd.DataFrame({name: _verdicts(rows, findings) for name, rows in by_person}, findings)
        self.people = self.reviewers[[name for name in self.reviewers if not is_automatic(name)]]
        self.standing = _verdicts(holding.rows, findings)

    def of(self, person: str) -> pd.Series:
        return self.reviewers.get(person, pd.Series("", self.standing.index))

    def is_open(self, person: str) -> pd.Series:
        """bool: the findings that neither the person nor the program decided."""
        automatic = self.reviewers.drop(columns=self.people.columns)
        return (self.of(person) == "") & (automatic == "").all(axis=1)

    def contradicted(self, person: str) -> pd.Series:
        """bool: the findings on which the person and another one decided differently."""
        mine = self.of(person)
        return (self.people.ne(mine, axis=0) & (self.people != "")).any(axis=1) & (mine != "")

    def others(self, person: str, name: str) -> list[dict[str, str]]:
        """What others decided; before an own decision the program alone."""
        verdicts, is_decided = self.reviewers.loc[name].drop(person, errors="ignore"), self.of(person)[name] != ""
        public = verdicts[[text != "" and (is_decided or is_automatic(peer)) for peer, text in verdicts.items()]]
        return [{"by": peer, "decision": text} for peer, text in public.items()]


def _verdicts(rows: pd.DataFrame, findings: pd.Index) -> pd.Series:
    verdicts = rows["action"].where(rows["action"].isin(VERDICTS), "take")
    return verdicts.set_axis(pd.Index(_names(rows))).reindex(findings, fill_value="").astype(object)


def _names(rows: pd.DataFrame) -> pd.Series:
    """As ``pair/17``."""
    return rows["kind"] + "/" + rows["id"].astype(str)


@dataclass(frozen=True)
class Ledger:
    """Findings, and the file ``path`` of decisions on them, which other processes may extend.

    rows: with the columns of ``decisions.COLUMNS``, ``group``, equal for findings that belong
    together, and ``texts``; the most doubtful come first, those of a group one after the other. The
    index has names such as ``pair/17``."""

    path: Path
    rows: pd.DataFrame
    prepared: Catalogue

    def read(self) -> Verdicts:
        """What the file says now. Raises as ``decisions.read``."""
        return Verdicts(self.rows.index, self.holding())

    def holding(self) -> decisions.InForce:
        """The decisions that hold, none where there is no file."""
        rows = decisions.read(self.path) if self.path.exists() else self.rows[:0]
        return decisions.in_force(rows, rows["decision"] != "", self.prepared.images, self.prepared.captions)

    @property
    def kinds(self) -> list[str]:
        return [kind for kind in decisions.KINDS if (self.rows["kind"] == kind).any()]

    def mask(self, kind: str, text: str) -> pd.Series:
        """bool: the findings of a kind ("" for all) with all words of ``text`` in their texts."""
        mask = (self.rows["kind"] == kind) | (kind == "")
        for word in text.lower().split():
            mask &= self.rows["texts"].str.contains(word, regex=False)
        return mask

    def record(self, names: Collection[str], decision: str, person: str) -> None:
        """Appends a row for each finding, and returns when they are on the disk.

        Raises UsageError for a decision that a finding does not have, PipelineError where the file
        cannot be written."""
        rows = self.rows.loc[list(names)]
        wrong = {"take": rows["proposal"] == "", "weight": (rows["kind"] != "pair") | rows["doubt"].isna()}
        if decision in wrong and wrong[decision].any():
            reason = "has no proposal to take" if decision == "take" else "cannot be weighted"
            raise UsageError(f"{rows.index[wrong[decision]][0].replace('/', ' ')} {reason}")
        rows = rows.assign(decision=decision, by=person, at=datetime.now(UTC).strftime(decisions.TIME))
        rows["decision"] = rows["decision"].mask((rows["proposal"] == "drop") & (decision == "take"), "drop")
        try:
            decisions.append(self.path, rows)
        except OSError as error:
            raise PipelineError(f"{self.path}: {error.strerror or error}; the decision is not saved") from error


def open_ledger(dataset: str, noise: str | None, findings: Path | None, path: Path | None) -> Ledger:
    """The findings of an audit and the file of decisions. noise: whose pairs are looked at; None
    for those of the data set.

    Raises InputError where a file is missing or cannot be read, IntegrityError where the audit is
    of other pairs."""
    audited = paths.audited_pairs(dataset, noise)
    if noise is not None and findings is None:
        identity.require_current(audited)
    source = require(findings or audited / decisions.FINDINGS)
    prepared = Catalogue.read(paths.prepared(dataset))
    if noise is not None:
        prepared = _shown(prepared, paths.injected(dataset, noise))
    ledger = Ledger(path or Path(decisions.NAME), _findings(source, prepared), prepared)
    holding = ledger.holding()
    for sentence in decisions.notes(replace(holding, gone=[], by_person=holding.by_person[:0])):
        warn(f"{ledger.path}: {sentence}")
    return ledger


def _shown(prepared: Catalogue, injected: Path) -> Catalogue:
    """The data set with the image that each caption is shown with in the pairs of a noise."""
    identity.require_current(injected)
    column = prepared.captions.schema.get_field_index("image_id")
    owners = pairs.read(injected)["image_id"]
    return replace(prepared, captions=prepared.captions.set_column(column, "image_id", owners))


def _findings(path: Path, prepared: Catalogue) -> pd.DataFrame:
    """The rows of ``Ledger`` that still speak of the same pictures and captions."""
    rows = decisions.read(path).drop_duplicates(["kind", "id"])
    is_current = decisions.current(rows, prepared.images, prepared.captions)
    if lost := int((~is_current).sum()):
        warn(
            f"{path}: left out {plural(lost, 'finding')} on pictures or captions that are gone or changed; audit again"
        )
    rows = rows[is_current]
    if rows.empty:
        raise InputError(f"{path}: no findings to decide on")
    is_copy = rows["kind"].isin(decisions.COPY_KINDS) & rows["other"].notna()
    groups = rows.groupby(["kind", is_copy, rows["other"].where(is_copy, rows["id"])], sort=False).ngroup()
    doubt = rows["doubt"].fillna(0.0)
    order = np.lexsort((rows["id"], -doubt, groups, rows["kind"], -doubt.groupby(groups).transform("max")))
    rows = rows.assign(group=groups, texts=rows[_TEXTS].agg("\n".join, axis=1).str.lower()).iloc[order]
    return rows.set_index(pd.Index(_names(rows)))


def is_automatic(person: str) -> bool:
    return person.partition(" ")[0] == decisions.AUTO


def decide(ledger: Ledger, least: float, kinds: Collection[str] = ()) -> dict[str, int]:
    """Takes the proposal of each finding with a doubt of ``least`` or more on which nobody's
    decision holds. Pairs are dropped: their doubt says that they are wrong, not that the proposed
    partner is right. kinds: only these, if any.

    Returns the numbers by kind, and under ``""`` the findings that have no proposal and stay
    undecided."""
    rows = ledger.rows
    sure = rows[(rows["doubt"] >= least) & (ledger.read().standing == "") & rows["kind"].isin(kinds or decisions.KINDS)]
    proposed = sure[sure["proposal"] != ""]
    is_pair = proposed["kind"] == "pair"
    for decision, chosen in (("drop", proposed[is_pair]), ("take", proposed[~is_pair])):
        if len(chosen):
            ledger.record(chosen.index, decision, f"{decisions.AUTO} {least:g}")
    counts = proposed["kind"].value_counts().reindex(ledger.kinds, fill_value=0)
    return {**counts.to_dict(), "": len(sure) - len(proposed)}
