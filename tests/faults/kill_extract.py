"""An extraction under DVC that is killed and goes on."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from tests.extract import project

IMAGES, SHARD = 60, 2
BIN = Path(sys.executable).parent
STAGE = [str(BIN / "vse-pipe"), "extract", "--features", "small", "--device", "cpu"]
DVC = [str(BIN / "dvc"), "repro", "-q"]
FEATURES = "{small: {dataset: tiny, backbone: random_filters, image_size: 32, batch_size: 2, shard_size: 2}}"
DVC_YAML = f"""
stages:
  extract:
    cmd: {" ".join(STAGE)}
    deps: [data/prepare/tiny]
    outs: [{{data/extract/tiny/small: {{persist: true}}}}]
"""


def make(folder: Path) -> None:
    os.chdir(folder)
    project.prepared(Path("raw"), project.pictures(Path("raw"), IMAGES, (32, 32)))
    text = project.PARAMS.replace("inferences: []", "inferences: [nns]")
    Path("params.yaml").write_text(text.replace("features: {}", f"features: {FEATURES}"))
    Path("dvc.yaml").write_text(DVC_YAML)
    run([str(BIN / "dvc"), "init", "-q", "--no-scm"])


def run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[1:])}: exit {done.returncode}: {done.stderr[-2000:]}")


def emptied() -> None:
    """No features, and nothing in DVC's caches that it could check out instead of running the stage."""
    for path in (project.OUT.parent, Path(".dvc/cache"), Path(".dvc/tmp")):
        shutil.rmtree(path, ignore_errors=True)
    Path("dvc.lock").unlink(missing_ok=True)


def bytes_of() -> dict[str, bytes]:
    files = [path for path in sorted(project.OUT.rglob("*")) if path.is_file() and path.name != ".gitignore"]
    return {str(path.relative_to(project.OUT)): path.read_bytes() for path in files}


def shards() -> int:
    return len(list(project.OUT.glob("shards/*/[0-9]*")))


def kill_dvc(after: int) -> None:
    """Kills DVC after a number of shards; the stage must end with it, and DVC brings the work to its end."""
    process = subprocess.Popen(DVC, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    gone(lambda: shards() < after and process.poll() is None, "no shards")
    process.kill()
    process.wait()
    lock = project.OUT.with_name("small.lock")
    if lock.is_file() and (holder := lock.read_text().split()):
        gone(lambda: alive(int(holder[0])), "the stage went on without dvc")
    run(DVC)


def gone(still_there, message: str) -> None:
    end = time.monotonic() + 30
    while still_there():
        if time.monotonic() > end:
            raise RuntimeError(message)
        time.sleep(0.05)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def workers_of(root: int) -> list[int]:
    """Ray's worker processes below ``root``, those that run our class."""
    parents, names = {}, {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            names[int(path.name)] = (path / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
    found = []
    for pid, name in names.items():
        if name.startswith(b"ray::_Worker"):
            above = pid
            while above in parents and above != root:
                above = parents[above]
            found += [pid] if above == root else []
    return sorted(found)
