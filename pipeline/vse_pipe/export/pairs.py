"""pairs: the pairs of a data set, cleaned or not, for programs that train elsewhere."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.artifacts import identity, images
from vse_pipe.artifacts import pairs as artefact
from vse_pipe.artifacts.catalogue import Catalogue
from vse_pipe.core import remote
from vse_pipe.core.console import say, warn
from vse_pipe.core.errors import InputError, UsageError, missing, unknown
from vse_pipe.core.files import write_array, write_text
from vse_pipe.prepare import shards
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params

_MEMBER = r"(?s)^(?P<shard>.+?\.tar)::(?P<offset>[0-9]+):[0-9]+::"
_DATACOMP = "^[0-9a-f]{32}$"


@dataclass(frozen=True)
class Exported:
    """pictures: columns file, split and image_id, as the data set writes it, in its order. rows:
    the pairs, with the columns of format csv, in the order of their pictures. has_names: ids of
    images are text."""

    dataset: str
    root: Path
    pictures: pd.DataFrame
    rows: pd.DataFrame
    has_names: bool


def export(params: Params, dataset: str, noise: str | None, to: str, out: Path, split: str | None = None) -> int:
    """Writes the file ``out`` and returns the number of its entries.

    noise: an entry of noises or teachers, whose pairs are written; without it each caption stands
    beside its own image. Pairs of weight 0 and images without a pair are left out. to: a key of
    ``TARGETS``; split: the only one to write. Raises UsageError for an unknown name and where
    ``out`` exists, InputError and IntegrityError for unusable data."""
    if to not in TARGETS:
        raise UsageError(unknown("form", to, TARGETS))
    if split is not None and split not in images.DESCRIBED:
        raise UsageError(missing(f"unknown split '{split}'", split, images.DESCRIBED))
    if out.exists():
        raise UsageError(f"--out: {out} exists; choose another file, or remove it first")
    content = _content(params, dataset, noise, split)
    has_pairs = to in (csv.__name__, karpathy.__name__)
    if has_pairs and not len(content.rows):
        raise InputError(f"data set '{dataset}' has no captions; take --to keys or uids")
    count = TARGETS[to](content, out)
    say(f"{out}: {count} {'pairs' if has_pairs else 'images'} of data set '{dataset}'")
    return count


def _content(params: Params, dataset: str, noise: str | None, split: str | None) -> Exported:
    catalogue = Catalogue.read(paths.prepared(dataset))
    table, sentences = catalogue.images, catalogue.captions
    caption_images, is_used = sentences["image_id"].to_numpy(), np.ones(len(sentences), bool)
    if noise is not None:
        caption_images, is_used = _injected(params, dataset, noise)
    ids = table["image_id"].to_numpy()
    pictures = table.select(["file", "split"]).to_pandas().assign(image_id=catalogue.labels("image_id", ids))
    places = pd.Index(ids).get_indexer(caption_images)
    rows = pictures.iloc[places].rename(columns={"file": "image"})
    rows.insert(1, "caption", sentences["text"].to_pandas().to_numpy())
    rows["caption_id"] = catalogue.labels("caption_id", sentences["caption_id"].to_numpy())
    is_chosen = True if split is None else rows["split"] == split
    rows = rows[is_used & is_chosen].sort_index(kind="stable")
    if len(sentences):  # else a data set of pictures only
        pictures = pictures[pictures.index.isin(rows.index)]
    elif split is not None:
        pictures = pictures[pictures["split"] == split]
    if not len(pictures):
        raise InputError(f"data set '{dataset}' has no pairs{f' of split {split}' if split else ''} to export")
    return Exported(dataset, catalogue.root, pictures, rows, catalogue.has_named_images)


def _injected(params: Params, dataset: str, noise: str) -> tuple[np.ndarray, np.ndarray]:
    """The image of each caption, and whether its pair is used."""
    noises = [name for name, node in params.noises.items() if node.dataset == dataset]
    noises += [name for name, node in params.teachers.items() if node.dataset == dataset]
    if noise not in noises:
        raise UsageError(missing(f"data set '{dataset}' has no noise '{noise}'", noise, sorted(noises)))
    folder = paths.injected(dataset, noise)
    identity.require_current(folder)
    table = artefact.read(folder)
    if artefact.WEIGHT not in table.schema.names:
        return table["image_id"].to_numpy(), np.ones(len(table), bool)
    weights = table[artefact.WEIGHT].to_numpy()
    if partial := int(((weights > 0) & (weights < 1)).sum()):
        warn(f"pairs: {partial} pairs have a weight between 0 and 1; they are written as whole pairs")
    return table["image_id"].to_numpy(), weights > 0


def csv(content: Exported, out: Path) -> int:
    """The columns of format csv: image, caption, split, image_id and caption_id."""
    write_text(out, content.rows.to_csv(index=False, lineterminator="\r\n"))
    return len(content.rows)


def karpathy(content: Exported, out: Path) -> int:
    """The document of format karpathy, an image on each line."""

    def entries() -> Iterator[str]:
        for _, group in groupby(content.rows.itertuples(index=False), attrgetter("image")):
            pairs = list(group)
            folder, _, name = pairs[0].image.rpartition("/")
            entry = {"filename": name} | ({"filepath": folder} if folder else {})
            entry |= {"imgid": pairs[0].image_id, "split": pairs[0].split}
            sentences = [{"raw": row.caption, "imgid": row.image_id, "sentid": row.caption_id} for row in pairs]
            entry |= {"sentids": [row.caption_id for row in pairs], "sentences": sentences}
            yield json.dumps(entry, ensure_ascii=False)

    head = json.dumps(content.dataset)
    write_text(out, f'{{"dataset": {head}, "images": [\n' + ",\n".join(entries()) + "\n]}\n")
    return len(content.rows)


def keys(content: Exported, out: Path) -> int:
    """The keys of samples in tar shards, ``__key__`` of webdataset, one a line. Raises InputError
    for other images, and where two shards have the same key."""
    lines, files = pd.Series(_keys(content)), content.pictures["file"]
    if (outside := lines.isna().to_numpy()).any():
        raise InputError(f"--to keys: {files[outside].iloc[0]!r} is no member of a tar shard; take --to uids")
    if (again := lines[lines.duplicated()]).size:
        raise InputError(f"--to keys: {len(again)} keys stand in several shards, the first is {again.iloc[0]!r}")
    return _write_lines(out, lines.tolist())


def uids(content: Exported, out: Path) -> int:
    """The ids of the images: the data set's own text, else the key in the shard, else the file.

    One a line; or for an ``out`` that ends in ``.npy`` the array of DataComp's resharder: pairs of
    uint64, the two halves of each uid of 32 hexadecimal digits, sorted. Raises InputError where the
    uids are others."""
    names = content.pictures["image_id"] if content.has_names else _keys(content)
    labels = pc.coalesce(pa.array(names, pa.string()), pa.array(content.pictures["file"], pa.string()))
    if out.suffix != ".npy":
        return _write_lines(out, labels.to_pylist())
    fits = pc.match_substring_regex(labels, _DATACOMP)
    if not pc.all(fits).as_py():
        first = labels.filter(pc.invert(fits))[0].as_py()
        raise InputError(f"--to uids: {first!r} has not the 32 hexadecimal digits of DataComp's .npy")
    halves = np.frombuffer(bytes.fromhex("".join(labels.to_pylist())), ">u8").reshape(-1, 2).astype("u8")
    array = np.unique(halves, axis=0).view("u8,u8")[:, 0]
    write_array(out, array)
    return len(array)


# Functions by name; each returns the number of its entries.
TARGETS: dict[str, Callable[[Exported, Path], int]] = {write.__name__: write for write in (csv, karpathy, keys, uids)}


def _keys(content: Exported) -> list[str | None]:
    """The key of each image's sample in its tar shard, folders included; None for what is no member
    of a shard. Only the headers of shards are read. Raises InputError for a shard that is damaged
    or not that which was prepared."""
    parts = pc.extract_regex(pa.array(content.pictures["file"], pa.string()), _MEMBER)
    places = list(zip(*(pc.struct_field(parts, name).to_pylist() for name in ("shard", "offset")), strict=True))
    keys: dict[tuple[str, str], str] = {}
    for shard in dict.fromkeys(shard for shard, _ in places if shard):
        with remote.open_remote(path := content.root / shard) as file:
            listed = shards.samples(path, file)
        keys |= {(shard, str(member.offset)): key for key, sample in listed.items() for member in sample.values()}
    if lost := [place for place in places if place[0] and place not in keys]:
        raise InputError(f"{lost[0][0]}: has no member at byte {lost[0][1]} any more; prepare the data set again")
    return [keys.get(place) for place in places]


def _write_lines(out: Path, lines: list[str]) -> int:
    if odd := next((line for line in lines if "\n" in line or "\r" in line), None):
        raise InputError(f"{out}: {odd!r} holds a line break, and the file has a line for each")
    write_text(out, "".join(f"{line}\n" for line in lines))
    return len(lines)
