"""The findings of an audit in the order of a review: by doubt, and those of one group one after the other."""

from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.artifacts import decisions, identity, pairs
from vse_pipe.artifacts.catalogue import Catalogue
from vse_pipe.core.console import warn
from vse_pipe.core.errors import InputError
from vse_pipe.core.files import require
from vse_pipe.project import paths
from vse_pipe.report.formatting import plural

_TEXTS = ("why", "file", "caption", "other_file", "other_caption")


def reviewed(dataset: str, noise: str | None = None) -> Catalogue:
    """The prepared data set that findings and decisions are about, with the image that each caption
    is shown with. noise: whose pairs are looked at; None for those of the data set. Raises
    MissingResource where the data set is not prepared, IntegrityError where the pairs are of another
    one."""
    catalogue = Catalogue.read(paths.prepared(dataset))
    if noise is None:
        return catalogue
    injected = paths.injected(dataset, noise)
    identity.require_current(injected)
    column = catalogue.captions.schema.get_field_index("image_id")
    owners = pairs.read(injected)["image_id"]
    return replace(catalogue, captions=catalogue.captions.set_column(column, "image_id", owners))


class ReviewTable:
    """Findings that still speak of the same pictures and captions, most doubtful first.

    rows: with the columns of ``decisions.COLUMNS``; the index is the place. groups: int64, equal for the findings of a
    group.
    """

    def __init__(self, rows: pd.DataFrame) -> None:
        is_grouped = rows["kind"].isin(decisions.COPY_KINDS) & rows["other"].notna()
        groups = rows.groupby(["kind", is_grouped, rows["other"].where(is_grouped, rows["id"])], sort=False).ngroup()
        doubt = rows["doubt"].fillna(0.0)
        most = doubt.groupby(groups).transform("max")
        order = np.lexsort((rows["id"], -doubt, groups, rows["kind"], -most))
        self.rows = rows.iloc[order].reset_index(drop=True)
        self.groups = groups.to_numpy()[order]
        self.kinds = [kind for kind in decisions.KINDS if (rows["kind"] == kind).any()]
        self._places = {name: place for place, name in enumerate(_names(self.rows))}

    def __len__(self) -> int:
        return len(self.rows)

    def places(self, rows: pd.DataFrame) -> np.ndarray:
        """int64, the place of each row's finding; -1 for one that is not here."""
        return np.array([self._places.get(name, -1) for name in _names(rows)], np.int64)

    def place(self, name: str) -> int | None:
        """The place of a finding such as ``pair/17``."""
        return self._places.get(name)

    def group(self, place: int) -> np.ndarray:
        """Places of the findings that belong together, ``place`` among them."""
        return np.flatnonzero(self.groups == self.groups[place])

    def of_kind(self, kind: str) -> np.ndarray:
        """bool; all False for a kind without findings."""
        return (self.rows["kind"] == kind).to_numpy()

    def mask(self, kind: str, text: str) -> np.ndarray:
        """bool, the findings of a kind ("" for all) with all words of ``text`` in their texts."""
        mask = self.of_kind(kind) if kind else np.ones(len(self), bool)
        for word in text.lower().split():
            mask = mask & pc.match_substring(self._texts, word).to_numpy(zero_copy_only=False)
        return mask

    @cached_property
    def _texts(self) -> pa.Array:
        columns = [pa.array(self.rows[name], pa.string()) for name in ("kind", *_TEXTS)]
        return pc.utf8_lower(pc.binary_join_element_wise(*columns, "\n"))


def _names(rows: pd.DataFrame) -> pd.Series:
    """As ``pair/17``."""
    return rows["kind"] + "/" + rows["id"].astype(str)


def find(dataset: str, noise: str | None, file: Path | None) -> Path:
    """The file of findings. Raises InputError with the command that makes it, IntegrityError where the audit is of other
    pairs than those of ``noise`` now."""
    command, folder = f"vse-pipe audit --dataset {dataset}", paths.audited_pairs(dataset, noise)
    if noise:
        command += f" --noise {noise}"
        if file is None:
            identity.require_current(folder)
    return require(file or folder / decisions.FINDINGS)


def read(path: Path, prepared: Catalogue) -> ReviewTable:
    """Raises InputError for a file without findings, or as ``decisions.read``."""
    rows = decisions.read(path)
    if decided := int((rows["decision"] != "").sum()):
        warn(f"{path}: {plural(decided, 'decision')} in its own column; they count only where that file is applied")
    repeats = rows.duplicated(["kind", "id"])
    if repeats.any():
        warn(f"{path}: {plural(int(repeats.sum()), 'row')} repeat a finding; the first row of each counts")
    rows = rows[~repeats]
    is_current = decisions.current(rows, prepared.images, prepared.captions)
    if lost := int((~is_current).sum()):
        warn(
            f"{path}: left out {plural(lost, 'finding')} whose pictures or captions are gone or other ones now; audit the data set again"
        )
    if lost == len(rows):
        raise InputError(f"{path}: no findings to decide on")
    return ReviewTable(rows[is_current])
