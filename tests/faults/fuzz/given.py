"""Every format of files that people bring, and what reads it."""

import gzip
import json
import shutil
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from PIL import Image
from safetensors.torch import save_file

from tests.evaluate import files as embedded
from tests.extract.backbones import test_bottom_up as bottom_up
from tests.extract.texts import project as word_vectors
from tests.extract.texts.project import WORDS, as_binary, as_npz, as_text
from tests.faults.fuzz.child import Reader
from tests.prepare import _data as data
from tests.prepare.formats.test_parquet import hub
from tests.prepare.formats.test_webdataset import sample, shard
from tests.prepare.proposals import test_file as boxes_files
from tests.rules.sources import ROOT
from vse_pipe.artifacts import pairs
from vse_pipe.core import devices
from vse_pipe.core.files import sha256
from vse_pipe.core.word_vectors import read_word_vectors
from vse_pipe.evaluate.judgements import read_qrels
from vse_pipe.extract.backbones import precomp
from vse_pipe.extract.backbones.bottom_up import read_row, tsv_index
from vse_pipe.pictures import images
from vse_pipe.pictures.images import Item
from vse_pipe.prepare.proposals import file as from_file
from vse_pipe.prepare.proposals.file import proposer, read_boxes
from vse_pipe.prepare.regions import Picture
from vse_pipe.project.params.document import read_document
from vse_pipe.project.params.load import load
from vse_pipe.project.params.overlay import apply
from vse_pipe.ranking.vectors import Vectors

_KINDS = {"png": {}, "jpg": {}, "gif": {}, "webp": {}, "bmp": {}, "tiff": {"compression": "tiff_lzw"}, "ppm": {}}
_INDEX = np.random.default_rng(0).permutation(12)
_WORDS = ("words.npz", "words.bin", "words.vec", "words.txt", "words.txt.gz")
_WEIGHTS = {"a.weight": torch.arange(12.0).reshape(3, 4), "a.bias": torch.zeros(3)}
_MARKED = ["[/EN#1/people A man] with [/EN#2/clothing/other a hat] , [/EN#0/notvisual who] waits", "[/EN#3/scene rain]"]
_BOXES = data.marked(11, {(1, 2): (1, 1, 8, 6), (2,): (3, 2, 5, 2), (3,): "scene", (4,): "nobndbox"})
_PROPOSED = "boxes/b.npz"
_IMAGES = Path("a.npy"), Path("ids.npy")
_CAPTIONS = Path("b.npy"), Path("captions.txt"), Path("owners.npy")


def make() -> None:
    """All of them in the working directory, where ``own.make`` has left a project."""
    _data_sets()
    _weights_and_words()
    embedded.write_npy(embedded.sample(), Path())
    embedded.write(embedded.sample(), Path())
    Path("qrels.txt").write_text("caption_id image_id relevance\n10 1 1\n11 1 0\n10 2 0.5\n11 2 3\n")
    pq.write_table(pa.table({"image_id": [1, 2], "caption_id": [3, 4], "relevance": [1, 1]}), "qrels.parquet")
    np.save("index.npy", _INDEX)
    bottom_up.written(bottom_up.row(0), bottom_up.row(1))
    for kind, options in _KINDS.items():
        Image.fromarray(data.rows(9, shape=(12, 3)).astype(np.uint8)).save(f"p.{kind}", **options)
    shutil.copy(ROOT / "dvc.yaml", "dvc.yaml")
    Path("overlay.yaml").write_text("train: {epochs: 3}\nloss:\n  sum: {margin: 0.3}\n")


def _data_sets() -> None:
    names, splits = ["a.png", "b.png", "c.png"], ("train", "val", "test")
    Path("csv").mkdir()
    data.pictures(Path("csv"), names)
    rows = [f'{name},"a ""cat"", on {name}",{split}\n' for name, split in zip(names, splits, strict=True)]
    Path("csv/t.csv").write_text("image,caption,split\n" + "".join(rows))
    entries = [data.entry(number, split) for number, split in enumerate(splits)]
    data.karpathy(Path("json"), entries)
    data.precomp(Path("precomp"), data.three_splits())
    Path("cc").mkdir()
    for prefix, count in (("train", 3), ("dev", 1), ("test", 2)):
        np.save(f"cc/{prefix}_ims.npy", data.rows(count))
        Path(f"cc/{prefix}_caps.tsv").write_text("".join(f"{n}\tcaption {n}\n" for n in range(count)))
    shard(Path("tar/t.tar"), [*sample("a", 0), *sample("b", 1, "NA")])
    told = json.dumps({"caption": ["one", "two"]}).encode()
    shard(Path("tarjson/t.tar"), [("a.png", data.picture(0)), ("a.json", told)])
    data.entities(Path("entities"), {11: ("train", _MARKED, _BOXES)})
    Path(_PROPOSED).parent.mkdir()
    boxes_files.write(Path(_PROPOSED))
    Path("parquet").mkdir()
    table = pa.table({"image": hub(0, 3), "caption": [["a", "b"], ["NA"], ["c"]]})
    pq.write_table(table, "parquet/t.parquet", row_group_size=2)


def _weights_and_words() -> None:
    torch.save(_WEIGHTS, "w.pth")
    torch.save({"state_dict": _WEIGHTS}, "old.pt", _use_new_zipfile_serialization=False)
    save_file(_WEIGHTS, "w.safetensors")
    array = word_vectors.vectors()
    as_npz(Path("words.npz"), WORDS, array)
    plain = as_text(WORDS, array)
    Path("words.txt").write_bytes(plain)
    Path("words.txt.gz").write_bytes(gzip.compress(plain))
    Path("words.vec").write_bytes(as_text(WORDS, array, header=True))
    Path("words.bin").write_bytes(as_binary(WORDS, array))


def _prepared(kind: str, source: str, **options: object) -> object:
    found = data.read(kind, Path(source), Path("out"), **options)
    return found.images, found.captions, found.root, found.broken, found.phrases


def _proposed(path: Path) -> object:
    params = from_file.Params(path=str(path))
    return read_boxes(path), proposer(params, 3, 1)(Picture(Path(), Item(7, "12.png", "", "x"), 120, 80))


def _noise(path: Path) -> object:
    return pairs.read_noise_index(path, sha256(path), len(_INDEX), 60)


def _regions(path: Path) -> object:
    index, _ = tsv_index([path])
    return [read_row(index, Item(0, f"{bottom_up.NUMBERS[n]}.jpg", "", "x"), (3, 5)) for n in (0, 1)]


def _row(path: Path) -> object:
    return precomp.build(precomp.Params(), 1).read(Path(), Item(0, f"{path}#1", "", "x"))


def _overlay(path: Path) -> object:
    params = Path("changed.yaml")
    shutil.copy("params.yaml", params)
    apply(params, str(path), [])
    return read_document(params)


def _picture(path: Path) -> object:
    return images.load(Path(), Item(1, str(path), "", "x"))


def _sides() -> Iterable[Reader]:
    first, *ids = _IMAGES
    for name in _IMAGES:
        yield Reader(f"rank images {name}", name, partial(Vectors.of_files, first, None, image_ids=ids[0]))
    first, *ids = _CAPTIONS
    for name in _CAPTIONS:
        given = {"caption_ids": ids[0], "caption_images": ids[1]}
        yield Reader(f"rank captions {name}", name, partial(Vectors.of_files, None, first, "dot", **given))
    images, captions = Path("a.parquet"), Path("b.parquet")
    yield Reader("rank images parquet", images, partial(Vectors.of_files, images, None))
    yield Reader("rank captions parquet", captions, partial(Vectors.of_files, None, captions, "dot"))
    for name in ("qrels.txt", "qrels.parquet"):
        yield Reader(f"rank {name}", Path(name), partial(read_qrels, name))


def readers() -> list[Reader]:
    shares = {"val": 0.0, "test": 0.0}
    of_folders = {
        "precomp": ("train_ims.npy", "train_caps.txt"),
        "cc": ("train_caps.tsv", "train_ims.npy"),
        "entities": ("Sentences/11.txt", "Annotations/11.xml", "train.txt"),
    }
    prepare: dict[str, Callable[[], object]] = {
        **{name: partial(_prepared, "csv", "csv/t.csv") for name in ("csv/t.csv", "csv/a.png")},
        "json/dataset_tiny.json": partial(_prepared, "karpathy", "json"),
        **{f"{kind}/{name}": partial(_prepared, kind, kind) for kind, names in of_folders.items() for name in names},
        "tar/t.tar": partial(_prepared, "webdataset", "tar/t.tar", **shares),
        "tarjson/t.tar": partial(_prepared, "webdataset", "tarjson/t.tar", caption="json", **shares),
        "parquet/t.parquet": partial(_prepared, "parquet", "parquet/t.parquet", **shares),
    }
    alone: dict[str, tuple[str, Callable[[Path], object]]] = {
        "noise index.npy": ("index.npy", _noise),
        f"proposals {_PROPOSED}": (_PROPOSED, _proposed),
        "bottom-up a.tsv": ("tsv/a.tsv", _regions),
        "precomp row": ("cc/test_ims.npy", _row),
        **{f"weights {name}": (name, devices.read_weights) for name in ("w.pth", "old.pt", "w.safetensors")},
        **{f"words {name}": (name, _words) for name in _WORDS},
        **{f"picture {kind}": (f"p.{kind}", _picture) for kind in _KINDS},
        "params.yaml": ("params.yaml", load),
        "overlay.yaml": ("overlay.yaml", _overlay),
        "vectors .npy": ("a.npy", partial(Vectors.of_files, captions=None)),
    }
    found = [Reader(f"prepare {name}", Path(name), read) for name, read in prepare.items()]
    found += [Reader(name, Path(file), partial(read, Path(file))) for name, (file, read) in alone.items()]
    return [*found, *_sides()]


def _words(path: Path) -> object:
    return read_word_vectors(path, set(WORDS))
