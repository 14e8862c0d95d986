"""prepare: images.parquet, captions.parquet and phrases.parquet of a data set in any format."""

import time
from collections import Counter
from pathlib import Path

from vse_pipe.artifacts import captions, digests, identity, images, names, regions
from vse_pipe.core import files, memory
from vse_pipe.core.console import say, warn
from vse_pipe.core.errors import InputError, UsageError
from vse_pipe.core.files import sha256, whole_folder
from vse_pipe.core.locks import claim
from vse_pipe.prepare.source import Source, without_blanks
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Dataset, Params
from vse_pipe.project.registry import FORMATS

_FIRST = 3
_LEFT_OUT = 20


def prepare(params: Params, dataset: str, device: str = "auto") -> Path:
    """Write data/prepare/<dataset>/. Raises InputError for unusable data and then leaves the folder
    unchanged.

    Images that are missing or do not decode are unusable data, unless the data set has ``on_error:
    skip``. Then they keep their rows, and ``extract`` records why they have no features. device: of
    networks that propose boxes."""
    started = time.monotonic()
    node = params.datasets[dataset]
    out = paths.prepared(dataset)
    with (
        claim(out),
        memory.limit(node.memory, f"datasets.{dataset}.memory"),
        whole_folder(out) as folder,
    ):
        read = FORMATS.load(node.format.name).read
        devices = [device] if FORMATS.traits(node.format.name).proposes else []
        source = read(files.place(node.source), folder, node.format.params, params.seed, *devices)
        source = without_blanks(source)
        _tell_left_out(dataset, source.left_out)
        _refuse_broken(dataset, source, node)
        if node.decisions is not None:
            source = _decided(dataset, source, node.decisions)
        _write(folder, source, out)
    seconds = time.monotonic() - started
    paths.record_seconds(out, seconds)
    _report(dataset, source, seconds)
    return out


def _write(folder: Path, source: Source, out: Path) -> None:
    """Writes the tables and their identities into ``folder``, which becomes ``out``."""
    root = source.root
    if Path(root).is_relative_to(folder):  # of pictures that the format has drawn
        root = str(out / Path(root).relative_to(folder))
    read: identity.Inputs = {}
    if source.phrases is not None:
        regions.write_phrases(folder, source.phrases)
    if source.regions is not None:
        boxes = source.regions
        regions.write(folder, boxes.table, boxes.source, boxes.recall)
        read = identity.parts_of(Path(boxes.source), *images.SPLITS)
    if source.names is not None:
        names.write(folder, source.names)
    covered = [name for name in (regions.PHRASES, names.NAME) if (folder / name).is_file()]
    images.write(folder, source.images, root, {name: sha256(folder / name) for name in covered})
    captions.write(folder, source.captions)
    identity.write(folder, read, digests.prepared_parts(folder, source.images, source.captions))


def _decided(dataset: str, source: Source, path: str) -> Source:
    """The data set after the decisions in the file ``path``."""
    if source.phrases is not None or source.regions is not None:
        raise UsageError(
            f"datasets.{dataset}.decisions: the data set has boxes of phrases, which decisions on images and captions do not cover; leave it out"
        )
    from vse_pipe.prepare import decisions  # pandas, which other data sets do not need

    return decisions.apply(source, Path(path), dataset)


def _tell_left_out(dataset: str, lines: list[str]) -> None:
    for line in lines[:_LEFT_OUT]:
        warn(f"prepare {dataset}: left out: {line}")
    if (more := len(lines) - _LEFT_OUT) > 0:
        warn(f"prepare {dataset}: left out: and {more} more")


def _refuse_broken(dataset: str, source: Source, node: Dataset) -> None:
    """Raise InputError for broken images, under ``skip`` only when all are broken."""
    broken, count = source.broken, source.images.num_rows
    if not broken:
        return
    first = "; ".join(broken[:_FIRST])
    message = f"{len(broken)} of {count} images below {source.root} cannot be used: {first}"
    if len(broken) == count:
        raise InputError(f"{message}. No image is left; look at `source` and `images` in datasets.{dataset}")
    if node.on_error == "fail":
        raise InputError(f"{message}. To leave them out, set on_error: skip in datasets.{dataset}")
    warn(f"prepare {dataset}: {message}. extract will record them in index.parquet")


def _report(dataset: str, source: Source, seconds: float) -> None:
    tables = {"images": source.images, "captions": source.captions, "phrases": source.phrases}
    sizes = {name: Counter(table["split"].to_pylist()) for name, table in tables.items() if table}
    splits = [split for split in images.SPLITS if split in sizes["images"]]
    counts = [f"{split} {' / '.join(f'{size[split]} {name}' for name, size in sizes.items())}" for split in splits]
    line = f"prepare {dataset}: {', '.join(counts)}"
    if source.regions is not None:
        for split, recall in source.regions.recall.items():
            line += f", {100 * recall['recall']:.2f} % of {recall['mentions']} mentions of {split} covered (IoU 0.5)"
    say(f"{line}; {seconds:.1f} s")
