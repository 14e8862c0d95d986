"""A tiny data set of regions written by hand with the artefact modules: what training, mining, baselines and localisation
are tested on.

``scenes`` holds whole pictures, each with a row of coloured blocks and one caption a block, two of the first; ``boxes`` is what
``format: regions`` makes of it. The feature of a region says how much of it each colour takes, so that a model of colours
finds the blocks; the first block of every third picture has no proposal that covers it, so that it is found by no model.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from PIL import Image

from tests.sealed import sealed
from tests.toy_project import PARAMS, load_params
from vse_pipe.artifacts import captions, digests, embeddings, features, identity, images, regions
from vse_pipe.artifacts.embeddings import Side
from vse_pipe.core.files import sha256
from vse_pipe.extract.text_stage import extract_texts
from vse_pipe.inject.stage import inject
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params

WHOLE, REGIONS, FEATURES, TEXTS, WORDS, NOISE = "scenes", "boxes", "colours", "bags", "words", "shown"
COLOURS = {"red": (220, 30, 30), "green": (20, 160, 40), "blue": (30, 60, 220), "white": (240, 240, 240)}
NAMES = list(COLOURS)
WIDTH, HEIGHT, BLOCK, GAP = 72, 40, 16, 6
PICTURES = {"train": 12, "val": 4, "test": 6}
# Of each picture: this many beside one for each block that has any.
STRAY = 4
SECTIONS = {
    "datasets": {name: {"format": "csv", "source": f"{name}.csv"} for name in (WHOLE, REGIONS)},
    "features": {FEATURES: {"dataset": REGIONS, "backbone": "precomp"}},
    "texts": {
        WORDS: {"dataset": REGIONS, "method": "words", "min_count": 1},
        TEXTS: {"dataset": REGIONS, "method": "tfidf"},
    },
    "noises": {NOISE: {"dataset": REGIONS, "protocol": "image", "rate": 0.0}},
}


def run_of(**changes: object) -> dict:
    """A run on the regions: phrases as bags of words and regions as colours, in two linear branches."""
    members = {"text": "two_branch", "image": "linear", "loss": "sum", "scheme": "plain", "similarity": "cosine"}
    return {"dataset": REGIONS, "features": FEATURES, "texts": TEXTS, "noise": NOISE, **members, **changes}


def write_regions_project(root: Path, **runs: dict) -> Params:
    """Prepared, extracted and injected below ``root``, the working directory: ready to train. runs: {name: run_of(...)}."""
    drawn = _scenes(np.random.default_rng(4))
    _write_whole(drawn)
    _write_regions(drawn, np.random.default_rng(5))
    params = load_params(root, **{**SECTIONS, "runs": runs, "train": {**PARAMS["train"], "epochs": 2}})
    for name in (TEXTS, WORDS):
        extract_texts(params, name)
    inject(params, NOISE)
    return params


def write_embedded(
    run: str, noise: float = 0.05, splits: tuple[str, ...] = images.SPLITS, without: Sequence[int] = ()
) -> None:
    """data/embed/<run>/ as a model of colours would write it: the vector of a phrase is its colour, that of a region its
    feature, both of unit length. without: regions that could not be read."""
    folder = paths.prepared(REGIONS)
    of, said = images.read(folder), captions.read(folder)
    seen = features.read(paths.extracted(REGIONS, FEATURES)).array
    rng = np.random.default_rng(6)
    spoken = np.eye(len(NAMES))[[NAMES.index(text.split()[1]) for text in said["text"].to_pylist()]]
    about = {"run": run, "model_sha256": "0", "similarity": "cosine", "similarity_params": "{}", "normalised": "true"}
    about[embeddings.DATA] = json.dumps(
        digests.by_split(of.filter(pc.invert(pc.is_in(of["image_id"], pa.array(without, pa.int64())))), said)
    )
    sides = {
        embeddings.IMAGES: (of["image_id"], of["image_id"], of["split"], seen),
        embeddings.CAPTIONS: (said["caption_id"], said["image_id"], said["split"], spoken),
    }
    for name, (ids, owners, split, vectors) in sides.items():
        vectors = vectors + noise * rng.standard_normal(vectors.shape)
        vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
        side = Side(ids.to_numpy(), owners.to_numpy(), split.to_numpy(zero_copy_only=False), vectors, about)
        keep = np.isin(side.splits, splits) & ~np.isin(side.ids, without)
        paths.embedded(run).mkdir(parents=True, exist_ok=True)
        parts = (side.ids[keep], side.image_ids[keep], side.splits[keep], side.vectors[keep])
        embeddings.write(paths.embedded(run) / name, Side(*parts, about))
    read = identity.parts_of(folder, *images.SPLITS) | identity.parts_of(paths.trained(run))
    identity.write(paths.embedded(run), read, {})


def _scenes(rng: np.random.Generator) -> list[dict]:
    """A picture each: its split, pixels, and by block its colour and box (both corners inside)."""
    found = []
    for split, count in PICTURES.items():
        for _ in range(count):
            pixels = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
            blocks = []
            for place, colour in enumerate(rng.choice(NAMES, size=2 + len(found) % 2, replace=False)):
                x, y = GAP + place * (BLOCK + GAP), int(rng.integers(0, HEIGHT - BLOCK))
                pixels[y : y + BLOCK, x : x + BLOCK] = COLOURS[colour]
                blocks.append((str(colour), (x, y, x + BLOCK - 1, y + BLOCK - 1)))
            found.append({"split": split, "pixels": pixels, "blocks": blocks})
    return found


def _write_whole(drawn: list[dict]) -> None:
    folder = paths.prepared(WHOLE)
    (folder / "images").mkdir(parents=True)
    rows, texts, spoken = [], [], []
    for number, scene in enumerate(drawn):
        path = folder / "images" / f"{number}.png"
        Image.fromarray(scene["pixels"]).save(path)
        image = 100 + number
        rows.append((image, path.name, scene["split"], WIDTH, HEIGHT, sha256(path)))
        for chain, (colour, box) in enumerate(scene["blocks"]):
            about = "warm" if colour == "red" else "cool/plain"
            for phrase in (f"a {colour} block", f"the {colour} one")[: 1 + (chain == 0)]:
                caption = 1000 + len(texts)
                texts.append((caption, image, f"there is {phrase}", scene["split"]))
                spoken.append((5000 + len(spoken), caption, image, chain, 9, phrase, about, *box, scene["split"], None))
    images.write(folder, _table(images.SCHEMA, rows), str(folder / "images"))
    captions.write(folder, _table(captions.SCHEMA, texts))
    sealed(folder)
    regions.write_phrases(folder, _table(regions.PHRASES_SCHEMA, spoken))


def _write_regions(drawn: list[dict], rng: np.random.Generator) -> None:
    """Rows of one picture together: its blocks, then its proposals."""
    whole, folder = paths.prepared(WHOLE), paths.prepared(REGIONS)
    spoken = regions.read_phrases(whole)
    digests = images.read(whole)["sha256"].to_pylist()
    rows, boxes, texts, shares, owner = [], [], [], [], {}
    mentions = spoken.select(["phrase_id", "image_id", "chain", "text"]).to_pylist()
    for number, scene in enumerate(drawn):
        truth = [(box, False) for _, box in scene["blocks"]]
        for chain, (box, proposed) in enumerate(truth + [(box, True) for box in _proposals(scene, number, rng)]):
            x1, y1, x2, y2 = box
            image, width, height = 9000 + len(rows), x2 - x1 + 1, y2 - y1 + 1
            split = "proposal" if proposed else scene["split"]
            rows.append((image, f"{number}.png#xywh={x1},{y1},{width},{height}", split, width, height, digests[number]))
            boxes.append((image, 100 + number, *box, proposed, float(proposed and rng.random()), scene["split"]))
            shares.append(_colours(scene["pixels"][y1 : y2 + 1, x1 : x2 + 1]))
            for one in mentions:
                if (one["image_id"], one["chain"]) == (100 + number, chain) and not proposed:
                    texts.append((one["phrase_id"], image, one["text"], scene["split"]))
                    owner[one["phrase_id"]] = image
    folder.mkdir(parents=True)
    images.write(folder, _table(images.SCHEMA, rows), str(whole / "images"))
    captions.write(folder, _table(captions.SCHEMA, texts))
    sealed(folder)
    regions.write_phrases(
        folder, spoken.drop("region_id").append_column("region_id", [[owner[one["phrase_id"]] for one in mentions]])
    )
    regions.write(folder, _table(regions.SCHEMA, boxes), str(whole))
    n = len(rows)
    ids = [row[0] for row in rows]
    index = pa.table({"image_id": ids, "row": np.arange(n), "status": ["ok"] * n, "detail": [""] * n})
    features.write(paths.extracted(REGIONS, FEATURES), np.stack(shares), index, {"backbone": "precomp"})


def _proposals(scene: dict, number: int, rng: np.random.Generator) -> list[tuple[int, int, int, int]]:
    """One a block that overlaps it by more than a half, but none of the first block of every third picture; and strays
    above or below the blocks, none of which overlaps one by a half."""
    found = []
    for place, (_, (x1, y1, x2, y2)) in enumerate(scene["blocks"]):
        if place or number % 3:
            dx, dy = rng.integers(-2, 3, size=2)
            found.append((x1 + int(dx), max(y1 + int(dy), 0), x2 + int(dx), min(y2 + int(dy), HEIGHT - 1)))
    for _ in range(STRAY):
        x, y = int(rng.integers(0, WIDTH - BLOCK)), int(rng.integers(0, HEIGHT - 5))
        found.append((x, y, x + BLOCK - 1, y + 4))
    return found


def _colours(pixels: np.ndarray) -> np.ndarray:
    """(colours,) float32: the share of the pixels that each takes."""
    return np.array([(pixels == COLOURS[name]).all(-1).mean() for name in NAMES], np.float32)


def _table(schema: pa.Schema, rows: list[tuple]) -> pa.Table:
    return pa.table(dict(zip(schema.names, map(list, zip(*rows, strict=True)), strict=True)))
