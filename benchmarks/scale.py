"""``python -m benchmarks.scale NAME``: seconds and memory of whole commands, each a process of its own."""

import argparse
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from ruamel.yaml import YAML

from benchmarks.measure import benchmark, call, peak_mib, run, show
from vse_pipe.evaluate.rank import read as read_vectors
from vse_pipe.evaluate.rank import task_of_vectors
from vse_pipe.project.params.schema import EvaluateParams
from vse_pipe.ranking import criteria
from vse_pipe.ranking.bank import Bank
from vse_pipe.ranking.criteria import Trial, Tuned, rank_fold
from vse_pipe.ranking.outcomes import Depths
from vse_pipe.ranking.recall import Truth
from vse_pipe.ranking.scores import Scores

_CAPTIONS, _WORDS, _HELD_OUT = 5, 11, 200
_BLOCK = 65536
_FILES = ("images.npy", "captions.npy", "caption-images.npy")
_RANKED = ["rank", *(f"--{Path(file).stem}={file}" for file in _FILES), "--json"]
STAGES = {
    "prepare": "prepare", "extract": "extract --features made", "texts": "extract --texts vectors",
    "words": "extract --texts ids", "inject": "inject", "train": "train --run heads", "gru": "train --run gru",
    "embed": "embed --run heads",
}  # fmt: skip


@benchmark(folder=Path, stages=list(STAGES), items=[10_000], dim=16, hidden=256, vocabulary=10_000, threads=1)
def stages(options: argparse.Namespace) -> None:
    """The stages of a run in the order they are named: the measured points of docs/scale.md.

    Makes a data set of --items captions below FOLDER, five an image; a stage needs those before it in the folder.
    """
    for items in options.items:
        root = options.folder / str(items)
        if not root.is_dir():
            _write_project(root, items, options)
        for stage in options.stages:
            used = call(root, *STAGES[stage].split())
            show(f"{stage:12}{items:>20}{used.processors:10.1f} s{used.mib:8.0f} MiB")


def _write_project(root: Path, captions: int, options: argparse.Namespace) -> None:
    rng, raw = np.random.default_rng(0), root / "raw"
    raw.mkdir(parents=True)
    YAML().dump(_params(options.hidden), root / "params.yaml")
    words = np.array([f"word{number}" for number in range(options.vocabulary)])
    vectors = rng.standard_normal((options.vocabulary, options.dim), np.float32)
    np.savez(raw / "words.npz", words=words, vectors=vectors)
    for split, images in (("train", captions // _CAPTIONS), ("dev", _HELD_OUT), ("test", _HELD_OUT)):
        np.save(raw / f"{split}_ims.npy", rng.standard_normal((images, options.dim), np.float32))
        with (raw / f"{split}_caps.txt").open("w", encoding="utf-8") as file:
            for start in range(0, count := images * _CAPTIONS, _BLOCK):
                drawn = words[rng.integers(len(words), size=(min(_BLOCK, count - start), _WORDS))]
                file.writelines(" ".join(row) + "\n" for row in drawn)


def _params(hidden: int) -> dict:
    """One epoch of a run of heads on vectors and one of a GRU on words. hidden: numbers of an embedding and a layer."""
    run = {
        "dataset": "made", "features": "made", "noise": "clean",
        "loss": "sum", "scheme": "plain", "similarity": "cosine",
    }  # fmt: skip
    return {
        "seed": 1, "grid": {"inferences": ["nns"]}, "datasets": {"made": {"format": "precomp", "source": "raw"}},
        "features": {"made": {"dataset": "made", "backbone": "precomp"}},
        "texts": {"vectors": {"dataset": "made", "method": "mean_vectors", "vectors": "raw/words.npz"},
            "ids": {"dataset": "made", "method": "words", "min_count": 1}},
        "noises": {"clean": {"dataset": "made", "protocol": "image", "rate": 0.2}},
        "runs": {"heads": {**run, "texts": "vectors", "text": "residual", "image": "residual"},
            "gru": {**run, "texts": "ids", "text": "gru", "image": "linear"}},
        "train": {"epochs": 1, "embed_size": hidden},
        "text": {"residual": {"hidden": hidden}, "gru": {"word_dim": 64}}, "image": {"residual": {"hidden": hidden}},
        "evaluate": {}, "report": {},
    }  # fmt: skip


@benchmark(folder=Path, items=[25_000], dim=256, inference=["nns", "csls"], set=[], threads=1)
def evaluate(options: argparse.Namespace) -> None:
    """Vectors of --items captions, five an image, ranked by each of --inference without the bootstrap.

    --set: as -S of the command line.
    """
    settings = [word for value in ["evaluate.resamples=0", *options.set] for word in ("-S", value)]
    for items in options.items:
        folder = options.folder / f"vectors-{items}"
        _write_vectors(folder, items // _CAPTIONS, _CAPTIONS, options.dim)
        for inference in options.inference:
            used = call(folder, *settings, *_RANKED, "--inference", inference)
            show(f"{inference:12}{items // _CAPTIONS:>10} x {items}{used.processors:10.1f} s{used.mib:8.0f} MiB")


def planted(rng: np.random.Generator, centres: np.ndarray, noise: float) -> np.ndarray:
    """Unit vectors around the centres, in place and in blocks; noise: their distance from a centre."""
    for start in range(0, len(centres), _BLOCK):
        block = centres[start : start + _BLOCK]
        block += noise / block.shape[1] ** 0.5 * rng.standard_normal(block.shape, np.float32)
        block /= np.linalg.norm(block, axis=1, keepdims=True)
    return centres


def _write_vectors(folder: Path, images: int, captions: int, dim: int) -> None:
    """For ``vse-pipe rank --images``: images around 1,000 topics, captions around these. Existing files stay."""
    if folder.is_dir():
        return
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    topics = planted(rng, np.zeros((1000, dim), np.float32), 1.0)
    vectors = planted(rng, topics[rng.integers(len(topics), size=images)], 1.0)
    np.save(folder / _FILES[0], vectors)
    np.save(folder / _FILES[1], planted(rng, vectors.repeat(captions, axis=0), 2.5))
    np.save(folder / _FILES[2], np.arange(images).repeat(captions))


@benchmark(
    folder=Path, items=1_000_000, dim=256, memory=5000, inference=["nns", "csls"], slices=[1024, 4096], threads=1
)
def million(options: argparse.Namespace) -> None:
    """An evaluation of 10^6 images and 10^6 captions of 256 values, estimated from slices.

    Slices of the images are ranked against all captions, and these against the slice: seconds of the processor and
    largest memory of each, and what the line through them gives for all images.
    """
    folder = options.folder / f"million-{options.items}"
    _write_vectors(folder, options.items, 1, options.dim)
    for inference in options.inference:
        slices = []
        for queries in options.slices:
            command = [sys.executable, "-m", "benchmarks.scale", "part", str(folder), inference]
            command += ["--queries", str(queries), "--memory", str(options.memory)]
            slices.append(json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout))
            show(
                f"{inference:6}{queries:8} images: {slices[-1]['rank']:8.1f} s, {slices[-1]['mib']:6.0f} MiB; "
                f"read in {slices[-1]['read']:.1f} s, {slices[-1]['read_mib']:.0f} MiB"
            )
        seconds = [measured["rank"] for measured in slices]
        slope = np.polyfit(options.slices, seconds, 1)[0] if len(slices) > 1 else seconds[0] / options.slices[0]
        hours = (slope * options.items + slices[0]["read"]) / 3600
        show(f"{inference:6} all {options.items} each way: {hours:.1f} h of one processor")


@benchmark(folder=Path, inference=str, queries=1024, memory=5000, threads=1)
def part(options: argparse.Namespace) -> None:
    """A slice of ``million``: seconds of reading and of ranking --queries images and all captions, as JSON."""
    started = time.process_time()
    params = EvaluateParams(memory=options.memory, resamples=0)
    images, captions, owners = (options.folder / file for file in _FILES)
    sources = read_vectors(params, "cosine", images, captions, caption_images=owners)
    files = task_of_vectors(sources, params, torch.device("cpu"))
    images, captions = files.split.images[: options.queries], files.split.captions
    owners, read_mib, read = files.split.caption_images, peak_mib(), time.process_time()
    # Captions of other images are queries without a correct item.
    inside = owners < options.queries
    starts = np.concatenate([[0], inside.cumsum()])
    truths = [Truth.by_image(np.arange(options.queries), owners), Truth(starts, owners[inside], options.queries)]
    scores = Scores.from_sides(images, captions, files.similarity, memory=options.memory, sets=0)
    directions = (scores, scores.transposed())
    trials = [Trial(side, Bank(side, True), truth) for side, truth in zip(directions, truths, strict=True)]
    tuned = Tuned(criteria.parse(options.inference, {}), {})
    rank_fold([tuned, tuned], trials, params.ties, Depths())
    seconds = {"read": read - started, "rank": time.process_time() - read}
    json.dump({**seconds, "read_mib": read_mib, "mib": peak_mib()}, sys.stdout)


_PLAIN = {
    "dataset": "made", "features": "whole", "texts": "tfidf", "noise": "clean", "loss": "infonce", "scheme": "plain",
    "similarity": "cosine", "text": "residual", "image": "residual",
}  # fmt: skip
_REGIONS = {
    "dataset": "parts", "features": "regions", "texts": "words", "noise": "clean_parts",
    "text": "gru", "image": "pooled",
}  # fmt: skip
_NOISY = {"noise": "mismatched", "loss": "max"}


def _pooled(pooling: str, drop: float = 0.0, **text: object) -> dict:
    image = {"pooling": pooling, "drop": drop}
    return {**_REGIONS, "options": {"image": image, "text": {"pooling": pooling, "drop_words": drop, **text}}}


RUNS: dict[str, dict] = {
    "plain": {}, "max": {"loss": "max"}, "max, curriculum": {"loss": "max", "options": {"loss": {"curriculum": 2}}},
    "hal": {"loss": "hal"}, "sigmoid": {"loss": "sigmoid"}, "hub": {"loss": "hub"}, "rcl": {**_NOISY, "loss": "rcl"},
    "crcl": {**_NOISY, "loss": "crcl", "scheme": "crcl"}, "decl": {**_NOISY, "loss": "decl", "scheme": "decl"},
    "ncr": {**_NOISY, "scheme": "ncr", "options": {"scheme": {"warm_up": 1}}},
    "l2rm": {**_NOISY, "scheme": "l2rm", "options": {"scheme": {"warm_up": 1}}},
    "memory_bank": {"loss": "hal", "scheme": "memory_bank"},
    "nothing dropped": {"options": {side: {"drop": 0.0, "dropout": 0.0} for side in ("text", "image")}},
    "average": {"train": {"average": 0.998}}, "mixed": {"texts": "mixed"}, "mean": _pooled("mean"),
    "gpo": _pooled("gpo"), "gpo, a fifth dropped": _pooled("gpo", drop=0.2),
    "mean, word vectors": _pooled("mean", word_dim=50, vectors="../vectors.npz"),
}  # fmt: skip


@benchmark(images=2000, regions=16, width=1280, epochs=2, rounds=3, threads=1, only=list(RUNS))
def members(options: argparse.Namespace) -> None:
    """Seconds an epoch and memory of losses, schemes, encoders and texts, one run each.

    A made-up ``precomp`` data set. Each run is trained for one epoch and for ``1 + --epochs``, --rounds times in turn:
    the median of the difference in processor seconds, so without imports and set-up. ``times`` is by ``plain``, or
    ``mean`` for pooling.
    """
    times: dict[str, list[float]] = {name: [] for name in options.only}
    memory = dict.fromkeys(times, 0.0)
    with tempfile.TemporaryDirectory() as temporary:
        folder, project = Path(temporary), Path(temporary) / "project"
        _write_runs(folder, options.images, options.regions, options.width)
        call(folder, "init", "project", "--overlay", "runs.yaml")
        for stage in ("prepare", "extract", "inject"):
            call(project, stage)
        for _ in range(options.rounds):
            for name in times:
                trained = []
                for epochs in (1, 1 + options.epochs):
                    shutil.rmtree(project / "data" / "train", ignore_errors=True)
                    trained.append(
                        call(project, "-S", f"train.epochs={epochs}", "train", "--run", re.sub(r"\W+", "_", name))
                    )
                times[name].append((trained[1].processors - trained[0].processors) / options.epochs)
                memory[name] = max(memory[name], trained[1].mib)
    epoch = {name: statistics.median(values) for name, values in times.items()}
    show(f"{5 * options.images} captions, batch 128, {options.threads} thread(s)\n")
    show("| run | s an epoch | times | MiB |\n|---|---:|---:|---:|")
    for name, seconds in epoch.items():
        base = "mean" if RUNS[name].get("dataset") == "parts" else "plain"
        ratio = f"{seconds / epoch[base]:.2f}" if base in epoch else ""
        show(f"| {name} | {seconds:.2f} | {ratio} | {memory[name]:,.0f} |")


def _write_runs(folder: Path, images: int, regions: int, width: int) -> None:
    """Data, word vectors and an overlay of all runs."""
    rng = np.random.default_rng(0)
    words = np.array([f"w{place}" for place in range(3000)])
    np.savez(folder / "vectors.npz", words=words, vectors=rng.standard_normal((len(words), 50), np.float32))
    centres = rng.standard_normal((100, width), np.float32)
    chances = 1 / np.arange(1, len(words) + 1)
    for name, shape in (("made", ()), ("parts", (regions,))):
        (folder / name).mkdir()
        for split, count in (("train", images), ("dev", 200), ("test", 200)):
            topics = rng.integers(len(centres), size=count)
            around = centres[topics] if not shape else centres[topics][:, None]
            vectors = around + rng.standard_normal((count, *shape, width), np.float32)
            np.save(folder / name / f"{split}_ims.npy", vectors)
            drawn = rng.choice(words, (5 * count, 12), p=chances / chances.sum())
            drawn[:, :3] = words[np.repeat(topics, 5)[:, None] * 3 + np.arange(3)]
            (folder / name / f"{split}_caps.txt").write_text("\n".join(map(" ".join, drawn)) + "\n")
    tfidf = {"method": "tfidf", "size": 3000}
    means = {"method": "mean_vectors", "vectors": "../vectors.npz"}
    overlay = {
        "datasets": {name: {"format": "precomp", "source": str(folder / name)} for name in ("made", "parts")},
        "features": {"whole": {"dataset": "made", "backbone": "precomp", "store": "float32"},
            "regions": {"dataset": "parts", "backbone": "precomp", "store": "float32"}},
        "texts": {"tfidf": {"dataset": "made", **tfidf},
            "mixed": {"dataset": "made", "method": "mixed", "parts": [dict(tfidf), means]},
            "words": {"dataset": "parts", "method": "words"}},
        "noises": {"clean": {"dataset": "made", "protocol": "image", "rate": 0.0},
            "mismatched": {"dataset": "made", "protocol": "image", "rate": 0.4},
            "clean_parts": {"dataset": "parts", "protocol": "image", "rate": 0.0}},
        "runs": {re.sub(r"\W+", "_", name): {**_PLAIN, **run} for name, run in RUNS.items()},
        "train": {"batch_size": 128, "embed_size": 512, "lr": 2.0e-4}, "replace": "nodes",
    }  # fmt: skip
    YAML().dump(overlay, folder / "runs.yaml")


if __name__ == "__main__":
    run(__name__)
