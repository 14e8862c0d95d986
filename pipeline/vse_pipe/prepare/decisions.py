"""Decisions of people on the images and captions of a data set, applied to the tables of a format.

Rows are removed, captions move to another image and images to another split. Ids stay, so that later decisions and
files with ids stay valid. Pairs of the train split are left to ``inject``.
"""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from vse_pipe.artifacts import decisions
from vse_pipe.core.console import say, warn
from vse_pipe.core.text import in_plain_form
from vse_pipe.prepare.source import Source, filtered


def apply(source: Source, path: Path, dataset: str) -> Source:
    """The data set after the decisions in the file ``path``; says what changed, and warns of decisions that are not
    applied. dataset: its name, for messages. Raises InputError as ``decisions.read``."""
    rows = decisions.read(path)
    images, captions = Images(source.images), Captions(source.captions)
    is_pair = rows["kind"] == "pair"
    on_rows = decisions.in_force(rows, ~is_pair, source.images, source.captions)
    trained = captions.in_train(images)
    moved = _move(images, on_rows.rows)
    # A pair that moves into train or out of it with its picture is not left to ``inject``.
    is_trained = is_pair & rows["id"].isin(captions.ids[trained & captions.in_train(images)])
    on_pairs = decisions.in_force(rows, is_pair & ~is_trained, source.images, source.captions)
    notes = [*decisions.notes(on_rows, on_pairs), *_repair(captions, on_pairs.rows)]
    for sentence in [*notes, *_merge(images, captions, on_rows.rows)]:
        warn(f"prepare {dataset}: {sentence}")
    applied = pd.concat([on_rows.rows, on_pairs.rows])
    removed = applied[applied["action"] == "drop"]
    images.remove(removed[~removed["kind"].isin(decisions.CAPTION_KINDS)]["id"])
    captions.remove(removed[removed["kind"].isin(decisions.CAPTION_KINDS)]["id"])
    captions.present &= images.present[images.place(captions.owners)]
    repeats = captions.remove_repeats()
    # An image without a caption is ranked and never found.
    bare = images.present & ~np.isin(images.ids, captions.owners[captions.present]) & bool(len(captions.ids))
    images.present &= ~bare
    say(
        f"prepare {dataset}: {path}: {(~images.present).sum()} images removed ({bare.sum()} because no caption is left), "
        f"{(~captions.present).sum()} captions removed ({repeats} because their new image has the same words), "
        f"{captions.is_moved.sum()} captions moved to another image, {moved} images moved to another split; "
        f"{rows[is_trained & (rows['decision'] != '')]['id'].nunique()} train pairs are left to inject"
    )
    return _source(source, images, captions)


class Images:
    """ids, splits: by row; present: bool."""

    def __init__(self, table: pa.Table) -> None:
        self.ids = table["image_id"].to_numpy()
        self.splits = table["split"].to_numpy().astype(object)
        self.present = np.ones(len(self.ids), bool)
        self._index = pd.Index(self.ids)

    def place(self, ids: Iterable[int] | np.ndarray) -> np.ndarray:
        """The rows of these ids."""
        return self._index.get_indexer(np.asarray(ids, np.int64))

    def remove(self, ids: Iterable[int]) -> None:
        self.present[self.place(ids)] = False


class Captions:
    """ids, owners: caption and image by row; present: bool."""

    def __init__(self, table: pa.Table) -> None:
        self.ids, self.owners = table["caption_id"].to_numpy(), table["image_id"].to_numpy().copy()
        self.present = np.ones(len(self.ids), bool)
        self._index, self._before = pd.Index(self.ids), table["image_id"].to_numpy()
        self._texts = table["text"]

    def place(self, ids: Iterable[int] | np.ndarray) -> np.ndarray:
        return self._index.get_indexer(np.asarray(ids, np.int64))

    def remove(self, ids: Iterable[int]) -> None:
        self.present[self.place(ids)] = False

    def in_train(self, images: Images) -> np.ndarray:
        """bool: captions whose image is in train."""
        return images.splits[images.place(self.owners)] == "train"

    @property
    def is_moved(self) -> np.ndarray:
        """bool: present captions of another image than before."""
        return self.present & (self.owners != self._before)

    def remove_repeats(self) -> int:
        """Removes moved captions whose new image has the same words already; returns their number."""
        moved = self.is_moved
        places = np.flatnonzero(self.present & np.isin(self.owners, self.owners[moved]))
        places = places[np.argsort(moved[places], kind="stable")]  # what an image had before comes first
        words = in_plain_form(self._texts.take(pa.array(places)).combine_chunks()).to_pandas()
        repeats = pd.DataFrame({"image": self.owners[places], "words": words}).duplicated() & (words != "")
        repeated = places[repeats.to_numpy() & moved[places]]
        self.present[repeated] = False
        return len(repeated)


def _repair(captions: Captions, pairs: pd.DataFrame) -> list[str]:
    """Applies the proposals ``picture`` and ``caption`` to pairs of val and test; returns warnings."""
    taking, before = pairs[pairs["action"] == "caption"], captions.owners.copy()
    captions.remove(taking["id"])
    fixed = pairs[pairs["action"].isin(["keep", "weight", "picture"])]["id"]
    taking = taking[~taking["other"].isin(fixed)]
    receivers = captions.place(taking["other"])
    captions.owners[receivers], captions.present[receivers] = before[captions.place(taking["id"])], True
    moving = pairs[pairs["action"] == "picture"]
    captions.owners[captions.place(moving["id"])] = moving["other"].to_numpy(np.int64)
    weighted = int((pairs["action"] == "weight").sum())
    return [f"{weighted} pairs of val and test have the decision weight, which is for train pairs"] * bool(weighted)


def _merge(images: Images, captions: Captions, rows: pd.DataFrame) -> list[str]:
    """Applies ``merge`` to duplicates; returns warnings."""
    sentences = []
    merged = rows[rows["action"] == "merge"]
    for kind, side in (("duplicate", images), ("duplicate_caption", captions)):
        chosen = merged[merged["kind"] == kind]
        stays = decisions.roots(dict(zip(chosen["id"].tolist(), chosen["other"].tolist(), strict=True)))
        side.remove(list(stays))
        circular = chosen[~chosen["id"].isin(list(stays))]["id"].tolist()
        if circular:
            sentences.append(f"{len(circular)} merges lead back to themselves; stays: {kind} {circular[0]}")
        if kind == "duplicate" and stays:
            owner = pd.Series(captions.owners)
            captions.owners[:] = owner.map(stays).fillna(owner).to_numpy(np.int64)
    return sentences


def _move(images: Images, rows: pd.DataFrame) -> int:
    """Applies ``move`` to leaks; returns the number of moved images."""
    moving = rows[rows["action"] == "move"]
    place, splits = images.place(moving["id"]), images.splits[images.place(moving["other"])]
    changed = images.splits[place] != splits
    images.splits[place] = splits
    return int(changed.sum())


def _source(source: Source, images: Images, captions: Captions) -> Source:
    """The present rows; a caption is in the split of its image, and names of removed ids are left out."""
    table, sentences = source.images, source.captions
    splits = images.splits[images.place(captions.owners)]
    table = _with(table, "split", pa.array(images.splits, pa.string()))
    sentences = _with(_with(sentences, "image_id", pa.array(captions.owners)), "split", pa.array(splits, pa.string()))
    source = replace(source, images=table, captions=sentences)
    return filtered(source, pa.array(images.present), pa.array(captions.present))


def _with(table: pa.Table, name: str, column: pa.Array) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), table.schema.field(name), column)
