"""pairs: the pairs of a data set, cleaned or not, for programs that train elsewhere."""

import json
from collections.abc import Callable
from itertools import groupby
from operator import attrgetter
from pathlib import Path

import numpy as np
import pandas as pd

from vse_pipe.artifacts import identity, images
from vse_pipe.artifacts import pairs as artefact
from vse_pipe.artifacts.catalogue import Catalogue
from vse_pipe.core.console import say, warn
from vse_pipe.core.errors import InputError, UsageError, unknown
from vse_pipe.core.files import write_text
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params


def export(params: Params, dataset: str, noise: str | None, to: str, out: Path, split: str | None = None) -> int:
    """Writes the file ``out`` and returns the number of its pairs.

    noise: an entry of noises or teachers, whose pairs are written; without it each caption stands
    beside its own image. Pairs of weight 0 are left out. to: a key of ``TARGETS``; split: the only
    one to write. Raises UsageError for an unknown name and where ``out`` exists, InputError and
    IntegrityError for unusable data."""
    if to not in TARGETS:
        raise UsageError(unknown("form", to, TARGETS))
    if split is not None and split not in images.DESCRIBED:
        raise UsageError(unknown("split", split, images.DESCRIBED))
    if out.exists():
        raise UsageError(f"--out: {out} exists; choose another file, or remove it first")
    rows = _rows(params, dataset, noise, split)
    write_text(out, TARGETS[to](dataset, rows))
    say(f"{out}: {len(rows)} pairs of data set '{dataset}'")
    return len(rows)


def _rows(params: Params, dataset: str, noise: str | None, split: str | None) -> pd.DataFrame:
    """The pairs with the columns of format csv, in the order of their pictures."""
    catalogue = Catalogue.read(paths.prepared(dataset))
    table, sentences = catalogue.images, catalogue.captions
    caption_images, is_used = sentences["image_id"].to_numpy(), np.ones(len(sentences), bool)
    if noise is not None:
        caption_images, is_used = _injected(params, dataset, noise)
    ids = table["image_id"].to_numpy()
    pictures = table.select(["file", "split"]).to_pandas().assign(image_id=catalogue.labels("image_id", ids))
    rows = pictures.iloc[pd.Index(ids).get_indexer(caption_images)].rename(columns={"file": "image"})
    rows.insert(1, "caption", sentences["text"].to_pandas().to_numpy())
    rows["caption_id"] = catalogue.labels("caption_id", sentences["caption_id"].to_numpy())
    is_chosen = True if split is None else rows["split"] == split
    rows = rows[is_used & is_chosen].sort_index(kind="stable")
    if rows.empty:
        raise InputError(f"data set '{dataset}' has no pairs{f' of split {split}' if split else ''} to export")
    return rows


def _injected(params: Params, dataset: str, noise: str) -> tuple[np.ndarray, np.ndarray]:
    """The image of each caption, and whether its pair is used."""
    noises = [name for name, node in params.noises.items() if node.dataset == dataset]
    noises += [name for name, node in params.teachers.items() if node.dataset == dataset]
    if noise not in noises:
        raise UsageError(unknown(f"noise of data set '{dataset}'", noise, sorted(noises)))
    folder = paths.injected(dataset, noise)
    identity.require_current(folder)
    table = artefact.read(folder)
    if artefact.WEIGHT not in table.schema.names:
        return table["image_id"].to_numpy(), np.ones(len(table), bool)
    weights = table[artefact.WEIGHT].to_numpy()
    if partial := int(((weights > 0) & (weights < 1)).sum()):
        warn(f"pairs: {partial} pairs have a weight between 0 and 1; they are written as whole pairs")
    return table["image_id"].to_numpy(), weights > 0


def csv(dataset: str, rows: pd.DataFrame) -> str:
    """The columns of format csv: image, caption, split, image_id and caption_id."""
    return str(rows.to_csv(index=False, lineterminator="\r\n"))


def karpathy(dataset: str, rows: pd.DataFrame) -> str:
    """The document of format karpathy, an image on each line."""
    entries = []
    for image, group in groupby(rows.itertuples(index=False), attrgetter("image")):
        pairs = list(group)
        folder, _, name = image.rpartition("/")
        entry = {"filename": name} | ({"filepath": folder} if folder else {})
        entry |= {"imgid": pairs[0].image_id, "split": pairs[0].split}
        sentences = [{"raw": row.caption, "imgid": row.image_id, "sentid": row.caption_id} for row in pairs]
        entry |= {"sentids": [row.caption_id for row in pairs], "sentences": sentences}
        entries.append(json.dumps(entry, ensure_ascii=False))
    return f'{{"dataset": {json.dumps(dataset)}, "images": [\n' + ",\n".join(entries) + "\n]}\n"


# Functions by name.
TARGETS: dict[str, Callable[[str, pd.DataFrame], str]] = {write.__name__: write for write in (csv, karpathy)}
