"""``python -m benchmarks.extract NAME``: rate, memory, second runs and precision of extractions."""

import argparse
import contextlib
import hashlib
import json
import os
import statistics
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import torch
from PIL import Image, ImageFilter

from benchmarks.measure import benchmark, call, run, seconds, show
from tests.extract import project
from vse_pipe.artifacts import embeddings, features, images
from vse_pipe.core import devices as precisions
from vse_pipe.extract import stage
from vse_pipe.extract.compute import Computer, Forward
from vse_pipe.extract.job import Job, Output, Shard, plan
from vse_pipe.extract.shards import Shards
from vse_pipe.project import paths
from vse_pipe.project.params.load import load
from vse_pipe.project.params.typed import FeatureSet, Params
from vse_pipe.train import model as train_model
from vse_pipe.train.trained import TrainedNetwork

WIDTH, HEIGHT = 640, 480


@benchmark(
    backbone="resnet152", images=64, batch=8, rounds=3, precision="auto", loader=False, photographs="",
    device="auto",
)  # fmt: skip
def throughput(options: argparse.Namespace) -> None:
    """Images per second of extraction against the bare forward pass.

    JPEGs of 640 x 480, random weights. In turn, --rounds times: the forward pass over batches that are decoded
    already, the whole stage (the network is loaded before) and, with --loader, torchvision's transforms in a
    DataLoader with two workers, float32. Medians count. --photographs FOLDER scales real pictures instead of rendering
    some.
    """
    photographs = sorted(Path(options.photographs).absolute().glob("*.jpg")) if options.photographs else []
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        names = _write_photographs(photographs[: options.images] or [None] * options.images)
        params = _prepare(names, options)
        job = plan(params.features["bare"], params.seed, options.device)
        precision = job.about["precision"]
        items = [batch for number in range(job.shard_count) for batch in job.batches(number)]
        batches = [np.stack([job.backbone.read(job.root, item) for item in batch]) for batch in items]
        forward = Computer(job, options.device).forward
        works: dict[str, Callable] = {
            "bare forward": lambda number: _forward(forward, batches, precision),
            "whole stage": lambda number: _whole(params, job, number, str(options.device)),
        }
        if options.loader:
            works["plain loader, float32"] = lambda number: _load(job, names, options.batch)
        _forward(forward, batches[:1], precision)
        times: dict[str, list[float]] = {name: [] for name in works}
        for number in range(options.rounds):
            for name, work in works.items():
                times[name].append(seconds(partial(work, number)))
    medians = {name: statistics.median(values) for name, values in times.items()}
    size = f"batch {options.batch}, {len(names)} JPEGs of {WIDTH} x {HEIGHT}, {options.device}"
    show(f"{options.backbone}, {precision}, {size}")
    for name, median in medians.items():
        share = medians["bare forward"] / median
        show(f"{name:24} {len(names) / median:8.2f} images/s  {share:6.1%} of the bare forward")


def _write_photographs(photographs: list[Path | None]) -> list[str]:
    Path("raw").mkdir()
    names = [f"{number:06d}.jpg" for number in range(len(photographs))]
    for number, (name, path) in enumerate(zip(names, photographs, strict=True)):
        image = Image.open(path).convert("RGB").resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC) if path else None
        (image or _rendered(number)).save(Path("raw") / name, quality=90)
    return names


def _rendered(number: int) -> Image.Image:
    """As much detail as a photograph has: about 100 kB as a JPEG of quality 90."""
    rng = np.random.default_rng(number)
    coarse = Image.fromarray(rng.integers(0, 256, (48, 64, 3), dtype=np.uint8))
    fine = Image.fromarray(rng.integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8))
    smooth = coarse.resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC)
    return Image.blend(smooth, fine.filter(ImageFilter.GaussianBlur(1)), 0.4)


def _prepare(names: list[str], options: argparse.Namespace) -> Params:
    rows = len(names)
    columns = {"image_id": range(rows), "file": names, "split": ["train"] * rows, "width": [WIDTH] * rows}
    digests = [hashlib.sha256((Path("raw") / name).read_bytes()).hexdigest() for name in names]
    table = pa.table({**columns, "height": [HEIGHT] * rows, "sha256": digests}, images.SCHEMA)
    paths.prepared("tiny").mkdir(parents=True)
    images.write(paths.prepared("tiny"), table, "raw")
    Path("params.yaml").write_text(project.PARAMS.replace("inferences: []", "inferences: [nns]"))
    values = {"weights": "random", "batch_size": options.batch, "precision": options.precision}
    feature_set = FeatureSet(dataset="tiny", backbone=options.backbone, **values)
    return replace(load(Path("params.yaml")), features={"bare": feature_set})


def _forward(forward: Forward, batches: list[np.ndarray], precision: str) -> None:
    with precisions.inference(forward.device, precision):
        for batch in batches:
            forward(batch)


def _whole(params: Params, job: Job, number: int, device: str) -> None:
    """Into a folder of its own every round: the second call over the same one finds the work done."""
    name = f"round{number}"
    with mock.patch.object(stage, "plan", return_value=job):
        stage.extract(replace(params, features={name: params.features["bare"]}), name, device)


def _load(job: Job, names: list[str], batch: int) -> None:
    """The plain loop; its own network, since the job's may be in bfloat16."""
    from torch.utils.data import DataLoader
    from torchvision import transforms

    about = job.about["transform"]
    cut = [transforms.Resize(about["resize"]), transforms.CenterCrop(about["image_size"])]
    chain = transforms.Compose([*cut, transforms.ToTensor(), transforms.Normalize(about["mean"], about["std"])])
    dataset = Pictures([Path("raw") / name for name in names], chain)
    net = job.backbone.module.net.to(memory_format=torch.contiguous_format)
    with torch.inference_mode():
        for pixels in DataLoader(dataset, batch_size=batch, num_workers=2):
            net(pixels)
    net.to(memory_format=torch.channels_last)


class Pictures(torch.utils.data.Dataset):
    def __init__(self, files: list[Path], chain: Callable) -> None:
        self.files, self.chain = files, chain

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.chain(Image.open(self.files[index]).convert("RGB"))


_COMMAND = ["extract", "--features", "small", "--device", "cpu"]
_SMALL = "{dataset: tiny, backbone: random_filters, image_size: 32, stride: 8, filters: FILTERS}"


@contextlib.contextmanager
def _prepared(count: int, filters: int) -> Iterator[None]:
    """In a temporary folder a prepared data set of hard links to 16 pictures of 32 pixels, under names of their own."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        pictures = project.pictures(Path("kinds"), 16, (32, 32))
        Path("raw").mkdir()
        names = [f"{number:06d}.png" for number in range(count)]
        for number, name in enumerate(names):
            os.link(Path("kinds") / pictures[number % len(pictures)], Path("raw") / name)
        project.prepared(Path("raw"), names, digests=[""] * count)
        small = _SMALL.replace("FILTERS", str(filters))
        params = project.PARAMS.replace("inferences: []", "inferences: [nns]")
        Path("params.yaml").write_text(params.replace("features: {}", f"features: {{small: {small}}}"))
        yield


@benchmark(images=[10_000, 40_000])
def memory(options: argparse.Namespace) -> None:
    """Peak memory of an extraction of 10,000 and of 40,000 images of 32 pixels. Three minutes on two idle cores."""
    peaks = []
    for count in options.images:
        with _prepared(count, filters=32):
            used = call(".", *_COMMAND)
        peaks.append(used.mib)
        show(f"{count:8} images  {used.seconds:7.1f} s  {used.mib:7.0f} MiB")
    show(f"{options.images[-1]} against {options.images[0]}: {100 * (peaks[-1] / peaks[0] - 1):+.1f} %")


@benchmark(images=100_000)
def again(options: argparse.Namespace) -> None:
    """Seconds of the whole command for images whose features are there, and where shards have to be put together.

    Shards of random numbers, 2048 an image: the command never looks at an image. 2 GB of disk.
    """
    with _prepared(options.images, filters=1024):
        job = plan(load(Path("params.yaml")).features["small"], 1, torch.device("cpu"))
        shards, rng = Shards(project.OUT, job), np.random.default_rng(0)
        for number in range(job.shard_count):
            rows = rng.standard_normal((len(job.places(number)), 2048), dtype=np.float32)
            shards.write(number, Shard(Output(rows)))
        for state in ["shards that are put together", *["features that are there"] * 3]:
            used = call(".", *_COMMAND)
            show(f"{options.images} images, {state:28}  {used.seconds:6.2f} s, {used.processors:5.2f} s of processors")
        show(f"features.npy: {json.loads((project.OUT / 'meta.json').read_text())['shape']}, float32")


@benchmark(first=Path, second=Path, run="", out="compared", device="cpu")
def precision(options: argparse.Namespace) -> None:
    """How far two extractions are apart, in a project whose --run was trained on the folder FIRST.

    Prints the cosines between the rows of FIRST and SECOND and writes the run's test images, encoded from SECOND, and
    its test captions to the folder --out, for ``vse-pipe rank --images compared/images.parquet --captions ...``.
    """
    first, second = features.read(options.first), features.read(options.second)
    if not np.array_equal(first.image_ids, second.image_ids):
        raise SystemExit("the two folders hold features of different images")
    show(f"{options.first}: {first.meta['precision']}; {options.second}: {second.meta['precision']}")
    left, right = (np.asarray(side.array[side.rows], dtype=np.float64) for side in (first, second))
    cosines = (left * right).sum(-1) / np.linalg.norm(left, axis=-1) / np.linalg.norm(right, axis=-1)
    show(f"{len(cosines)} images, cosine: lowest {cosines.min():.6f}, median {np.median(cosines):.6f}")
    model = TrainedNetwork.load(paths.trained(options.run)).model
    model.to(options.device)
    folder, out = paths.embedded(options.run), Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    sides = {name: embeddings.read(folder / name).split("test") for name in (embeddings.IMAGES, embeddings.CAPTIONS)}
    rows = second.rows_of(sides[embeddings.IMAGES].ids)
    vectors = train_model.images(model, second.array, rows, options.device).cpu().numpy()
    sides[embeddings.IMAGES] = replace(sides[embeddings.IMAGES], vectors=vectors)
    for name, side in sides.items():
        embeddings.write(out / name, side)


if __name__ == "__main__":
    run(__name__)
