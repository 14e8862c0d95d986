"""Small data in the form of what a reader of the documentation has: photographs, features, vectors of a model."""

import json
import shutil
import tarfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from PIL import Image

SPLITS = {"train": 8, "dev": 4, "test": 4}
WORDS = ["two", "dogs", "run", "along", "the", "water", "while", "a", "child", "sits", "on", "swing", "near", "tram"]


def picture(path: Path, seed: int = 0, size: tuple[int, int] = (48, 48)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (*size[::-1], 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)


def captions(seed: int, count: int = 5) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, 6, replace=False)) for _ in range(count)]


def karpathy(folder: Path) -> None:
    """``dataset_flickr8k.json`` with its pictures: five captions an image, as Flickr8k has."""
    images = []
    for split, count in SPLITS.items():
        for _ in range(count):
            number = len(images)
            sentences = [
                {"raw": text, "imgid": number, "sentid": number * 5 + place}
                for place, text in enumerate(captions(number))
            ]
            images.append(
                {
                    "filename": f"{number}.png",
                    "imgid": number,
                    "split": "val" if split == "dev" else split,
                    "sentids": [one["sentid"] for one in sentences],
                    "sentences": sentences,
                }
            )
            picture(folder / "images" / f"{number}.png", number)
    (folder / "dataset_flickr8k.json").write_text(json.dumps({"images": images, "dataset": "flickr8k"}))


def precomp(folder: Path) -> None:
    """VSE++'s layout with features of 32 numbers."""
    folder.mkdir(parents=True, exist_ok=True)
    for place, (split, count) in enumerate(SPLITS.items()):
        features(folder / f"{split}_ims.npy", count, seed=place)
        lines = [text for image in range(count) for text in captions(100 * place + image)]
        (folder / f"{split}_caps.txt").write_text("\n".join(lines) + "\n")


def tar_shards(folder: Path) -> None:
    """``train-000.tar`` and its like: a picture and a caption for each sample."""
    for split in ("train", "val", "test"):
        for number in range(3):
            picture(folder / "unpacked" / f"{number:06}.jpg", number)
            (folder / "unpacked" / f"{number:06}.txt").write_text(captions(number, 1)[0])
        with tarfile.open(folder / f"{split}-000.tar", "w") as shard:
            for file in sorted((folder / "unpacked").iterdir()):
                shard.add(file, file.name)


def picture_rows(folder: Path) -> None:
    """``train-000.parquet`` and its like: a picture's bytes and its captions in each row."""
    picture(folder / "0.png")
    row = {"image": {"bytes": (folder / "0.png").read_bytes(), "path": "0.png"}, "caption": captions(0, 2)}
    for split in ("train", "val", "test"):
        pq.write_table(pa.Table.from_pylist([row] * 3), folder / f"{split}-000.parquet")


def entities(folder: Path) -> None:
    """What stands beside sentences and annotations of picture 11: two more pictures like it, and the splits."""
    for number, split in zip((11, 22, 33), ("train", "val", "test"), strict=True):
        for name in ("Sentences/{}.txt", "Annotations/{}.xml"):
            (folder / name.format(number)).write_text((folder / name.format(11)).read_text())
        (folder / f"{split}.txt").write_text(f"{number}\n")
        picture(folder / f"flickr30k-images/{number}.jpg", number, (500, 375))


def features(path: Path, rows: int, seed: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, np.random.default_rng(seed).standard_normal((rows, 32)).astype(np.float32))


def word_vectors(path: Path) -> None:
    rng = np.random.default_rng(0)
    np.savez(path, words=np.array(WORDS), vectors=rng.standard_normal((len(WORDS), 8)).astype(np.float32))


def embeddings(root: Path) -> None:
    """Vectors in files of one's own, taken from the run ``hal``: those of the test split, the training captions as a bank."""
    source = root / "data" / "embed" / "hal"
    for side, letter in (("images", "a"), ("captions", "b")):
        table = pq.read_table(source / f"{side}.parquet")
        ranked = table.filter(pc.equal(table["split"], "test"))
        for name in (f"{side}.parquet", f"{letter}.parquet"):
            pq.write_table(ranked, root / name)
        vectors = ranked["embedding"].combine_chunks().flatten().to_numpy().reshape(len(ranked), -1)
        np.save(root / f"{letter}.npy", vectors)
        if side == "images":
            places = {number: row for row, number in enumerate(ranked["image_id"].to_pylist())}
        else:
            owners = [places[number] for number in ranked["image_id"].to_pylist()]
            np.save(root / "owners.npy", np.array(owners))
            pq.write_table(table.filter(pc.equal(table["split"], "train")), root / "train.parquet")


def evaluations(root: Path) -> None:
    """``DIR/nns`` and ``DIR/csls``."""
    shutil.copytree(root / "data" / "evaluate" / "hal", root / "DIR")


def own_csv(root: Path) -> None:
    """A few pictures in ``photos/`` with captions.csv."""
    rows = ["image,caption,split"]
    for number in range(16):
        split = "train" if number < 8 else "val" if number < 12 else "test"
        picture(root / "photos" / f"{number}.jpg", number)
        rows += [f"{number}.jpg,{text},{split}" for text in captions(number, 2)]
    (root / "photos" / "captions.csv").write_text("\n".join(rows) + "\n")


def overlay(path: Path) -> None:
    path.write_text(
        "replace: nodes\n"
        "datasets: {mine: {format: csv, source: photos/captions.csv}}\n"
        "features: {main: {dataset: mine, backbone: random_filters}}\n"
        "texts: {words: {dataset: mine, method: words, min_count: 1}}\n"
        "noises: {clean: {dataset: mine, protocol: image}}\n"
        "runs: {hal: {dataset: mine, features: main, texts: words, noise: clean, loss: hal, scheme: plain,"
        " similarity: cosine, text: gru, image: linear}}\n"
    )


def photos(folder: Path) -> None:
    """Three, one of them deeper."""
    for number, name in enumerate(("beach.jpg", "park.jpg", "2026/city.jpg")):
        picture(folder / name, number)
