"""``python -m tests.benchmarks.throughput``: images per second of extraction against the bare forward pass.

JPEGs of 640 x 480 in a temporary project, random weights. In turn, round for round: the forward pass alone over batches
that are decoded already, the whole stage (decode, forward, write, assemble; the network is loaded before), and with
``--loader`` the loop people write: torchvision's transforms in a DataLoader with two workers, float32. Medians count.
``--backbone vgg19 --images 96 --rounds 3 --batch 8 --precision float32 --compile``; ``--photographs FOLDER`` scales real
pictures instead of rendering some. ``--device cuda`` measures there.
"""

import argparse
import contextlib
import hashlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import torch
from PIL import Image, ImageFilter

from tests.extract import project
from vse_pipe.artifacts import images
from vse_pipe.core import devices
from vse_pipe.extract import job as jobs
from vse_pipe.extract import stage
from vse_pipe.extract.compute import Computer, Forward
from vse_pipe.project import paths
from vse_pipe.project.params.load import load
from vse_pipe.project.params.typed import FeatureSet, Member, Params
from vse_pipe.project.registry import BACKBONES

WIDTH, HEIGHT, QUALITY = 640, 480, 90


def show(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def rendered(number: int) -> Image.Image:
    """As much detail as a photograph has: about 100 kB as a JPEG of quality 90."""
    rng = np.random.default_rng(number)
    coarse = Image.fromarray(rng.integers(0, 256, (48, 64, 3), dtype=np.uint8))
    fine = Image.fromarray(rng.integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8))
    smooth = coarse.resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC)
    return Image.blend(smooth, fine.filter(ImageFilter.GaussianBlur(1)), 0.4)


def corpus(folder: Path, count: int, photographs: Path | None) -> list[str]:
    folder.mkdir()
    found = sorted(photographs.glob("*.jpg"))[:count] if photographs else [None] * count
    names = []
    for number, path in enumerate(found):
        image = (
            Image.open(path).convert("RGB").resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC)
            if path
            else rendered(number)
        )
        names.append(f"{number:06d}.jpg")
        image.save(folder / names[-1], quality=QUALITY)
    return names


def prepare(names: list[str], options: argparse.Namespace) -> Params:
    rows = len(names)
    columns = {"image_id": range(rows), "file": names, "split": ["train"] * rows, "width": [WIDTH] * rows}
    digests = [hashlib.sha256((Path("raw") / name).read_bytes()).hexdigest() for name in names]
    table = pa.table({**columns, "height": [HEIGHT] * rows, "sha256": digests}, images.SCHEMA)
    paths.prepared("tiny").mkdir(parents=True)
    images.write(paths.prepared("tiny"), table, "raw")
    Path("params.yaml").write_text(project.PARAMS.replace("inferences: []", "inferences: [nns]"))
    chosen = {
        "weights": "random",
        "batch_size": options.batch,
        "precision": options.precision,
        "compile": options.compile,
    }
    member = Member(options.backbone, BACKBONES.options(options.backbone)(**chosen))
    return Params(**{**vars(load(Path("params.yaml"))), "features": {"bare": FeatureSet("tiny", member)}})


def bare(forward: Forward, batches: list[np.ndarray], exactly: str) -> None:
    with devices.inference(forward.device, exactly):
        for batch in batches:
            forward(batch)


def whole(params: Params, job: jobs.Job, number: int, device: str) -> None:
    """Into a folder of its own every round: the second call over the same one finds the work done."""
    name = f"round{number}"
    renamed = Params(**{**vars(params), "features": {name: params.features["bare"]}})
    with mock.patch.object(stage, "plan", return_value=job):
        stage.extract(renamed, name, device)


def loader(job: jobs.Job, names: list[str], batch: int) -> None:
    """The plain loop; its own network, since the job's may be compiled or in bfloat16."""
    from torch.utils.data import DataLoader
    from torchvision import transforms

    about = job.about["transform"]
    chain = transforms.Compose(
        [
            transforms.Resize(about["resize"]),
            transforms.CenterCrop(about["image_size"]),
            transforms.ToTensor(),
            transforms.Normalize(about["mean"], about["std"]),
        ]
    )
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backbone", default="resnet152")
    parser.add_argument("--images", type=int, default=64)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--loader", action="store_true")
    parser.add_argument("--photographs", type=Path)
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    if options.photographs:
        options.photographs = options.photographs.absolute()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        measure(options)


def measure(options: argparse.Namespace) -> None:
    names = corpus(Path("raw"), options.images, options.photographs)
    params = prepare(names, options)
    device = devices.resolve_device(options.device)
    job = jobs.plan(params.features["bare"], params.seed, device)
    batches = [
        np.stack([job.backbone.read(job.root, item) for item in items])
        for number in range(job.count)
        for items in job.batches(number)
    ]
    exactly = job.about["precision"]
    forward = Computer(job, device).forward
    works = {"bare forward": partial(bare, forward, batches, exactly), "whole stage": None}
    if options.loader:
        works["plain loader, float32"] = partial(loader, job, names, options.batch)
    bare(forward, batches[:1], exactly)
    taken: dict[str, list[float]] = {name: [] for name in works}
    for number in range(options.rounds):
        for name, work in works.items():
            taken[name].append(seconds(work or partial(whole, params, job, number, options.device)))
    base = statistics.median(taken["bare forward"])
    show(f"{options.backbone}, {exactly}, batch {options.batch}, {len(names)} JPEGs of {WIDTH} x {HEIGHT}, {device}")
    for name, values in taken.items():
        middle = statistics.median(values)
        show(f"{name:24} {len(names) / middle:8.2f} images/s  {base / middle:6.1%} of the bare forward")


if __name__ == "__main__":
    main()
