"""Tiny data sets in every layout, written below a folder of the test, and a data set with whole pictures and phrases."""

import io
import json
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from tests.sealed import sealed
from vse_pipe.artifacts import captions, images, regions
from vse_pipe.core.errors import InputError
from vse_pipe.core.files import sha256
from vse_pipe.prepare import stage
from vse_pipe.prepare.source import Source
from vse_pipe.project.params.schema import EvaluateParams, GridParams, ReportParams
from vse_pipe.project.params.typed import Dataset, Member, Params
from vse_pipe.project.registry import FORMATS

ODD_CAPTIONS = [
    "NA", "null", 'she said "no", twice', "tab\there, comma", "line\u2028separator and next\u0085line",
    "\u0627\u0644\u0642\u0637\u0629 \U0001f408 caf\u00e9 cafe\u0301", "  spaces are kept  ", "=1+1", "x" * 50_000,
]  # fmt: skip


def picture(number: int, size: tuple[int, int] = (8, 6), kind: str = "PNG") -> bytes:
    """A small image of which no two numbers are the same."""
    pixels = np.random.default_rng(number).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind)
    return stream.getvalue()


def pictures(folder: Path, names: list[str]) -> None:
    for number, name in enumerate(names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture(number))


def entry(number: int, split: str = "train", captions: tuple[str, ...] = ("a cat", "a dog")) -> dict:
    """One image of a Karpathy json; sentence ids are ten times the image's number and on."""
    sentences = [{"raw": text, "imgid": number, "sentid": 10 * number + k} for k, text in enumerate(captions)]
    return {"filename": f"{number}.png", "imgid": number, "split": split, "sentences": sentences}


def karpathy(folder: Path, entries: list[dict], name: str = "dataset_tiny.json") -> Path:
    """The json and one picture per entry that names a plain file."""
    pictures(folder / "images", [f"{e.get('filepath', '.')}/{e['filename']}" for e in entries])
    (folder / name).write_text(json.dumps({"dataset": "tiny", "images": entries}), encoding="utf-8")
    return folder


def coco(path: Path, files: list[str], captions: list[tuple[int, str | None]]) -> Path:
    """A json of COCO's annotations. captions: image and text; ids of images are 10 and on, of captions 500 and down."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pictured = [{"id": 10 + number, "file_name": file, "license": 1} for number, file in enumerate(files)]
    said = [{"id": 500 - k, "image_id": 10 + n, "caption": text} for k, (n, text) in enumerate(captions)]
    path.write_text(json.dumps({"info": {}, "images": pictured, "annotations": said}), encoding="utf-8")
    return path


def precomp(folder: Path, splits: dict[str, tuple[np.ndarray, list[str]]] | None = None) -> Path:
    """splits: prefix -> (rows, captions); else those of ``three_splits``."""
    folder.mkdir(parents=True, exist_ok=True)
    for prefix, (rows, texts) in (splits or three_splits()).items():
        np.save(folder / f"{prefix}_ims.npy", rows)
        (folder / f"{prefix}_caps.txt").write_bytes("".join(f"{text}\n" for text in texts).encode())
    return folder


Members = list[tuple[str, bytes]]


def shard(path: Path, members: Members) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def sample(key: str, number: int, caption: str = "a cat\n") -> Members:
    return [(f"{key}.png", picture(number)), (f"{key}.txt", caption.encode()), (f"{key}.cls", b"7")]


def marked(number: int, boxes: dict[tuple, tuple | str], size: tuple[int, int] = (8, 6)) -> str:
    """One picture's annotations of Flickr30k Entities. boxes: to chains their xmin, ymin, xmax and ymax, or the flag set."""
    objects = ""
    for chains, box in boxes.items():
        names = "".join(f"<name>{chain}</name>" for chain in chains)
        edges = ("xmin", "ymin", "xmax", "ymax")
        told = {"scene": int(box == "scene"), "nobndbox": int(box == "nobndbox")}
        told = told if isinstance(box, str) else dict(zip(edges, box, strict=True))
        inner = "".join(f"<{name}>{value}</{name}>" for name, value in told.items())
        objects += f"<object>{names}{inner if isinstance(box, str) else f'<bndbox>{inner}</bndbox>'}</object>\n"
    width, height = (f"<{name}>{value}</{name}>" for name, value in zip(("width", "height"), size, strict=True))
    picture = f"<filename>{number}.jpg</filename>\n<size>{width}{height}<depth>3</depth></size>"
    head = f"{picture}\n<segmented>0</segmented>\n"
    return f"<annotation>\n{head}{objects}</annotation>\n"


def entities(folder: Path, found: dict[int, tuple[str, list[str], str]]) -> Path:
    """Flickr30k Entities. found: to each picture's id its split, its marked captions, and its annotations."""
    for part in ("Sentences", "Annotations", "flickr30k-images"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    for split in ("train", "val", "test"):
        (folder / f"{split}.txt").write_text("".join(f"{number}\n" for number, one in found.items() if one[0] == split))
    for number, (_, lines, xml) in found.items():
        (folder / f"Sentences/{number}.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        (folder / f"Annotations/{number}.xml").write_text(xml, encoding="utf-8")
        (folder / f"flickr30k-images/{number}.jpg").write_bytes(picture(number, kind="JPEG"))
    return folder


def rows(count: int, seed: int = 0, shape: tuple[int, ...] = (4,), dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, *shape)).astype(dtype)


def three_splits(per_image: int = 2) -> dict[str, tuple[np.ndarray, list[str]]]:
    """3 train, 1 dev and 2 test images with ``per_image`` captions each."""
    counts = {"train": 3, "dev": 1, "test": 2}
    return {name: (rows(n, n), [f"{name} {i}" for i in range(n * per_image)]) for name, n in counts.items()}


def read(kind: str, source: Path, out: Path, seed: int = 1, **options) -> Source:
    member = FORMATS.load(kind)
    return member.read(source, out, member.Params(**options), seed)


def prepare(
    kind: str, source: Path | str, seed=1, on_error="fail", memory=4096, device="auto", decisions=None, **options
) -> Path:
    """Run the stage on a data set called ``tiny``; the working folder must be the test's own."""
    member, about = Member(kind, FORMATS.options(kind)(**options)), {"on_error": on_error, "memory": memory}
    dataset = Dataset(
        format=member, source=str(source), decisions=None if decisions is None else str(decisions), **about
    )
    empty = {"features": {}, "texts": {}, "noises": {}, "runs": {}, "inference": {}}
    sections = {"grid": GridParams(inferences=["nns"]), "evaluate": EvaluateParams(), "report": ReportParams()}
    return stage.prepare(Params(seed=seed, datasets={"tiny": dataset}, **sections, **empty), "tiny", device)


def captions_by_file(source: Source) -> dict[str, list[str]]:
    files = dict(zip(source.images["image_id"].to_pylist(), source.images["file"].to_pylist(), strict=True))
    grouped: dict[str, list[str]] = {file: [] for file in files.values()}
    for row in source.captions.to_pylist():
        grouped[files[row["image_id"]]].append(row["text"])
    return grouped


SOURCE = Path("data/prepare/whole")
WIDTH, HEIGHT = 60, 40
ORIENTATION = 0x0112
WORDS = ["a man", "the dog", "a red ball", "grass"]
SPLITS = {3: "train", 9: "test", 4: "train", 7: "val", 1: "train"}


def write_whole(rows: list[tuple], splits: dict[int, str], orientation: int = 1) -> None:
    """rows: image_id, text, box; one picture for each key of ``splits``."""
    (SOURCE / "images").mkdir(parents=True, exist_ok=True)
    pictured = []
    for number, split in splits.items():
        pixels = np.random.default_rng(number).integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)
        exif = Image.Exif()
        exif[ORIENTATION] = orientation
        path = SOURCE / "images" / f"p{number}.png"
        Image.fromarray(pixels).save(path, exif=exif)
        size = (WIDTH, HEIGHT) if orientation < 5 else (HEIGHT, WIDTH)
        pictured.append((number, path.name, split, *size, sha256(path)))
    images.write(SOURCE, _table(images.SCHEMA, pictured), str(SOURCE / "images"))
    said = [(n, f"{text}.", splits.get(n, "test")) for n, text, _ in rows]
    captions.write(SOURCE, _table(captions.SCHEMA, [(900 + k, *row) for k, row in enumerate(said)]))
    sealed(SOURCE)
    spoken = [
        (500 + k, 900 + k, n, k, 0, text, "thing", *map(float, box), splits.get(n, "test"), None)
        for k, (n, text, box) in enumerate(rows)
    ]
    regions.write_phrases(SOURCE, _table(regions.PHRASES_SCHEMA, spoken))


def _table(schema: pa.Schema, rows: list[tuple]) -> pa.Table:
    return pa.table(list(map(list, zip(*rows, strict=True))), schema=schema)


def drawn_phrases(count: int, splits: dict[int, str]) -> list[tuple]:
    """Few boxes and few words, so that both come again."""
    rng = np.random.default_rng(3)
    boxes = [(0, 0, 9, 9), (5, 5, 30, 39), (2.5, 3.2, 20.1, 30), (40, 10, 59, 20)]
    picked = zip(rng.choice(list(splits), count), rng.integers(0, 4, count), rng.integers(0, 4, count), strict=True)
    return [(int(n), WORDS[word], boxes[box]) for n, word, box in picked]


def made_regions(**options) -> tuple[list[dict], list[dict], list[dict], pa.Table]:
    out = prepare("regions", SOURCE, **options)
    table = regions.read(out)
    rows = [images.read(out), captions.read(out), regions.read_phrases(out)]
    return *(part.to_pylist() for part in rows), table


def refused_regions(message: str, error: type[Exception] = InputError, **options) -> None:
    shutil.rmtree("data/prepare/tiny", ignore_errors=True)
    with one_line(message, error):
        prepare("regions", SOURCE, **options)
    assert not Path("data/prepare/tiny").exists()


@contextmanager
def one_line(message: str, error: type[Exception] | tuple = InputError) -> Iterator[pytest.ExceptionInfo]:
    """An error with ``message`` in its one line."""
    with pytest.raises(error) as caught:
        yield caught
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
