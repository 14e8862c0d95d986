"""``python -m tests.faults.kill_extract --rounds 20 --seed 1``: SIGKILL somewhere in an extraction, then the same command again.

Victims in turn: the stage, ``dvc`` (the stage must end with it), one of two processes that share the work with ``--shard``, a
worker of Ray, and the process that started Ray (its workers must end with it); the last two only where Ray is installed.
The moment is drawn: after a number of shards and a few milliseconds more. Prints a line a round; exit status 1 when the
features of one are not the bytes of the run that nobody disturbed. Six minutes on two idle cores.
"""

import argparse
import importlib.util
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.extract import project

IMAGES, SHARD = 60, 2
BIN = Path(sys.executable).parent
STAGE = [str(BIN / "vse-pipe"), "extract", "--features", "small", "--device", "cpu"]
DVC = [str(BIN / "dvc"), "repro", "-q"]
RAY = [STAGE[0], "-S", "engine.name=ray", "-S", "engine.workers=2", *STAGE[1:]]
FEATURES = "{small: {dataset: tiny, backbone: random_filters, image_size: 32, batch_size: 2, shard_size: 2}}"
DVC_YAML = f"""
stages:
  extract:
    cmd: {" ".join(STAGE)}
    deps: [data/prepare/tiny]
    outs: [{{data/extract/tiny/small: {{persist: true}}}}]
"""
_LONGEST_S = 120.0


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


def started(command: list[str]) -> subprocess.Popen:
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def shards() -> int:
    return len(list(project.OUT.glob("shards/*/[0-9]*")))


def at_a_moment(process: subprocess.Popen, drawn: random.Random) -> str:
    """Wait until it has come: a number of shards, or all of them and the assembling, or the end of the process."""
    wanted, more = drawn.randint(0, IMAGES // SHARD), drawn.uniform(0, 0.03)
    end = time.monotonic() + _LONGEST_S
    while shards() < wanted and process.poll() is None and time.monotonic() < end:
        time.sleep(0.001)
    time.sleep(more)
    return f"after {shards()} shards"


def killed(process: subprocess.Popen, drawn: random.Random) -> str:
    moment = at_a_moment(process, drawn)
    process.kill()
    process.wait()
    return moment


def kill_stage(drawn: random.Random) -> str:
    return killed(started(STAGE), drawn)


def kill_dvc(drawn: random.Random) -> str:
    moment = killed(started(DVC), drawn)
    lock = project.OUT.with_name("small.lock")
    if lock.is_file() and (holder := lock.read_text().split()):
        gone(lambda: alive(int(holder[0])), "the stage went on without dvc")
    run(DVC)
    return moment


def kill_share(drawn: random.Random) -> str:
    commands = [[*STAGE, "--shard", f"{number}/2"] for number in (1, 2)]
    processes = [started(command) for command in commands]
    victim = drawn.randrange(2)
    moment = killed(processes[victim], drawn)
    for process in processes:
        process.wait()
    run(commands[victim])
    return f"share {victim + 1} {moment}"


def kill_worker(drawn: random.Random) -> str:
    process, workers = ray_started()
    moment = at_a_moment(process, drawn)
    if workers and alive(workers[0]):
        os.kill(workers[0], signal.SIGKILL)
    if process.wait() and workers:
        raise RuntimeError("a worker was killed, and the command did not go on")
    return moment if workers else "Ray did not start"


def kill_driver(drawn: random.Random) -> str:
    process, workers = ray_started()
    moment = killed(process, drawn)
    gone(lambda: any(map(alive, workers)), "workers went on without the process that started Ray")
    return moment if workers else "Ray did not start"


def ray_started() -> tuple[subprocess.Popen, list[int]]:
    """The command and its workers; none where Ray gives up, as it does on a machine that is too busy for it."""
    process = started(RAY)
    end = time.monotonic() + _LONGEST_S
    while not (found := workers_of(process.pid)) and process.poll() is None and time.monotonic() < end:
        time.sleep(0.05)
    return process, found


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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    kinds = [kill_stage, kill_dvc, kill_share, kill_stage, kill_dvc]
    if importlib.util.find_spec("ray"):
        kinds = [kill_stage, kill_dvc, kill_share, kill_worker, kill_driver]
    os.environ["PYTHONPATH"] = f"{Path(__file__).parents[2]}/pipeline:{Path(__file__).parents[2]}"
    drawn, wrong = random.Random(options.seed), 0
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder))
        run(STAGE)
        whole = bytes_of()
        for number in range(options.rounds):
            emptied()
            kind = kinds[number % len(kinds)]
            moment = kind(drawn)
            run(STAGE)
            same = bytes_of() == whole
            wrong += not same
            sys.stdout.write(f"{number + 1:3} {kind.__name__:12} {moment:24} {'identical' if same else 'DIFFERENT'}\n")
            sys.stdout.flush()
        os.chdir("/")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
