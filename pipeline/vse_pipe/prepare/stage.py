"""prepare: read a data set in any format into images.parquet, captions.parquet and, where it has them, phrases.parquet."""

import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.artifacts import captions, images, names, regions
from vse_pipe.core import files, memory
from vse_pipe.core.console import say, warn
from vse_pipe.core.errors import InputError
from vse_pipe.core.files import sha256, whole_folder
from vse_pipe.core.locks import claim
from vse_pipe.core.text import shown_id
from vse_pipe.prepare.source import Source
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Dataset, Params
from vse_pipe.project.registry import FORMATS

_SHOWN = 3
_LEFT_OUT = 20


def prepare(params: Params, dataset: str, device: str = "auto") -> Path:
    """Write data/prepare/<dataset>/. Raises InputError on unusable data and then leaves what was there before.

    Images that are missing or do not decode are unusable data too, unless the data set says ``on_error: skip``: then
    they keep their rows, and ``extract`` records why they have no features. device: of proposals that a network makes.
    """
    started = time.monotonic()
    node = params.datasets[dataset]
    out = paths.prepared(dataset)
    with (
        claim(out),
        memory.limit(node.memory, f"datasets.{dataset}.memory"),
        whole_folder(
            out, [images.NAME, captions.NAME, names.NAME, regions.PHRASES, regions.NAME, images.DRAWN]
        ) as folder,
    ):
        read = FORMATS.load(node.format.name).read
        where = [device] if FORMATS.traits(node.format.name).proposes else []
        source = read(files.place(node.source), folder, node.format.params, params.seed, *where)
        _tell_left_out(dataset, source.left_out)
        check(dataset, source)
        _decide(dataset, source, node)
        beside = {}
        if source.phrases is not None:
            regions.write_phrases(folder, source.phrases)
        if source.regions is not None:
            boxes = source.regions
            regions.write(folder, boxes.table, boxes.source, boxes.recall, boxes.source_data)
            beside = {regions.PHRASES: sha256(folder / regions.PHRASES)}
        if source.names is not None:
            names.write(folder, source.names)
            beside |= {names.NAME: sha256(folder / names.NAME)}
        images.write(folder, source.images, _settled_root(source.root, folder, out), beside)
        captions.write(folder, source.captions)
    seconds = time.monotonic() - started
    paths.record_seconds(out, seconds)
    _report(dataset, source, seconds)
    return out


def check(dataset: str, source: Source) -> None:
    """Raises InputError when captions and images do not fit together.

    A box that is only proposed has no caption, and a data set may have none at all. Where other images have some, one without
    is refused: as a query it would have no correct answer, and no recall is defined.
    """
    if not source.captions.num_rows:
        return
    image_ids, owners = (source.images["image_id"].combine_chunks(), source.captions["image_id"].combine_chunks())
    rows = pc.index_in(owners, value_set=image_ids)
    _refuse(dataset, source.captions.filter(pc.is_null(rows)), "caption_id", "its image_id {image_id} does not exist")
    differs = pc.not_equal(source.images["split"].take(rows), source.captions["split"])
    _refuse(
        dataset, source.captions.filter(differs), "caption_id", "its split {split} is not that of image_id {image_id}"
    )
    proposed = pc.equal(source.images["split"].combine_chunks(), images.PROPOSAL)
    bare = pc.invert(pc.or_(proposed, pc.is_in(image_ids, value_set=owners)))
    _refuse(
        dataset,
        source.images.filter(bare),
        "image_id",
        "{file} has no caption; write one, or leave the image out of the data set",
    )


def _refuse(dataset: str, wrong: pa.Table, key: str, problem: str) -> None:
    if wrong.num_rows:
        first = wrong.slice(0, 1).to_pylist()[0]
        more = f" (and {wrong.num_rows - 1} more)" if wrong.num_rows > 1 else ""
        raise InputError(f"data set {dataset}, {key} {first[key]}: {problem.format(**first)}{more}")


def _tell_left_out(dataset: str, lines: list[str]) -> None:
    for line in lines[:_LEFT_OUT]:
        warn(f"prepare {dataset}: left out: {line}")
    if (more := len(lines) - _LEFT_OUT) > 0:
        warn(f"prepare {dataset}: left out: and {more} more")


def _decide(dataset: str, source: Source, node: Dataset) -> None:
    """Raises InputError for broken images, under ``skip`` only when there are no others."""
    broken, count = source.broken, source.images.num_rows
    if not broken:
        return
    more = f"; and {len(broken) - _SHOWN} more" if len(broken) > _SHOWN else ""
    found = f"{len(broken)} of {count} images below {source.root} cannot be used: {'; '.join(broken[:_SHOWN])}{more}"
    if len(broken) == count:
        raise InputError(f"{found}. {_elsewhere(dataset, source, node) or 'There is no image to go on with'}")
    if node.on_error == "fail":
        raise InputError(f"{found}. To leave them out, set on_error: skip in datasets.{dataset}")
    warn(f"prepare {dataset}: {found}. extract will record them in errors.parquet")


def _elsewhere(dataset: str, source: Source, node: Dataset) -> str:
    """Where the format lets the user name the folder of the images, how, and the folder if it is one below the root."""
    params, root = node.format.params, Path(source.root)
    there = pc.any(pc.not_equal(source.images["sha256"], images.UNREAD)).as_py()
    if there or not isinstance(getattr(params, "images", None), str):
        return ""
    first = source.images["file"][0].as_py()
    folders = sorted(path.name for path in root.iterdir() if (path / first).is_file()) if root.is_dir() else []
    named = (Path(params.images) / folders[0]).as_posix() if folders else "FOLDER"
    return f"If they lie in another folder, name it: images: {named} in datasets.{dataset}"


def _settled_root(root: str, folder: Path, out: Path) -> str:
    """Images drawn into ``folder`` lie below ``out`` once the folder has been renamed."""
    return str(out / Path(root).relative_to(folder)) if Path(root).is_relative_to(folder) else root


def _report(dataset: str, source: Source, seconds: float) -> None:
    tables = {"images": source.images}
    tables |= {"captions": source.captions} if len(source.captions) else {}  # none of pictures that are only searched
    tables |= {"phrases": source.phrases} if source.phrases is not None else {}
    counts = []
    for split in images.SPLITS if source.regions is not None else images.DESCRIBED:
        if "captions" not in tables and not pc.any(pc.equal(source.images["split"], split)).as_py():
            continue
        found = [f"{pc.sum(pc.equal(table['split'], split)).as_py() or 0} {name}" for name, table in tables.items()]
        counts.append(f"{split} {' / '.join(found)}")
    if source.regions is not None:
        covered = [_covered(split, of) for split, of in source.regions.recall.items()]
        say(f"prepare {dataset}: {', '.join([*counts, *covered])}; {seconds:.1f} s")
        return
    known = source.images.filter(pc.not_equal(source.images["sha256"], images.UNREAD))
    digests, texts = _hashes(known["sha256"]), _hashes(source.captions["text"])
    repeated = [len(one) - len(np.unique(one)) for one in (digests, texts)]
    again = f"{repeated[0]} images" + (f", {repeated[1]} captions" if "captions" in tables else "")
    say(f"prepare {dataset}: {', '.join(counts)}; repeated: {again}; {seconds:.1f} s")
    files, wheres = known["file"], known["split"]
    if repeated[0]:
        pairs = [f"{files[row]} as {files[first]}" for row, first in _first_repeated(digests)]
        _tell_repeated(
            dataset, "images", pairs, repeated[0], f"the same sha256 in {paths.prepared(dataset) / images.NAME}"
        )
    if repeated[1]:
        said, owners = source.captions["text"], source.captions["image_id"]
        pairs = [
            f"{shown_id(said[row].as_py())} of image_id {_named(source, owners[row])} as of {_named(source, owners[first])}"
            for row, first in _first_repeated(texts)
        ]
        _tell_repeated(
            dataset, "captions", pairs, repeated[1], f"the same text in {paths.prepared(dataset) / captions.NAME}"
        )
    of_splits = [np.unique(digests[pc.equal(wheres, name).to_numpy()]) for name in images.SPLITS]
    contents, splits = np.unique(np.concatenate(of_splits), return_counts=True)
    if len(shared := contents[splits > 1]):
        places = [np.flatnonzero(digests == content) for content in shared[:_SHOWN]]
        pairs = [
            ", ".join(f"{files[row]} ({wheres[row]})" for row in rows[:_SHOWN]) for rows in sorted(places, key=min)
        ]
        warn(
            f"prepare {dataset}: {len(shared)} images are in more than one split with the same content: {'; '.join(pairs)}"
            + ("; ..." if len(shared) > _SHOWN else "")
        )


def _first_repeated(hashes: np.ndarray) -> list[tuple[int, int]]:
    """(row, the first row that is alike) of the first rows that repeat an earlier one."""
    values, counts = np.unique(hashes, return_counts=True)
    rows = np.flatnonzero(np.isin(hashes, values[counts > 1]))
    first: dict[int, int] = {}
    pairs = []
    for row, value in zip(rows.tolist(), hashes[rows].tolist(), strict=True):
        if value in first:
            pairs.append((row, first[value]))
            if len(pairs) == _SHOWN:
                break
        first.setdefault(value, row)
    return pairs


def _tell_repeated(dataset: str, what: str, pairs: list[str], count: int, where: str) -> None:
    more = f"; and {count - len(pairs)} more" if count > len(pairs) else ""
    say(f"prepare {dataset}: repeated {what}: {'; '.join(pairs)}{more}. Repeated {what} have {where}")


def _named(source: Source, image_id: pa.Scalar) -> int | str:
    number = image_id.as_py()
    return number if source.names is None else source.names.label("image_id", number)


def _hashes(column: pa.ChunkedArray) -> np.ndarray:
    """64 bits of each text, enough to count those that are alike: of 10^8 two others are so once in 3,000 calls. The texts
    themselves would take gigabytes."""
    parts = [np.fromiter(map(hash, chunk.to_pylist()), np.int64, len(chunk)) for chunk in column.chunks]
    return np.concatenate([np.empty(0, np.int64), *parts])


def _covered(split: str, of: dict) -> str:
    return f"recall of the proposals at IoU 0.5 over {of['mentions']} mentions of {split}: {100 * of['recall']:.2f} %"
