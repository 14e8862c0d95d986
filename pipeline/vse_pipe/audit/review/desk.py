"""The findings of an audit in the order of a review, and what everybody decided on them."""

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


@dataclass(frozen=True)
class Verdicts:
    """What a file of decisions says of findings. reviewers: a column for each reviewer with the
    last decision on each finding, of VERDICTS, empty without one; standing: the decision that
    holds, whoever made it."""

    reviewers: pd.DataFrame
    standing: pd.Series

    def of_person(self, person: str) -> pd.Series:
        return self.reviewers.get(person, pd.Series("", self.standing.index))

    def is_open(self, person: str) -> pd.Series:
        """bool: the findings that neither the person nor the program decided."""
        automatic = self.reviewers[[name for name in self.reviewers if is_automatic(name)]]
        return (self.of_person(person) == "") & (automatic == "").all(axis=1)

    def peers(self, person: str, name: str) -> list[dict[str, str]]:
        """What others decided; before the person's decision the program alone."""
        is_decided = self.of_person(person)[name] != ""
        verdicts = self.reviewers.loc[name].drop(person, errors="ignore")
        return [
            {"by": peer, "decision": verdict}
            for peer, verdict in verdicts.items()
            if verdict and (is_decided or is_automatic(str(peer)))
        ]


def is_automatic(person: str) -> bool:
    return person.partition(" ")[0] == decisions.AUTO


@dataclass(frozen=True)
class ReviewDesk:
    """Findings, and the file ``path`` of decisions on them, which other processes may extend and
    which is read for each answer.

    rows: with the columns of ``decisions.COLUMNS``, ``group``, equal for findings that belong
    together, and ``texts``; the most doubtful come first, those of a group one after the other. The
    index has names such as ``pair/17``."""

    path: Path
    rows: pd.DataFrame
    prepared: Catalogue

    def verdicts(self) -> Verdicts:
        """What the file says now. Raises as ``decisions.read``."""
        holding = self.holding()
        people = {str(name): self._verdicts(rows) for name, rows in holding.by_person.groupby("by")}
        return Verdicts(pd.DataFrame(people, self.rows.index), self._verdicts(holding.rows))

    def holding(self) -> decisions.InForce:
        """The decisions that hold, none where there is no file."""
        rows = decisions.read(self.path) if self.path.exists() else self.rows[:0]
        tables = self.prepared.images, self.prepared.captions
        return decisions.in_force(rows, rows["decision"] != "", *tables)

    def _verdicts(self, rows: pd.DataFrame) -> pd.Series:
        verdicts = rows["action"].where(rows["action"].isin(VERDICTS), "take").set_axis(_names(rows))
        return verdicts.reindex(self.rows.index, fill_value="").astype(object)

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
            name = rows.index[wrong[decision]][0].replace("/", " ")
            raise UsageError(f"{name} has nothing to {decision}")
        rows = rows.assign(decision=decision, by=person, at=datetime.now(UTC).strftime(decisions.TIME))
        rows["decision"] = rows["decision"].mask((rows["proposal"] == "drop") & (decision == "take"), "drop")
        try:
            decisions.append(self.path, rows)
        except OSError as error:
            raise PipelineError(f"{self.path}: {error.strerror or error}; the decision is not saved") from error

    def decide(self, least: float, kinds: Collection[str] = ()) -> dict[str, int]:
        """Takes the proposal of each finding with a doubt of ``least`` or more on which nobody's
        decision holds. Pairs are dropped: their doubt says that they are wrong, not that the
        proposed partner is right. kinds: only these, if any. Returns the numbers by kind."""
        rows = self.rows
        is_sure = (rows["doubt"] >= least) & (rows["proposal"] != "") & rows["kind"].isin(kinds or decisions.KINDS)
        rows = rows[is_sure & (self.verdicts().standing == "")]
        is_pair = rows["kind"] == "pair"
        for decision, chosen in (("drop", rows[is_pair]), ("take", rows[~is_pair])):
            if len(chosen):
                self.record(chosen.index, decision, f"{decisions.AUTO} {least:g}")
        return rows["kind"].value_counts().reindex(self.kinds, fill_value=0).to_dict()


def _names(rows: pd.DataFrame) -> pd.Index:
    """As ``pair/17``."""
    return pd.Index(rows["kind"] + "/" + rows["id"].astype(str))


def open_desk(dataset: str, noise: str | None, path: Path | None) -> ReviewDesk:
    """The findings of an audit and the file of decisions. noise: whose pairs are looked at; None
    for those of the data set.

    Raises InputError where a file is missing or cannot be read, IntegrityError where the audit is
    of other pairs."""
    audited = paths.audited_pairs(dataset, noise)
    source = require(audited / decisions.FINDINGS)
    prepared = Catalogue.read(paths.prepared(dataset))
    if noise is not None:
        identity.require_current(audited)
        owners = pairs.read(paths.injected(dataset, noise))["image_id"]
        prepared = replace(prepared, captions=prepared.captions.append_column(decisions.SHOWN, owners))
    findings = _findings(source, prepared)
    desk = ReviewDesk(path or Path(decisions.NAME), findings, prepared)
    # What is gone was dropped by ``prepare``.
    for sentence in decisions.notes(replace(desk.holding(), missing=[])):
        warn(f"{desk.path}: {sentence}")
    return desk


def _findings(path: Path, prepared: Catalogue) -> pd.DataFrame:
    """The rows of ``ReviewDesk`` that still speak of the same pictures and captions."""
    rows = decisions.read(path).drop_duplicates(["kind", "id"])
    is_current = decisions.current(rows, prepared.images, prepared.captions)
    if lost := int((~is_current).sum()):
        findings = plural(lost, "finding")
        warn(f"{path}: left out {findings} on pictures or captions that are gone or changed; audit again")
    rows = rows[is_current]
    if rows.empty:
        raise InputError(f"{path}: no findings to decide on")
    is_copy = rows["kind"].isin(decisions.COPY_KINDS) & rows["other"].notna()
    groups = rows.groupby(["kind", is_copy, rows["other"].where(is_copy, rows["id"])], sort=False).ngroup()
    doubt = rows["doubt"].fillna(0.0)
    order = np.lexsort((rows["id"], -doubt, groups, rows["kind"], -doubt.groupby(groups).transform("max")))
    texts = rows[_TEXTS].agg("\n".join, axis=1).str.lower()
    return rows.assign(group=groups, texts=texts).iloc[order].set_axis(_names(rows.iloc[order]))
