"""Decisions of people on the images and captions of a data set, applied to the tables of a format.

Rows are removed, captions move to another image and images to another split. Ids stay, so that
later decisions and files with ids stay valid. Pairs of the train split are left to ``inject``.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from vse_pipe.artifacts import decisions
from vse_pipe.core.console import say, warn
from vse_pipe.prepare.source import Source, caption_table, filtered, image_table


def apply(source: Source, path: Path, dataset: str) -> Source:
    """The data set after the decisions in the file ``path``; says what changed, and warns of
    decisions that are not applied. dataset: its name, for messages. Raises InputError as
    ``decisions.read``."""
    rows = decisions.read(path)
    images = source.images.select(["image_id", "split"]).to_pandas().set_index("image_id").assign(present=True)
    captions = source.captions.select(["caption_id", "image_id", "text"]).to_pandas().set_index("caption_id")
    captions["present"], before = True, captions["image_id"].copy()
    is_pair = rows["kind"] == "pair"
    on_rows = decisions.in_force(rows, ~is_pair, source.images, source.captions)
    trained = captions["image_id"].map(images["split"]) == "train"
    moved = _move(images, on_rows.rows)
    # A pair that moves into train or out of it with its picture is not left to ``inject``.
    trained &= captions["image_id"].map(images["split"]) == "train"
    is_trained = is_pair & rows["id"].isin(captions.index[trained])
    on_pairs = decisions.in_force(rows, is_pair & ~is_trained, source.images, source.captions)
    for sentence in decisions.notes(on_rows, on_pairs):
        warn(f"prepare {dataset}: {sentence}")
    # Weights of pairs are for train.
    moving = on_pairs.rows[on_pairs.rows["action"] == "picture"]
    captions.loc[moving["id"], "image_id"] = moving["other"].to_numpy(np.int64)
    _merge(images, captions, on_rows.rows)
    applied = pd.concat([on_rows.rows, on_pairs.rows]).query("action == 'drop'")
    is_caption = applied["kind"].isin(decisions.CAPTION_KINDS)
    images.loc[applied["id"][~is_caption], "present"] = False
    captions.loc[applied["id"][is_caption], "present"] = False
    captions["present"] &= captions["image_id"].map(images["present"])
    repeats = _repeats(captions, captions["present"] & (captions["image_id"] != before))
    captions.loc[repeats, "present"] = False
    # An image without a caption is ranked and never found.
    bare = images["present"] & ~images.index.isin(captions["image_id"][captions["present"]]) & bool(len(captions))
    images["present"] &= ~bare
    say(
        f"prepare {dataset}: {path}: {(~images['present']).sum()} images removed ({bare.sum()} because no caption is left), "
        f"{(~captions['present']).sum()} captions removed ({len(repeats)} because their new image has the same words), "
        f"{(captions['present'] & (captions['image_id'] != before)).sum()} captions moved to another image, "
        f"{moved} images moved to another split; "
        f"{rows[is_trained & (rows['decision'] != '')]['id'].nunique()} train pairs are left to inject"
    )
    return _source(source, images, captions)


def _move(images: pd.DataFrame, rows: pd.DataFrame) -> int:
    """Applies ``move`` to leaks; returns the number of moved images."""
    moving = rows[rows["action"] == "move"]
    before, after = images["split"].loc[moving["id"]], images["split"].loc[moving["other"].astype("int64")].to_numpy()
    images.loc[moving["id"], "split"] = after
    return int((before.to_numpy() != after).sum())


def _merge(images: pd.DataFrame, captions: pd.DataFrame, rows: pd.DataFrame) -> None:
    """Applies ``merge`` to duplicates. Of merges that lead back to themselves one stays."""
    merged = rows[rows["action"] == "merge"]
    for kind, table in (("duplicate", images), ("duplicate_caption", captions)):
        chosen = merged[merged["kind"] == kind]
        stays = decisions.roots(dict(zip(chosen["id"].tolist(), chosen["other"].tolist(), strict=True)))
        table.loc[list(stays), "present"] = False
        if kind == "duplicate":
            captions["image_id"] = captions["image_id"].map(lambda owner, stays=stays: stays.get(owner, owner))


def _repeats(captions: pd.DataFrame, is_moved: pd.Series) -> pd.Index:
    """The ids of moved captions whose new image has the same words already."""
    touched = captions[captions["present"] & captions["image_id"].isin(captions["image_id"][is_moved])]
    # What an image had before comes first.
    touched = touched.loc[is_moved[touched.index].sort_values(kind="stable").index]
    words = decisions.in_plain_form(pa.array(touched["text"], pa.string())).to_pandas().set_axis(touched.index)
    repeats = pd.DataFrame({"image": touched["image_id"], "words": words}).duplicated() & (words != "")
    return touched.index[repeats & is_moved[touched.index]]


def _source(source: Source, images: pd.DataFrame, captions: pd.DataFrame) -> Source:
    """The present rows; a caption is in the split of its image; names of other ids are left out."""
    splits = captions["image_id"].map(images["split"])
    _, files, _, *about = source.images.columns
    ids, _, texts, _ = source.captions.columns
    table = image_table(source.images["image_id"], files, pa.array(images["split"]), *about)
    sentences = caption_table(ids, pa.array(captions["image_id"]), texts, pa.array(splits))
    source = replace(source, images=table, captions=sentences)
    return filtered(source, pa.array(images["present"]), pa.array(captions["present"]))
