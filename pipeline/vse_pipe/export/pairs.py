"""pairs: the pairs of a data set, cleaned or not, for programs that train elsewhere."""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
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
# In images.parquet a place in another file, or a box: what the formats csv and karpathy do not read.
_PLACE = r"\.tar::|\.parquet::|\.npy#|#xywh="
_DATACOMP = "^[0-9a-f]{32}$"


@dataclass(frozen=True)
class Exported:
    """pictures: columns image_id, file, split and ``label``, the id of the data set, in its order. rows: the pairs, with
    image (row of ``pictures``), caption_id, label and text, sorted by image. has_names: ids of images are text."""

    dataset: str
    root: Path
    pictures: pd.DataFrame
    rows: pd.DataFrame
    has_names: bool


def export(params: Params, dataset: str, noise: str | None, to: str, out: Path, split: str | None = None) -> int:
    """Writes the file ``out`` and returns the number of its entries.

    noise: an entry of noises or teachers, whose pairs are written; without it each caption stands beside its own image.
    Pairs of weight 0 and images without a pair are left out. to: a key of ``TARGETS``; split: the only one to write.
    Raises UsageError for an unknown name and where ``out`` exists, InputError and IntegrityError for unusable data."""
    if to not in TARGETS:
        raise UsageError(unknown("form", to, TARGETS))
    if split is not None and split not in images.DESCRIBED:
        raise UsageError(missing(f"unknown split '{split}'", split, images.DESCRIBED))
    if out.exists():
        raise UsageError(f"--out: {out} exists; choose another file, or remove it first")
    content = _content(params, dataset, noise, split)
    count = TARGETS[to](content, out)
    say(f"{out}: {count} {'pairs' if to in ('csv', 'karpathy') else 'images'} of data set '{dataset}'")
    return count


def _content(params: Params, dataset: str, noise: str | None, split: str | None) -> Exported:
    prepared = paths.prepared(dataset)
    catalogue = Catalogue.read(prepared)
    table, sentences = catalogue.images, catalogue.captions
    caption_images, used = sentences["image_id"].to_numpy(), np.ones(len(sentences), bool)
    if noise is not None:
        caption_images, used = _injected(params, dataset, noise)
    pictures = table.select(["image_id", "file", "split"]).to_pandas()
    pictures["label"] = catalogue.labels("image_id", pictures["image_id"].to_numpy())
    rows = pd.DataFrame({"image": pd.Index(pictures["image_id"]).get_indexer(caption_images)})
    rows["caption_id"], rows["text"] = sentences["caption_id"].to_numpy(), sentences["text"].to_pandas()
    rows["label"] = catalogue.labels("caption_id", rows["caption_id"].to_numpy())
    rows = rows[used & (pictures["split"].to_numpy()[rows["image"]] == split if split is not None else True)]
    if len(sentences):  # else a data set of pictures only
        pictures = pictures[pictures.index.isin(rows["image"])]
    elif split is not None:
        pictures = pictures[pictures["split"] == split]
    if not len(pictures):
        raise InputError(f"data set '{dataset}' has no pairs{f' of split {split}' if split else ''} to export")
    rows = rows.sort_values("image", kind="stable")
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
        warn(
            f"pairs: {partial} pairs have a weight between 0 and 1, which no form can hold; they are written as whole pairs"
        )
    return table["image_id"].to_numpy(), weights > 0


def csv(content: Exported, out: Path) -> int:
    """The columns of format csv: image, caption, split, image_id and caption_id."""
    _require_pairs(content)
    pictures = content.pictures.loc[content.rows["image"]]
    columns = {
        "image": pictures["file"].to_numpy(),
        "caption": content.rows["text"].to_numpy(),
        "split": pictures["split"].to_numpy(),
        "image_id": pictures["label"].to_numpy(),
        "caption_id": content.rows["label"].to_numpy(),
    }
    write_text(out, pd.DataFrame(columns).to_csv(index=False, lineterminator="\r\n"))
    _tell_root(content, out, "csv")
    return len(content.rows)


def karpathy(content: Exported, out: Path) -> int:
    """The document of format karpathy, an image on each line."""
    _require_pairs(content)
    columns = ("image", "label", "text")
    grouped = groupby(zip(*(content.rows[name].tolist() for name in columns), strict=True), itemgetter(0))
    described = {image: [(label, text) for _, label, text in group] for image, group in grouped}

    def entries() -> Iterator[str]:
        for image, file, split, label in content.pictures[["file", "split", "label"]].itertuples(name=None):
            sentences = [{"raw": text, "imgid": label, "sentid": number} for number, text in described[image]]
            folder, _, name = file.rpartition("/")
            entry = {"filename": name} | ({"filepath": folder} if folder else {})
            entry |= {"imgid": label, "split": split, "sentids": [number for number, _ in described[image]]}
            yield json.dumps({**entry, "sentences": sentences}, ensure_ascii=False)

    head = json.dumps(content.dataset)
    write_text(out, f'{{"dataset": {head}, "images": [\n' + ",\n".join(entries()) + "\n]}\n")
    _tell_root(content, out, "karpathy")
    return len(content.rows)


def keys(content: Exported, out: Path) -> int:
    """The keys of samples in tar shards, ``__key__`` of webdataset, one a line. Raises InputError for other images, and
    where two shards have the same key."""
    lines, files = pd.Series(_keys(content)), content.pictures["file"]
    if (outside := lines.isna().to_numpy()).any():
        raise InputError(f"--to keys: {files[outside].iloc[0]!r} is no member of a tar shard; take --to uids")
    if (again := lines.duplicated()).any():
        raise InputError(
            f"--to keys: {again.sum()} keys stand in several shards, the first is {lines[again].iloc[0]!r}; a list of keys cannot tell them apart"
        )
    return _write_lines(out, lines.tolist())


def uids(content: Exported, out: Path) -> int:
    """The ids of the images: the data set's own text, else the key in the shard, else the file.

    One a line; or for an ``out`` that ends in ``.npy`` the array of DataComp's resharder: pairs of uint64, the two
    halves of each uid of 32 hexadecimal digits, sorted. Raises InputError where the uids are others."""
    labels = (
        pa.array(content.pictures["label"], pa.string()) if content.has_names else pa.array(_keys(content), pa.string())
    )
    labels = pc.coalesce(labels, pa.array(content.pictures["file"], pa.string()))
    if out.suffix != ".npy":
        return _write_lines(out, labels.to_pylist())
    fits = pc.match_substring_regex(labels, _DATACOMP)
    if not pc.all(fits).as_py():
        first = labels.filter(pc.invert(fits))[0].as_py()
        raise InputError(
            f"--to uids: {first!r} has not the 32 hexadecimal digits of DataComp; name a file without .npy for a line each"
        )
    halves = np.frombuffer(bytes.fromhex("".join(labels.to_pylist())), ">u8").reshape(-1, 2).astype("u8")
    array = np.unique(halves, axis=0).view("u8,u8")[:, 0]
    write_array(out, array)
    return len(array)


# Functions by name; each returns the number of its entries.
TARGETS: dict[str, Callable[[Exported, Path], int]] = {one.__name__: one for one in (csv, karpathy, keys, uids)}


def _require_pairs(content: Exported) -> None:
    if not len(content.rows):
        raise InputError(f"data set '{content.dataset}' has no captions; take --to keys or uids")


def _keys(content: Exported) -> list[str | None]:
    """The key of each image's sample in its tar shard, folders included; None for what is no member of a shard. Only
    the headers of shards are read. Raises InputError for a shard that is damaged or not that which was prepared."""
    parts = pc.extract_regex(pa.array(content.pictures["file"], pa.string()), _MEMBER)
    places = list(zip(*(pc.struct_field(parts, name).to_pylist() for name in ("shard", "offset")), strict=True))
    keys: dict[tuple[str, str], str] = {}
    for shard in dict.fromkeys(shard for shard, _ in places if shard):
        with remote.open_remote(path := content.root / shard) as file:
            listed = shards.samples(path, file)
        keys |= {(shard, str(one.offset)): key for key, sample in listed.items() for one in sample.values()}
    if lost := [place for place in places if place[0] and place not in keys]:
        raise InputError(f"{lost[0][0]}: has no member at byte {lost[0][1]} any more; prepare the data set again")
    return [keys.get(place) for place in places]


def _write_lines(out: Path, lines: list[str]) -> int:
    if odd := next((line for line in lines if "\n" in line or "\r" in line), None):
        raise InputError(f"{out}: {odd!r} holds a line break, and the file has a line for each")
    write_text(out, "".join(f"{line}\n" for line in lines))
    return len(lines)


def _tell_root(content: Exported, out: Path, name: str) -> None:
    """Says how to read the file with the format, or that the format cannot open the images."""
    if pc.any(pc.match_substring_regex(pa.array(content.pictures["file"], pa.string()), _PLACE)).as_py():
        warn(f"pairs: the images are places in other files, which format {name} cannot open")
        return
    root = Path(os.path.relpath(content.root.resolve(), out.resolve().parent)).as_posix()
    source = out.relative_to(Path.cwd()) if out.is_relative_to(Path.cwd()) else out
    say(f"read it with {{format: {name}, source: {source}, images: {root}}}")
