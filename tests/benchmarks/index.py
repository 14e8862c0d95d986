"""``python -m tests.benchmarks.index rate``: pictures a second of ``vse-pipe index``, and of its network alone on tensors that lie
in memory, in turn. ``python -m tests.benchmarks.index grown``: seconds of the whole command when ``--new`` pictures join
``--images`` others, less those of a process (``network``) that imports the network's library, builds it and runs it on as many.

A pretrained pair of random weights: of rate ViT-B/32, of grown one that takes no time. Pictures are hard links under names of
their own: of ``--photos``, else of photographs made up at 640 x 480 (rate) or 160 x 120 (grown).
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from tests import pair_project

_LARGE = {
    "embed_dim": 512,
    "vision_cfg": {"image_size": 224, "layers": 12, "width": 768, "patch_size": 32},
    "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 512, "heads": 8, "layers": 12},
}
_SMALL = (160, 120)
_KINDS = 64
_BATCH = 64
_COMMAND = str(Path(sys.executable).parent / "vse-pipe")
_CODE = {**os.environ, "PYTHONPATH": f"{Path(__file__).parents[2]}/pipeline:{Path(__file__).parents[2]}"}


def link(photos: list[Path], folder: Path, names: range) -> None:
    folder.mkdir(exist_ok=True)
    for number in names:
        os.link(photos[number % len(photos)], folder / f"{number:07d}.jpg")


def made_up(folder: Path, size: tuple[int, int]) -> list[Path]:
    folder.mkdir()
    files = [folder / f"{number}.jpg" for number in range(_KINDS)]
    for number, file in enumerate(files):
        pair_project.photo(number, size).save(file, quality=90)
    return files


def copies(photos: Path) -> list[Path]:
    """On the same disk, to be linked to."""
    folder = Path("kinds")
    folder.mkdir()
    files = [file for file in sorted(photos.iterdir()) if file.suffix.lower() in (".jpg", ".jpeg", ".png")]
    for file in files:
        (folder / file.name).write_bytes(file.read_bytes())
    return sorted(folder.iterdir())


def index(*arguments: str) -> tuple[float, float]:
    """Seconds on the clock and of the processors."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    command = [_COMMAND, "index", *arguments, "--device", "cpu"]
    done = subprocess.run(command, capture_output=True, text=True, env=_CODE, cwd="project")
    seconds, after = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(done.stderr)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def network(model: Path, count: int) -> float:
    """Seconds of the pair's network on ``count`` pictures that are tensors already, in batches."""
    import open_clip

    from vse_pipe.extract.pair import folder

    config = json.loads((model / pair_project.CONFIG).read_text())
    with folder(config) as place:
        built = open_clip.create_model(place, load_weights=False).eval()
    size = config["model_cfg"]["vision_cfg"]["image_size"]
    batch = torch.rand(min(_BATCH, count), 3, size, size)
    with torch.inference_mode():
        built.encode_image(batch)
        started = time.monotonic()
        for start in range(0, count, _BATCH):
            built.encode_image(batch[: count - start])
    return time.monotonic() - started


def project(kind: str) -> list[str]:
    Path("project").mkdir()
    subprocess.run([_COMMAND, "init", "project"], check=True, capture_output=True, env=_CODE)
    model = pair_project.write_model(kind).absolute()
    return ["--model", str(model / pair_project.CONFIG), "--weights", str(model / pair_project.WEIGHTS)]


def rate(photos: list[Path], images: int, rounds: int) -> None:
    """Of two sizes each, so that what a command takes before its first picture is no part of its rate."""
    pair_project.MODELS["large"] = {"model_cfg": _LARGE, "preprocess_cfg": {}}
    pair = project("large")
    shares = []
    for turn in range(rounds):
        seconds = {}
        for count in (_BATCH, _BATCH + images):
            link(photos, Path(f"photos-{turn}-{count}"), range(count))
            seconds[count], _ = index(f"../photos-{turn}-{count}", *pair)
        bare, whole = network(Path("models/large"), images), seconds[_BATCH + images] - seconds[_BATCH]
        shares.append(bare / whole)
        sys.stdout.write(
            f"{images} pictures: index {images / whole:.1f} a second (and {seconds[_BATCH]:.1f} s for its first {_BATCH}), network "
            f"alone {images / bare:.1f}: {100 * bare / whole:.0f} %\n"
        )
        sys.stdout.flush()
    sys.stdout.write(f"median share of the network's rate: {100 * statistics.median(shares):.0f} %\n")


def grown(photos: list[Path], images: int, new: int, rounds: int) -> None:
    pair = project("clip")
    link(photos, Path("photos"), range(images))
    seconds, spent = index("../photos", *pair)
    sys.stdout.write(f"{images} pictures: {seconds:.1f} s, {spent:.1f} s of processor time\n")
    more = []
    for turn in range(rounds):
        for number in range(_KINDS + turn * new, _KINDS + (turn + 1) * new):
            pair_project.photo(number, _SMALL).save(f"photos/new{number}.jpg", quality=90)
        whole, spent = index("../photos")
        alone = timed(
            [sys.executable, "-m", "tests.benchmarks.index", "network", "--new", str(new), "--photos", "models/clip"]
        )
        more.append(whole - alone)
        sys.stdout.write(
            f"{new} new: {whole:.2f} s, {spent:.2f} s of processor time; the network's process {alone:.2f} s\n"
        )
        sys.stdout.flush()
    sys.stdout.write(f"median besides the network: {statistics.median(more):.2f} s\n")


def timed(command: list[str]) -> float:
    started = time.monotonic()
    subprocess.run(command, check=True, env=_CODE)
    return time.monotonic() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["rate", "grown", "network"])
    parser.add_argument("--images", type=int, default=None, help="of rate 512, of grown 100,000")
    parser.add_argument("--new", type=int, default=10)
    parser.add_argument(
        "--photos", type=Path, default=None, help="a folder of photographs; of network that of its model"
    )
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    given = options.photos and options.photos.absolute()
    if options.what == "network":
        network(given, options.new)
        return
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        photos = (
            made_up(Path("kinds"), _SMALL if options.what == "grown" else (640, 480))
            if given is None
            else copies(given)
        )
        if options.what == "rate":
            rate(photos, options.images or 512, options.rounds)
        else:
            grown(photos, options.images or 100_000, options.new, options.rounds)
        os.chdir("/")


if __name__ == "__main__":
    main()
