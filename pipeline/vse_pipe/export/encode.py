"""encode: vectors of the user's captions or pictures by a trained run, equal to the vectors of ``embed`` for the same
content."""

import contextlib
import csv
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Float32

from vse_pipe.artifacts import embeddings, model_files
from vse_pipe.artifacts.embeddings import Side
from vse_pipe.core import devices, tables, text
from vse_pipe.core.console import say, track, warn
from vse_pipe.core.devices import resolve_device
from vse_pipe.core.errors import InputError, MissingResource, PipelineError, UsageError
from vse_pipe.embed.fitted import Fitted, fitted
from vse_pipe.embed.stage import BATCH, about_model, parts_of
from vse_pipe.extract.compute import Arrays, Read, batches
from vse_pipe.extract.job import Failure
from vse_pipe.pictures import images
from vse_pipe.pictures.images import Item
from vse_pipe.prepare.captions import caption_text
from vse_pipe.prepare.formats.options import ENDINGS
from vse_pipe.prepare.scan import walked
from vse_pipe.prepare.source import read_lines
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import BACKBONES, SIMILARITIES
from vse_pipe.search.network import PhotoEncoder
from vse_pipe.train import model as train_model
from vse_pipe.train import pictures, restore
from vse_pipe.train.model import DualEncoder

# Batches to read ahead while a GPU works. On a CPU readers and network would compete for the cores.
_AHEAD = 4


@dataclass(frozen=True)
class EncodedPictures:
    """Consecutive pictures. places: int64, positions of the readable pictures; vectors: one row for each; failures: of
    the other pictures, with the position as ``image_id``."""

    places: np.ndarray
    vectors: Float32[np.ndarray, "pictures dim"]
    failures: list[Failure]


@dataclass(frozen=True)
class Encoder:
    """Encoders of a run; the model is loaded when it is first needed. run: a name under runs; config: of its model."""

    params: Params
    run: str
    config: dict
    device: torch.device

    @classmethod
    def open(cls, params: Params, run: str, device: torch.device) -> "Encoder":
        """Raises InputError if the run is not trained, UsageError if it has more than one vector for a picture."""
        config = model_files.read_config(paths.trained(run), run)
        similarity = config["similarity"]["name"]
        if SIMILARITIES.traits(similarity).fragments:
            raise UsageError(
                f"run '{run}' compares regions with words ({similarity}): a picture or a caption of it is no single vector; "
                f"`vse-pipe embed --run {run} --dataset NAME` embeds further data sets"
            )
        if "peer_sha256" in config:
            raise UsageError(f"run '{run}' is the mean of two networks; encode works for runs of one")
        return cls(params, run, config, device)

    @property
    def about(self) -> dict[str, str]:
        """Footer entries for a file of these vectors: run, digest of the model, similarity."""
        return about_model(self.run, self.config)

    @property
    def dim(self) -> int:
        return self.config["embed_size"]

    def unknown_words(self, sentences: Iterable[str]) -> float | None:
        """Share of unknown words, as ``Fitted.unknown_share``."""
        return self._read.unknown_share(sentences)

    def captions(self, sentences: Iterable[str], count: int) -> Iterator[Float32[np.ndarray, "captions dim"]]:
        """Consecutive blocks of vectors, one row for each sentence. sentences: ``count`` texts, possibly more than fit
        in memory.

        The same sentences in the same order have exactly the vectors of ``embed``. In another order they differ by
        rounding, since a batch is padded to its longest caption. Raises InputError and IntegrityError as ``fitted``.
        """
        with tempfile.TemporaryDirectory(prefix="vse-pipe-") as folder:
            words = self._read.treated(Path(folder) / self._read.name, np.arange(count), sentences)
            for part in parts_of(count, self.dim, self.params.embed.memory):
                places = np.arange(part.start, part.stop)
                label = "encoding captions, batches"
                vectors = train_model.captions(self._model, words, places, self.device, title=label)
                assert isinstance(vectors, torch.Tensor)
                yield vectors.numpy()

    def images(self, folder: Path, files: Sequence[str]) -> Iterator[EncodedPictures]:
        """Blocks of the pictures ``files`` below ``folder``, with exactly the vectors of ``embed`` on the same machine.

        Raises UsageError if no network here computes the run's features, MissingResource and IntegrityError for missing
        or other weights.
        """
        read, size = self._reader(folder)
        items = [Item(place, file, "", str(folder / file)) for place, file in enumerate(files)]
        work = [items[start : start + size] for start in range(0, len(items), size)]
        rows = size if self._photo_encoder.backbone is None else BATCH
        inputs: list[np.ndarray] = []
        places: list[int] = []
        failures: list[Failure] = []
        with contextlib.closing(batches(work, read, _AHEAD if self.device.type == "cuda" else 0)) as reading:
            for batch in track(reading, len(work), "encoding images, batches"):
                failures += batch.failures
                places += [item.image_id for item in batch.items]
                inputs += [] if batch.arrays is None else [self._features(batch.arrays)]
                if len(places) >= rows:
                    yield self._block(inputs, rows, places, failures)
                    inputs, places, failures = [], [], []
        if places or failures:
            yield self._block(inputs, rows, places, failures)

    @property
    def _model(self) -> DualEncoder:
        return self._loaded[0]

    @cached_property
    def _loaded(self) -> tuple[DualEncoder, model_files.ModelFiles]:
        model, files = restore.load(paths.trained(self.run), self.run)
        return model.to(self.device), files

    @cached_property
    def _read(self) -> Fitted:
        return fitted(self.run, self._loaded[1])

    @cached_property
    def _photo_encoder(self) -> PhotoEncoder:
        encoder = PhotoEncoder.open(self.params, self.run, self._model, self.config, self.device)
        if encoder.forward is not None:
            node = self.params.features[self.config["features"]].backbone
            encoder.forward.even = 0 if BACKBONES.traits(node.name).independent else node.params.batch_size
        return encoder

    def _reader(self, folder: Path) -> tuple[Read, int]:
        """The function that reads a picture as an array, and the batch size, as in ``extract``."""
        if self._photo_encoder.backbone is not None:
            params = self.params.features[self.config["features"]].backbone.params
            return partial(self._photo_encoder.backbone.read, folder), params.batch_size
        described = self.config["backbone"]
        transform = pictures.transform(described)

        def pixels(item: Item) -> np.ndarray:
            return images.pixels(folder, item, transform)

        return pixels, min(BATCH, described["params"]["batch_size"])

    def _features(self, arrays: Arrays) -> np.ndarray:
        """Inputs of the image encoder: the network's features, or the pixels themselves."""
        if self._photo_encoder.forward is None:
            assert isinstance(arrays, np.ndarray)
            return arrays
        with devices.inference(self.device, self._photo_encoder.computing):
            return self._photo_encoder.forward(arrays).features

    def _block(self, inputs: list, size: int, places: list[int], failures: list[Failure]) -> EncodedPictures:
        """size: rows of a batch. The last batch is filled up, because the last bits depend on the number of rows."""
        vectors = np.empty((0, self.dim), np.float32)
        if inputs:
            rows, model = np.concatenate(inputs), self._model
            filled = torch.from_numpy(np.concatenate([rows, np.repeat(rows[-1:], -len(rows) % size, axis=0)]))
            filled = filled if self._photo_encoder.backbone is None else filled.float()
            with train_model.evaluating(model):
                parts = [model.img(part.to(self.device)).float().cpu() for part in filled.split(size)]
            vectors = torch.cat(parts)[: len(rows)].numpy()
        return EncodedPictures(np.array(places, np.int64), vectors, failures)


# Columns of a table of captions; of alternatives the first one in the table counts. Other columns are ignored.
_TEXTS, _IMAGES, _CAPTION_ID = ("caption", "text"), ("image_id", "image"), "caption_id"
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
# Footer key: the file or the folder that was encoded. `--out` replaces only files with this key.
_ENCODED = "encoded"
# Files of `embed` have a column of splits; test is the split that is searched by default.
_SPLIT = "test"
_SHOWN = 20


def encode_captions(
    params: Params, run: str, source: Path, column: str | None, out: Path, device: str = "auto"
) -> dict:
    """Write ``out``, a row for each caption of ``source``; returns counts.

    source: a text file with a caption in each line, whose ids are 0, 1, 2, ..., or a .csv or .tsv with a header.
    column: the column of captions. Raises UsageError for an unfit column or run, InputError for an empty caption or a
    repeated id, with the line.
    """
    _require_free(out)
    encoder = Encoder.open(params, run, resolve_device(device))
    listed = CaptionFile.read(source, column)
    share = encoder.unknown_words(listed)

    def sides() -> Iterator[Side]:
        start = 0
        for vectors in encoder.captions(listed, len(listed)):
            rows = slice(start, start := start + len(vectors))
            owners = np.empty(0) if listed.image_ids is None else listed.image_ids[rows]
            yield Side(listed.ids[rows], owners, np.full(len(vectors), _SPLIT), vectors, {})

    embeddings.write_each(out, sides(), {**encoder.about, _ENCODED: str(source)}, "captions")
    share_text = f"; {share:.1%} of their words are unknown to it" if share is not None else ""
    say(f"{out}: {len(listed)} captions, {encoder.dim} dimensions, by run {run}{share_text}")
    if share == 1:
        warn(f"run '{run}' knows no word of {source}; its captions are all but the same to it")
    _warn_of_similarity(encoder)
    unknown = {} if share is None else {"unknown_words": share}
    return {"out": str(out), "run": run, "captions": len(listed), "dimensions": encoder.dim, **unknown}


def encode_images(params: Params, run: str, source: Path, out: Path, device: str = "auto") -> dict:
    """Write ``out``, a row for each picture in ``source`` and its folders; returns counts, and the pictures that cannot
    be read.

    A picture's id is its path below ``source``. Raises UsageError for a run without a network for pictures, InputError
    if no picture can be read.
    """
    _require_free(out)
    if not source.is_dir():
        raise MissingResource(f"--images: {source} is no folder; give the folder that the pictures are in")
    encoder = Encoder.open(params, run, resolve_device(device))
    listed = walked(source)
    files = sorted(listed.stamps)
    left_out = list(listed.left_out)
    if not files:
        raise InputError(f"{source}: no picture in it or in its folders, which end in {', '.join(ENDINGS)}")
    names = np.array(files, dtype=object)
    count = 0

    def sides() -> Iterator[Side]:
        nonlocal count
        for block in encoder.images(source, files):
            left_out.extend(f"{files[failure.image_id]}: {failure.detail}" for failure in block.failures)
            if len(block.places):
                ids = names[block.places]
                count += len(ids)
                yield Side(ids, ids, np.full(len(ids), _SPLIT), block.vectors, {})
        if not count:
            raise InputError(f"{source}: none of {len(files)} pictures can be read; the first is {left_out[0]}")

    embeddings.write_each(out, sides(), {**encoder.about, _ENCODED: str(source)}, "images")
    say(f"{out}: {count} images, {encoder.dim} dimensions, by run {run}")
    if left_out:
        more = [f"and {len(left_out) - _SHOWN} more, which --json lists"] if len(left_out) > _SHOWN else []
        warn("\n".join([f"{source}: {len(left_out)} pictures are left out:", *left_out[:_SHOWN], *more]))
    _warn_of_similarity(encoder)
    return {"out": str(out), "run": run, "images": count, "dimensions": encoder.dim, "left_out": left_out}


@dataclass(frozen=True)
class CaptionFile:
    """An iterable of captions that reads the file on each pass. ids, image_ids: int64, or text if they are no numbers;
    image_ids: None if the file does not name the picture of a caption."""

    path: Path
    column: str | None
    ids: np.ndarray
    image_ids: np.ndarray | None

    @classmethod
    def read(cls, path: Path, column: str | None = None) -> "CaptionFile":
        """Read and check every row. column: the column of captions of a table, ``caption`` or ``text`` by default."""
        if not path.is_file():
            raise MissingResource(f"--captions: {path} is no file")
        if path.suffix not in _DELIMITERS:
            if column is not None:
                raise UsageError(f"--column is of a .csv or .tsv; {path} is read as a caption a line")
            count = sum(1 for _ in cls(path, None, np.empty(0), None))
            _require_some(count, path)
            return cls(path, None, np.arange(count), None)
        header = next(_cells(path), [])
        texts = _column(header, (column,) if column else _TEXTS, path)
        owner = next((name for name in _IMAGES if name in header), "")
        keys: dict[str, list[str]] = {name: [] for name in (_CAPTION_ID, owner) if name in header}
        for row in _rows(path):
            caption_text(row[texts], row[""])
            for name, column_ids in keys.items():
                column_ids.append(row[name])
        count = len(next(iter(keys.values()))) if keys else sum(1 for _ in _rows(path))
        _require_some(count, path)
        ids = _ids(keys.pop(_CAPTION_ID), path, unique=True) if _CAPTION_ID in keys else np.arange(count)
        owners = [_ids(cells, path) for cells in keys.values()]
        return cls(path, texts, ids, owners[0] if owners else None)

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[str]:
        if self.column is not None:
            yield from (row[self.column] for row in _rows(self.path))
            return
        empty = 0
        for number, line in enumerate(read_lines(self.path), start=1):
            if not line.strip():  # empty lines at the end are allowed
                empty = empty or number
                continue
            if empty:
                raise InputError(f"{self.path} line {empty}: the caption is empty; write one or remove the line")
            yield caption_text(line, f"{self.path} line {number}")


def _require_some(count: int, path: Path) -> None:
    if not count:
        raise InputError(f"{path}: holds no captions")


def _column(header: list[str], names: Iterable[str], path: Path) -> str:
    for name in names:
        if name in header:
            return name
    absent = " or ".join(names)
    raise UsageError(f"{path}: no column {absent}; name that of the captions with --column: {', '.join(header)}")


def _rows(path: Path) -> Iterator[dict[str, str]]:
    """Cells of each row by column, with the row's position under "". Empty rows are skipped."""
    cells = _cells(path)
    header = next(cells, [])
    for number, row in enumerate(cells, start=2):
        if not row:
            continue
        if len(row) != len(header):
            raise InputError(f"{path} row {number}: expected {len(header)} cells, there are {len(row)}")
        yield {**dict(zip(header, row, strict=True)), "": f"{path} row {number}"}


def _cells(path: Path) -> Iterator[list[str]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield from csv.reader(file, delimiter=_DELIMITERS[path.suffix], strict=True)
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 ({error.reason}); save it as UTF-8") from error
    except csv.Error as error:
        raise InputError(f"{path}: {error}; quote cells as RFC 4180 does") from error


def _ids(cells: list[str], path: Path, unique: bool = False) -> np.ndarray:
    """int64 if all ids are numbers, else text. Raises InputError for an invalid id, or with ``unique`` for a repeated
    one."""
    texts = pa.array(cells, pa.string())
    if wrong := text.objection(texts if unique else texts.unique()):
        raise InputError(f"{path}: id {wrong[1]}")
    if text.are_numbers(texts):
        return np.array([int(cell) for cell in cells], np.int64)
    return np.array(cells, dtype=object)


def _require_free(out: Path) -> None:
    """Raises UsageError unless ``out`` ends in .parquet and is free or written by ``encode``."""
    if out.suffix != ".parquet":
        raise UsageError(f"--out {out}: expected the name of a .parquet file")
    if not out.exists():
        return
    try:
        with tables.open_parquet(out) as file:
            ours = _ENCODED.encode() in (file.schema.metadata or {})
    except (PipelineError, OSError):
        ours = False
    if not ours:
        raise UsageError(f"--out: {out} exists and is no file of vse-pipe encode; choose another name")


def _warn_of_similarity(encoder: Encoder) -> None:
    similarity = encoder.about["similarity"]
    if similarity != "cosine":
        warn(f"run '{encoder.run}' compares by {similarity}; `rank` and `export --images` do not know it")
