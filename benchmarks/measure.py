"""What benchmarks share: command lines, a clock that waits for the GPU, and calls of ``vse-pipe`` in new processes."""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from vse_pipe.core import devices
from vse_pipe.core.errors import UsageError

ROOT = Path(__file__).parents[1]
# By file and name: the function and its options.
BENCHMARKS: dict[tuple[str, str], tuple[Callable, dict[str, object]]] = {}


def benchmark(**options: object) -> Callable:
    """Makes the function a subcommand of its file, with these options as one ``argparse.Namespace``.

    A list takes several values; a type in place of a value makes a positional argument.
    """

    def register(function: Callable) -> Callable:
        BENCHMARKS[function.__module__, function.__name__] = function, options
        return function

    return register


def run(module: str) -> None:
    """The benchmark of this file that the command line names.

    ``threads`` limits this process and those it calls; ``processor`` counts processor time, right for one thread alone.
    """
    parser = argparse.ArgumentParser(description=sys.modules[module].__doc__)
    subcommands = parser.add_subparsers(required=True, metavar="NAME")
    for (file, name), (function, defaults) in BENCHMARKS.items():
        if file == module:
            title = function.__doc__.partition("\n")[0].replace("%", "%%")
            subcommand = subcommands.add_parser(name, help=title, description=function.__doc__)
            subcommand.set_defaults(function=function)
            for option, default in defaults.items():
                _add(subcommand, option, default)
    options = parser.parse_args()
    if hasattr(options, "threads"):
        torch.set_num_threads(options.threads)
        os.environ["OMP_NUM_THREADS"] = str(options.threads)
    if getattr(options, "processor", False):
        Clock.read = staticmethod(time.process_time)
    options.function(options)


def _add(parser: argparse.ArgumentParser, name: str, default: object) -> None:
    flag = f"--{name.replace('_', '-')}"
    if name == "device":
        parser.add_argument(flag, type=_device, default=default, help="cpu, cuda, cuda:N, or auto")
    elif isinstance(default, type):
        parser.add_argument(name, type=default)
    elif isinstance(default, bool):
        parser.add_argument(flag, action=argparse.BooleanOptionalAction, default=default)
    elif isinstance(default, list):
        parser.add_argument(flag, nargs="*", type=type(default[0]) if default else str, default=default)
    else:
        parser.add_argument(flag, type=str if default is None else type(default), default=default)


def _device(name: str) -> torch.device:
    """As ``--device`` of a command; raises what argparse shows in one line if the machine does not have it."""
    try:
        return devices.resolve_device(name)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


class Clock:
    """Wall clock, or the processor time of this process, which is steadier beside other programs."""

    read = staticmethod(time.perf_counter)


def seconds(work: Callable[[], object]) -> float:
    """The time until ``work`` has ended, on a GPU as well, which works on while Python goes ahead."""
    wait()
    started = Clock.read()
    work()
    wait()
    return Clock.read() - started


def wait() -> None:
    """Until GPUs have done all their work."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


def show(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def peak_mib(status: str | None = None) -> float:
    """The largest memory of this process, or of the one whose /proc/self/status is given; Linux alone."""
    return int(re.search(r"VmHWM:\s+(\d+) kB", status or Path("/proc/self/status").read_text())[1]) / 1024


@dataclass(frozen=True)
class Call:
    """Seconds until the first line of stdout and the end, seconds of all processors, largest memory, and stdout."""

    first: float
    seconds: float
    processors: float
    mib: float
    output: str


# The largest memory as the process itself counts it: wait4 would count that of its parent.
_PROGRAM = """
import atexit, sys
atexit.register(lambda: sys.stderr.write(open("/proc/self/status").read()))
from vse_pipe.cli import main
main()
"""


def call(folder: Path | str, *words: str) -> Call:
    """``vse-pipe WORDS`` in a folder. Ends the benchmark with the command's own message if it fails."""
    command = [sys.executable, "-c", _PROGRAM, *words]
    with tempfile.TemporaryFile("w+") as errors:
        started = time.perf_counter()
        env = {**os.environ, "PYTHONPATH": f"{ROOT}/pipeline:{ROOT}"}
        around = {"cwd": folder, "env": env, "text": True}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, **around)
        line = process.stdout.readline()
        first = time.perf_counter() - started
        output = line + process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        ended = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        messages = errors.read()
    if process.returncode:
        raise SystemExit(output + messages)
    return Call(first, ended, used.ru_utime + used.ru_stime, peak_mib(messages), output)
