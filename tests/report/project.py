"""A small project with every artefact that the report reads: pictures, captions, rankings, audits."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from PIL import Image, ImageDraw

from tests.sealed import sealed
from vse_pipe.artifacts import audit, captions, evaluation, identity, images, model_files
from vse_pipe.artifacts.digests import by_split
from vse_pipe.core.files import write_json
from vse_pipe.core.strict import Strict
from vse_pipe.project import paths
from vse_pipe.project.params.schema import EvaluateParams, GridParams, ReportParams, TrainParams
from vse_pipe.project.params.typed import Dataset, FeatureSet, Member, Noise, Params, Run, TextSet

IMAGES, CAPTIONS_EACH = 60, 5
CRITERIA = ["nns", "is", "csls", "gm", "rgm", "is+rgm", "csls+rgm"]
RUNS = {"sum": 0.9, "max": 1.15, "hal": 1.4}
# How much of an item's popularity each criterion takes away.
_CORRECTION = {"nns": 0.0, "is": 0.8, "csls": 1.0, "gm": 0.4, "rgm": 0.6, "is+rgm": 0.9, "csls+rgm": 1.1}
_MEMBERS = {"scheme": "plain", "similarity": "cosine", "text": "gru", "image": "linear", "sampler": "captions"}
# Two runs share a value, so that a sweep over it has a band.
BETAS = {"sum": 10.0, "max": 10.0, "hal": 80.0}
SWEEPS = {
    "steepness": {"x": "loss.beta", "runs": ["hal", "sum", "max"], "title": "beta of the loss"},
    "batch": {"x": "train.batch_size", "runs": ["hal"], "baselines": ["sum", "max"], "inference": "csls"},
    "convergence": {"x": "epoch", "runs": ["sum", "hal"]},
}
# What a page needs around a section that is looked at by itself.
LITTLE = {"runs": ["sum", "hal"], "inferences": ["nns"], "examples": 2}
_COLOURS = ["crimson", "seagreen", "royalblue", "goldenrod", "purple", "darkorange"]
_SHAPES = ["circle", "square", "triangle"]


class Beta(Strict):
    beta: float = 30.0


class Nothing(Strict): ...


def params(runs: list[str] | None = None, inferences: list[str] | None = None, **report) -> Params:
    """What params.yaml would load to, without the families' modules."""
    return Params(
        seed=1, grid=GridParams(inferences=inferences or CRITERIA),
        datasets={"shapes": Dataset(format=Member("shapes", Nothing()), source="pictures")},
        features={"small": FeatureSet(dataset="shapes", backbone=Member("torchvision", Nothing()))},
        texts={"words": TextSet(dataset="shapes", method=Member("words", Nothing()))},
        noises={"clean": Noise("shapes", Member("image", Nothing()))},
        runs={name: _run(name) for name in (RUNS if runs is None else runs)}, evaluate=EvaluateParams(),
        inference={"is": Beta(), "nns": Nothing()},
        report=ReportParams(**{"title": "Shapes, three losses", "examples": 8, **report}),
    )  # fmt: skip


def _run(name: str) -> Run:
    plain = {key: Member(member, Nothing()) for key, member in _MEMBERS.items()}
    loss = Member(name, Beta(beta=BETAS[name]))
    return Run("shapes", "small", "words", "clean", loss=loss, **plain, train=TrainParams())


def write(root: Path, texts: dict[int, str] | None = None) -> None:
    """Every artefact below ``root``; ``texts`` replaces captions by caption_id."""
    scenes = _draw(root / "pictures")
    _prepare(root, scenes, texts or {})
    for name, strength in RUNS.items():
        _history(root / paths.trained(name), strength)
        write_json(root / paths.trained(name) / "config.json", digests(name))
        read = {name: f"{number:064x}" for number, name in enumerate(("features", "texts", "pairs"), start=1)}
        identity.write(root / paths.trained(name), {"data/extract/shapes": read}, {"weights": "1"})
        for inference in CRITERIA:
            write_evaluation(root / paths.evaluated(name, inference), name, inference, strength)


def section(page: str, name: str) -> str:
    """The section of the page with the id ``name``; empty where there is none."""
    found = re.search(rf'<section[^>]*id="{name}".*?\n *</section>', page, re.DOTALL)
    return found.group(0) if found else ""


def words(html: str) -> list[str]:
    return re.sub(r"<[^>]+>", " ", html).split()


def digests(run: str) -> dict:
    """What training writes into config.json of what it made; another number for each run."""
    return {"sha256": {"model.safetensors": f"{list(RUNS).index(run) + 10:064x}"}}


def _draw(folder: Path) -> list[str]:
    """One picture of two shapes per image; returns what it shows."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    scenes = []
    for number in range(IMAGES):
        picture = Image.new("RGB", (160, 120), (235 - number, 238, 230 + number % 20))
        pen = ImageDraw.Draw(picture)
        words = []
        for left in (14, 86):
            colour, shape = _COLOURS[rng.integers(6)], _SHAPES[rng.integers(3)]
            top = int(rng.integers(10, 50))
            box = (left, top, left + 60, top + 60)
            triangle = [(left + 30, top), (left, top + 60), (left + 60, top + 60)]
            draw = {"circle": pen.ellipse, "square": pen.rectangle, "triangle": pen.polygon}[shape]
            draw(triangle if shape == "triangle" else box, fill=colour)
            words.append(f"{colour.removeprefix('dark')} {shape}")
        picture.save(folder / f"{number:03d}.png")
        scenes.append(" to the left of a ".join(words))
    return scenes


def caption_ids(image: int) -> range:
    return range(1000 + CAPTIONS_EACH * image, 1000 + CAPTIONS_EACH * (image + 1))


def _prepare(root: Path, scenes: list[str], texts: dict[int, str]) -> None:
    folder = root / paths.prepared("shapes")
    each = {"split": "test", "width": 160, "height": 120, "sha256": ""}  # tests write over pictures
    files = [f"{number:03d}.png" for number in range(IMAGES)]
    table = {"image_id": range(IMAGES), "file": files, **{key: [value] * IMAGES for key, value in each.items()}}
    images.write(folder, pa.table(table).cast(images.SCHEMA), "pictures")
    starts = ["a {}", "there is a {}", "the picture shows a {}", "a {} on a plain ground", "one can see a {}"]
    ids = [number for image in range(IMAGES) for number in caption_ids(image)]
    owners = [image for image in range(IMAGES) for _ in starts]
    said = [text.format(scene) for scene in scenes for text in starts]
    said = [texts.get(number, text) for number, text in zip(ids, said, strict=True)]
    columns = {"caption_id": ids, "image_id": owners, "text": said, "split": ["test"] * len(ids)}
    captions.write(folder, pa.table(columns))
    sealed(folder)


def _history(folder: Path, strength: float) -> None:
    rng = np.random.default_rng(int(strength * 100))
    rows = []
    for epoch in range(1, 16):
        row = dict.fromkeys(model_files.HISTORY_COLUMNS, 0.0)
        rsum = 330 * strength / 1.4 * (1 - np.exp(-epoch / 4)) + 6 * rng.standard_normal()
        loss = 80 / strength * np.exp(-epoch / 5) + 4
        rows.append({**row, "epoch": epoch, "lr": 1e-3, "loss": loss, "val_rsum": rsum})
    model_files.write_history(folder, rows)


def data(folder: Path) -> str:
    """Digest of what write_evaluation ranks. folder: data/ or anything below it."""
    root = next(one for one in (folder, *folder.parents) if one.name == "data")
    prepared = root / "prepare" / "shapes"
    return by_split(images.read(prepared), captions.read(prepared))["test"]


def write_evaluation(folder: Path, run: str, inference: str, strength: float, **more: object) -> None:
    """Scores are noise plus a bonus for correct pairs plus each item's popularity, which makes hubs."""
    rng = np.random.default_rng(int(strength * 100))
    owner = np.repeat(np.arange(IMAGES), CAPTIONS_EACH)
    scores = rng.standard_normal((IMAGES, len(owner))) + 2.2 * strength * (owner == np.arange(IMAGES)[:, None])
    sizes = {"image_to_text": len(owner), "text_to_image": IMAGES}
    hubs = {side: 0.45 * rng.gamma(1.0, 1.0, size) for side, size in sizes.items()}
    image_ids, text_ids = np.arange(IMAGES), np.arange(len(owner)) + 1000
    sides = {
        "image_to_text": (scores, image_ids, text_ids, owner == np.arange(IMAGES)[:, None]),
        "text_to_image": (scores.T, text_ids, image_ids, (owner == np.arange(IMAGES)[:, None]).T),
    }
    metrics, ranks, occurrence = {}, [], []
    for direction, (values, queries, items, right) in sides.items():
        corrected = values + (1 - _CORRECTION[inference]) * hubs[direction]
        side, rank_table, occurrence_table = _direction(direction, corrected, queries, items, right, "gm" in inference)
        metrics[direction] = side
        ranks.append(rank_table)
        occurrence.append(occurrence_table)
    metrics |= {
        "rsum": sum(side[f"r@{k}"] for side in metrics.values() for k in (1, 5, 10)),
        "hs_sum": sum(side[f"skew@{k}"] for side in metrics.values() for k in (1, 5, 10)),
        "protocol": "full", "folds": 1, "bank": "none" if inference == "nns" else "test", "transductive": inference != "nns", "ties": "pessimistic", "split": "test",
        "intervals": {} if inference == "is" else {"rsum": [300.25, 433.75], "image_to_text": {"r@1": [20.15, 61.55]}},
        "notes": {}, "tuned": {"image_to_text": {"lambda": {"1": 2.5}} if "rgm" in inference else {}, "text_to_image": {}}, "run": run, "inference": inference, "data": data(folder), "similarity": "cosine", **more,
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    curve = _relaxation() if "rgm" in inference else None
    contents = {evaluation.RANKS: pa.concat_tables(ranks), evaluation.OCCURRENCE: pa.concat_tables(occurrence)}
    contents |= {} if curve is None else {evaluation.RELAXATION: curve}
    evaluation.write(folder, metrics, contents)
    dataset = more.get("transfer", {}).get("dataset", "shapes")
    runs = more.get("ensemble", {}).get("runs", [run])
    trained = {str(paths.trained(member)): {} for member in runs}
    identity.write(folder.parent, {str(paths.prepared(dataset)): {"test": data(folder)}, **trained}, {})


def _relaxation() -> pa.Table:
    """The same curve for every K and direction; the middle lambda was chosen."""
    cases = [(direction, k) for direction in evaluation.DIRECTIONS for k in (1, 5, 10)]
    columns = {
        "direction": [direction for direction, _ in cases for _ in range(3)],
        "k": pa.array([k for _, k in cases for _ in range(3)], pa.int32()), "lambda": [1.0, 2.5, 4.0] * len(cases),
        "validation": [40.0, 43.0, 41.0] * len(cases), "chosen": [False, True, False] * len(cases),
    }  # fmt: skip
    return pa.table(columns)


def _direction(direction, scores, queries, items, right, matching):
    order = np.argsort(-scores, axis=1, kind="stable")
    ranks = 1.0 + np.take_along_axis(right, order, axis=1).argmax(axis=1)
    side = {"queries": len(queries), "items": len(items)}
    side |= {f"r@{k}": float(100 * (ranks <= k).mean()) for k in (1, 5, 10)}
    if not matching:
        side |= {"med_r": float(np.floor(np.median(ranks))), "mean_r": float(ranks.mean())}
    n = {k: np.bincount(order[:, :k].ravel(), minlength=len(items)).astype(np.int32) for k in (1, 5, 10)}
    side |= {f"skew@{k}": float(((v - v.mean()) ** 3).mean() / v.std() ** 3) for k, v in n.items()}
    side["largest_hub@10"] = int(n[10].max())
    measure = pa.array([None] * len(queries) if matching else 1 / ranks, pa.float64())
    columns = {
        "direction": [direction] * len(queries), "fold": np.zeros(len(queries), np.int32), "query_id": queries,
        "image_id": queries if direction == "image_to_text" else right.argmax(axis=1),
        "rank": pa.array([None] * len(queries) if matching else ranks, pa.float64()),
        **{f"hit_{k}": ranks <= k for k in (1, 5, 10)},
        **dict.fromkeys(evaluation.MEASURES, measure),
        "top": pa.array(items[order[:, :10]].tolist(), pa.list_(pa.int64())),
    }  # fmt: skip
    counts = {"direction": [direction] * len(items), "fold": np.zeros(len(items), np.int32), "item_id": items}
    return side, pa.table(columns), pa.table({**counts, **{f"n_{k}": v for k, v in n.items()}})


def write_audit(root: Path, run: str, known: bool = True, **changes: object) -> Path:
    """All captions as training pairs, every fifth mismatched; ``changes`` replace what metrics.json says."""
    rng = np.random.default_rng(0)
    count = IMAGES * CAPTIONS_EACH
    mismatched = np.arange(count) % 5 == 4
    losses = np.where(mismatched, rng.beta(8, 3, count), rng.beta(2, 9, count))
    images = np.repeat(np.arange(IMAGES), CAPTIONS_EACH)
    ids = np.array([number for image in range(IMAGES) for number in caption_ids(image)])
    absent = np.arange(count) == 4
    table = pa.table(
        {"caption_id": ids, "image_id": images, "loss": losses, "probability": losses,
            "score": (1 - losses).astype(np.float32), "rematch_caption_id": pa.array(np.roll(ids, 7), mask=absent),
            "rematch_caption_score": pa.array(np.full(count, 0.71, np.float32), mask=absent),
            "rematch_image_id": pa.array(np.roll(images, 13), mask=absent),
            "rematch_image_score": pa.array(np.full(count, 0.72, np.float32), mask=absent),
            "mismatched": pa.array(mismatched, mask=None if known else np.ones(count, bool))},
    )  # fmt: skip
    metrics = {"run": run, "gallery": ids[[4, 9, 19]].tolist(), "mixture": {"doubts": []}}
    metrics |= {"partners_from": "all", "pairs": count, "images": IMAGES, "expected": 61, "interval": None}
    metrics |= {"ranked": [{"first": 100, "estimated": 0.5, "interval": None, "precision": 0.6 if known else None}]}
    metrics |= {"truth": "known" if known else "unknown"}
    if known:
        metrics |= {"mismatched": 60, "auc": 0.987, "average_precision": 0.9, "precision_at_mismatched": None}
    edges = np.linspace(0, 1, 11)
    counts = [np.histogram(losses[mismatched == kind], edges)[0] for kind in (False, True)]
    bins = pd.DataFrame({"low": edges[:-1], "high": edges[1:], "pairs": counts[0] + counts[1]})
    bins["matched"], bins["mismatched"] = counts if known else (np.nan, np.nan)
    bins["expected_matched"], bins["expected_mismatched"] = 20.0, 5.0
    costs = pd.DataFrame(
        {"epoch": [6, 6, 7, 7], "by": ["truth"] * 4, "low": [0.0, 0.5] * 2, "high": [0.5, 1.0] * 2, "matched": [8, 0, 9, 1], "mismatched": [0, 4, 1, 3]}
    )  # fmt: skip
    folder = root / paths.audited(run)
    folder.mkdir(parents=True, exist_ok=True)
    audit.write(folder, table, {**metrics, **changes}, bins, costs if known else None)
    read = identity.parts_of(root / paths.prepared("shapes"), "test")
    identity.write(folder, {str(paths.trained(run)): {"weights": "1"}, **read}, {})
    return folder
