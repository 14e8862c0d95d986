"""doctor: check versions, devices and extras of this machine, and advise."""

import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, metadata, version

from vse_pipe.core.console import document, line, say
from vse_pipe.core.errors import PipelineError

OK, WARN, FAIL = "ok", "warn", "fail"
# Runs in a separate process: torch and torchvision from two package indexes can be installed together and crash when
# used.
_PROBE = """
import json, warnings
warnings.simplefilter("ignore")
import torch
report = {"torch": torch.__version__, "built_for": torch.version.cuda or torch.version.hip or "", "vision": None}
report |= {"cpu": torch.backends.cpu.get_cpu_capability(), "threads": torch.get_num_threads()}
report["native"] = [name for name in ("amx_bf16", "avx512_bf16") if torch.cpu.get_capabilities().get(name)]
gpus = [torch.cuda.get_device_properties(number) for number in range(torch.cuda.device_count())]
bf16 = bool(gpus) and torch.cuda.is_bf16_supported(including_emulation=False)
report["devices"] = [{"name": gpu.name, "memory": gpu.total_memory, "bf16": bf16} for gpu in gpus]
try:
    import torchvision
    from torchvision.ops import nms
    nms(torch.zeros(1, 4), torch.zeros(1), 0.5)
    report["vision"] = torchvision.__version__
except Exception as error:
    report["error"] = f"{type(error).__name__}: {error}"
print(json.dumps(report))
"""


@dataclass(frozen=True)
class Line:
    """remedy: advice; may be empty if the state is ok."""

    state: str
    subject: str
    text: str
    remedy: str = ""

    def as_json(self) -> dict:
        return {"state": self.state, "what": self.subject, "said": self.text, "remedy": self.remedy}


def examine() -> list[Line]:
    """Lines of all subjects. An exception becomes a line, because a broken machine can raise anything."""
    lines: list[Line] = []
    for subject in (packages, devices, extras):
        try:
            lines += subject()
        except Exception as error:
            text = f"cannot be examined: {type(error).__name__}: {error}"
            lines.append(Line(FAIL, subject.__name__, text, "see the lines above"))
    return lines


def show(lines: list[Line], as_json: bool) -> int:
    """Print the lines; returns the exit status, 1 if a line failed."""
    failed, warned = (sum(row.state == state for row in lines) for state in (FAIL, WARN))
    status = PipelineError.exit_status if failed else 0
    if as_json:
        document({"ok": not failed, "status": status, "lines": [row.as_json() for row in lines]})
        return status
    for row in lines:
        line(f"{row.state:5}{row.subject}: {row.text}" + (f"; {row.remedy}" if row.remedy else ""))
    say(f"doctor: {len(lines)} lines, {failed} failed, {warned} to think about")
    return status


def packages() -> Iterator[Line]:
    """Python, each package that is missing or outside its range, and one line for all packages that fit."""
    from packaging.specifiers import SpecifierSet

    ranges, current = metadata("vse-pipe")["Requires-Python"], platform.python_version()
    fits = SpecifierSet(ranges).contains(current.rstrip("+"), prereleases=True)
    remedy = "" if fits else f"install Python {ranges} and vse-pipe in it, in a clone `make setup`"
    yield Line(OK if fits else FAIL, "python", f"{current} at {sys.executable}", remedy)
    rows = {requirement: _installed(requirement) for requirement in requirements()[""]}
    for requirement, (name, text, fits) in rows.items():
        if not fits:
            yield Line(FAIL, name, text, f"pip install '{requirement}', in a clone `make setup`")
    yield Line(OK, "packages", ", ".join(f"{name} {text}" for name, text, fits in rows.values() if fits))


def devices() -> Iterator[Line]:
    """torch, torchvision, the GPUs, the processor's instructions and threads."""
    report = probe()
    if isinstance(report, str):
        yield Line(FAIL, "torch", f"does not import: {report}", "install torch again, in a clone `make setup`")
        return
    built = f"CUDA {report['built_for']}" if report["built_for"] else "the CPU"
    yield Line(OK, "torch", f"{report['torch']}, built for {built}")
    if report["vision"]:
        yield Line(OK, "torchvision", f"{report['vision']}, imports and computes beside torch {report['torch']}")
    else:
        remedy = "uninstall torch and torchvision, then install both in one command, from one index and one build"
        yield Line(FAIL, "torchvision", f"does not work beside torch {report['torch']}: {report['error']}", remedy)
    for number, gpu in enumerate(report["devices"]):
        state, bf16, remedy = (OK, "native", "") if gpu["bf16"] else (WARN, "emulated", "precision auto means float32")
        text = f"{gpu['name']}, {gpu['memory'] / 2**30:.0f} GiB, bfloat16 {bf16}"
        yield Line(state, f"device cuda:{number}", text, remedy)
    if not report["devices"]:
        yield Line(OK, "device", "no GPU; `--device auto` means the CPU")
    bf16 = f"{', '.join(report['native'])}: bfloat16 is native and precision auto uses it"
    text = bf16 if report["native"] else "no native bfloat16, precision auto means float32"
    yield Line(OK, "instructions", f"torch computes with {report['cpu']}; {text}")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    limit = os.environ.get("OMP_NUM_THREADS", "not set")
    yield Line(OK, "threads", f"torch uses {report['threads']} on {cores} cores, OMP_NUM_THREADS is {limit}")


def probe() -> dict | str:
    """The report of a fresh interpreter, or the last line of its error message."""
    process = subprocess.run([sys.executable, "-c", _PROBE], capture_output=True, text=True, timeout=180)  # noqa: S603
    if process.returncode != 0:
        return (process.stderr.strip().splitlines() or [f"status {process.returncode}"])[-1]
    return json.loads(process.stdout.strip().splitlines()[-1])


def extras() -> Iterator[Line]:
    """For each extra the versions of its packages, or how to install it."""
    for extra, needed in requirements().items():
        if extra not in ("", "test", "dev"):
            rows = [_installed(requirement) for requirement in needed]
            remedy = "" if all(fits for _, _, fits in rows) else f"pip install 'vse-pipe[{extra}]'"
            yield Line(OK, f"extra {extra}", ", ".join(f"{name} {text}" for name, text, _ in rows), remedy)


def requirements() -> dict[str, list[str]]:
    """Requirements of the installed package by extra. The empty name holds those of every installation."""
    needed: dict[str, list[str]] = {"": []}
    for text in metadata("vse-pipe").get_all("Requires-Dist") or []:
        requirement, _, condition = text.partition(";")
        extra = re.search(r"""extra == ["']([^"']+)""", condition)
        needed.setdefault(extra[1] if extra else "", []).append(requirement.strip())
    return needed


def _installed(requirement: str) -> tuple[str, str, bool]:
    """(name, version or problem, fits): the package and whether it fits the requirement."""
    from packaging.requirements import Requirement

    needed = Requirement(requirement)
    try:
        current = version(needed.name)
    except PackageNotFoundError:
        return needed.name, "is not installed", False
    # A release candidate is in the range if its number is.
    fits = needed.specifier.contains(current, prereleases=True)
    return needed.name, current if fits else f"{current}, outside {needed.specifier}", fits
